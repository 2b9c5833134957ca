"""A tripwire: simulated code that touches the machine fails its run.

An audit hook cannot be removed, so one is installed on first use and armed only while a simulated run is on,
for the thread that runs it. Starting a thread raises no audit event before Python 3.12, so that method is
guarded by hand meanwhile. Importing a module and printing a traceback open files too; those are let
through.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, NoReturn

from firearrow.expression.sql import sql_parser

FORBIDDEN_EVENTS: Final = frozenset({"open", "time.sleep", "mmap.__new__"})
FORBIDDEN_PREFIXES: Final = ("os.", "socket.", "subprocess.", "shutil.", "tempfile.", "fcntl.", "glob.")
_EXCUSED_FILES: Final = ("<frozen importlib", "importlib/", "linecache.py", "traceback.py")
_BOTTOM: Final = "_run_once"  # the loop's turn: below it is the test runner, not the simulated code


class ForbiddenEffect(AssertionError):
    """Simulated code reached past the doors."""


class _Tripwire:
    def __init__(self) -> None:
        self.installed = False
        self.armed_thread: int | None = None
        self.tripped: list[str] = []

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.armed_thread is None or self.armed_thread != threading.get_ident():
            return
        if (event in FORBIDDEN_EVENTS or event.startswith(FORBIDDEN_PREFIXES)) and not _excused():
            self.trip(f"{event}{args!r}")

    def trip(self, effect: str) -> NoReturn:
        self.tripped.append(effect)
        raise ForbiddenEffect(f"simulated code reached past the doors: {effect}")

    @contextmanager
    def no_threads(self) -> Iterator[None]:
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if threading.get_ident() != self.armed_thread:
                start(thread)
            else:
                self.trip(f"{thread!r}.start()")

        threading.Thread.start = refuse  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            threading.Thread.start = start  # type: ignore[method-assign]


_TRIPWIRE: Final = _Tripwire()


@contextmanager
def no_outside_effects() -> Iterator[None]:
    """Fail the block when anything inside touches files, sockets, processes or threads."""
    if not _TRIPWIRE.installed:
        _TRIPWIRE.installed = True
        with suppress(ImportError):
            sql_parser()  # lark looks at files while it makes a parser; brokers share the parser of the process
        sys.addaudithook(_TRIPWIRE.hook)
    before = _TRIPWIRE.armed_thread
    _TRIPWIRE.armed_thread = threading.get_ident()
    _TRIPWIRE.tripped.clear()
    try:
        with _TRIPWIRE.no_threads():
            yield
    finally:
        _TRIPWIRE.armed_thread = before
    if _TRIPWIRE.tripped:  # the error itself may have been swallowed by a broad except
        raise ForbiddenEffect(f"simulated code reached past the doors: {'; '.join(_TRIPWIRE.tripped)}")


def _excused() -> bool:
    frame: FrameType | None = sys._getframe()  # noqa: SLF001
    while frame is not None and frame.f_code.co_name != _BOTTOM:
        if any(part in frame.f_code.co_filename for part in _EXCUSED_FILES):
            return True
        frame = frame.f_back
    return False
