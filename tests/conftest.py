"""Fixtures of all tests; one of them fails a test during which a server logged an exception."""

import gc
import resource
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from firearrow.testing.complaints import hearing

pytest_plugins = ["judges.pytest_plugin", "tests.failures", "tests.outcomes", "tests.slices"]


def pytest_collect_file(file_path: Path) -> None:
    """Set Hypothesis up before it is first used; unit tests that do not name it are spared the import.

    No deadline: on a busy machine an example may be slow; code that must be fast has a benchmark of its own.
    """
    if not file_path.match("test_*.py") or _PROFILE in _LOADED:
        return
    if "unit" not in file_path.parts or "hypothesis" in sys.modules or "hypothesis" in file_path.read_text("utf-8"):
        from hypothesis import settings

        settings.register_profile(_PROFILE, deadline=None)
        settings.load_profile(_PROFILE)
        _LOADED.add(_PROFILE)


_PROFILE: Final = "firearrow"
_LOADED: Final[set[str]] = set()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and every process of a test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _Garbage:
    """Collects what tests leave once it is large.

    A simulated world is garbage with whole disks in it: much memory in few objects, and the collector counts objects.
    """

    MOST_BYTES = 64 << 20

    def __init__(self) -> None:
        self._kept = self._resident()

    def collect_if_large(self) -> None:
        """Collect garbage when this process has grown since the last time; a no-op where its size cannot be read."""
        if self._resident() - self._kept > self.MOST_BYTES:
            gc.collect()
            self._kept = self._resident()

    @staticmethod
    def _resident() -> int:
        file = Path("/proc/self/statm")
        return int(file.read_text().split()[1]) * resource.getpagesize() if file.exists() else 0


_GARBAGE = _Garbage()


@pytest.fixture(scope="session", autouse=True)
def complaints() -> Iterator[list[str]]:
    """Exceptions of handlers, callbacks and forgotten tasks in this process since the last test ended."""
    heard: list[str] = []

    def hear(words: str, error: BaseException | None) -> None:
        heard.append(words if error is None else f"{words}\n{''.join(traceback.format_exception(error))}")

    with hearing(hear):
        yield heard
        gc.collect()  # a task that was never awaited logs its exception when it is collected
    assert not heard, "after the last test: " + "\n".join(heard)


@pytest.fixture(autouse=True)
def nobody_complains(complaints: list[str], request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test during which a server logged an exception; ``@pytest.mark.complaints("word", ...)`` allows some."""
    _GARBAGE.collect_if_large()  # not behind the test, whose world is still in use there
    yield
    marker = request.node.get_closest_marker("complaints")
    allowed = marker.args if marker else ()
    wrong = [words for words in complaints if not any(word in words for word in allowed)]
    complaints.clear()
    assert not wrong, f"{len(wrong)} exceptions in logs, the first: {wrong[0]}"
