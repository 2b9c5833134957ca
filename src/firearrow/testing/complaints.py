"""Exceptions that a server only logs: of a handler, of a callback of the loop, of a task that is not awaited.

The client of such a server gets an error at most and retries, so a suite that checks only messages passes in spite of
thousands of them. Tests collect them here: in this process by `hearing`, which listens to the loggers of FireArrow and
asyncio (uvloop uses the same one), and from the log of another process by `complaints_in`.

Errors of a user's own message handler, filter or rebalance listener are logged by the client and do not count.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from firearrow.errors import FireArrowError

LOGGERS: Final = ("firearrow", "asyncio")
OF_USERS: Final = frozenset(
    f"firearrow.client.consumer.{name}" for name in ("message", "queue.handler_call", "queue.rebalance_listener")
)
"""Loggers of what handlers, filters and listeners of users raised."""
MARKS: Final = ("Traceback (most recent call last)", "exception was never retrieved", "Exception in callback")
"""Texts that mark a complaint in the log of a process."""
LINES_SHOWN: Final = 25

Hear = Callable[[str, BaseException | None], None]


class Complained(FireArrowError):
    """A server logged an exception that the test did not expect."""


class _Ear(logging.Handler):
    def __init__(self, hear: Hear) -> None:
        super().__init__(logging.ERROR)
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        is_loop = record.name == "asyncio"
        if record.name not in OF_USERS and (is_loop or error is not None):
            self._hear(f"{record.name}: {record.getMessage()}", error)


@contextmanager
def hearing(hear: Hear) -> Iterator[None]:
    """Within the block call ``hear`` with the log line and the exception of every complaint of this process.

    If blocks are nested, only the innermost is called.
    """
    outer = [ear for ear in logging.getLogger(LOGGERS[0]).handlers if isinstance(ear, _Ear)]
    _exchange(outer, [_Ear(hear)])
    try:
        yield
    finally:
        inner = [ear for ear in logging.getLogger(LOGGERS[0]).handlers if isinstance(ear, _Ear)]
        _exchange(inner, outer)


def _exchange(old: list[_Ear], new: list[_Ear]) -> None:
    for logger in map(logging.getLogger, LOGGERS):
        for ear in old:
            logger.removeHandler(ear)
        for ear in new:
            logger.addHandler(ear)


def complaints_in(log: str, forgiven: Iterable[str] = ()) -> list[str]:
    """Return the complaints in the log of a server, with the lines around them, without those with a forgiven text."""
    lines = log.splitlines()
    found: list[str] = []
    end = 0
    for number, line in enumerate(lines):
        if number >= end and any(mark in line for mark in MARKS):
            end = number + LINES_SHOWN
            found.append("\n".join(lines[max(0, number - 1) : end]))
    words = tuple(forgiven)
    return [complaint for complaint in found if not any(word in complaint for word in words)]
