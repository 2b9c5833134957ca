"""Ctrl-C and SIGTERM while a job of Spark runs: the job ends in order, and no library prints a trace of its own.

A signal that arrives during a call to the JVM breaks the connection of that call, so `deferred` keeps signals until the
job looks for them. Jobs that wait inside one long call are interrupted there; py4j's own report of it is left out.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

NOTICE: Final = "KeyboardInterrupt while sending command."
"""The line that py4j logs, with a trace, for an interrupted call."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class JobTerminated(KeyboardInterrupt):
    """SIGTERM came, as from a scheduler that ends a job."""


class LastSignal:
    """The last signal that came, 0 before."""

    def __init__(self) -> None:
        self.signal = 0

    def keep(self, number: int, _frame: FrameType | None) -> None:
        """Note a signal; used as its handler."""
        self.signal = number

    def error(self) -> KeyboardInterrupt:
        """Return what the signal means to the job."""
        return JobTerminated() if self.signal == signal.SIGTERM else KeyboardInterrupt()


def status_of(error: KeyboardInterrupt) -> int:
    """Return the exit status of an interrupted command, as shells count it."""
    return 128 + (signal.SIGTERM if isinstance(error, JobTerminated) else signal.SIGINT)


@contextmanager
def quiet_interruptions() -> Iterator[None]:
    """Within the block, SIGTERM interrupts as Ctrl-C does, and py4j does not report interrupted calls."""

    def is_news(record: logging.LogRecord) -> bool:
        return record.getMessage() != NOTICE

    root = logging.getLogger()
    root.addFilter(is_news)
    try:
        with _handled(signal.SIGTERM, handler=_terminate):
            yield
    finally:
        root.removeFilter(is_news)


@contextmanager
def deferred() -> Iterator[LastSignal]:
    """Keep Ctrl-C and SIGTERM within the block; the job asks for them."""
    kept = LastSignal()
    with _handled(*SIGNALS, handler=kept.keep):
        yield kept


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise JobTerminated


@contextmanager
def _handled(*numbers: signal.Signals, handler: "signal._HANDLER") -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python delivers signals to the main thread only
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, kept in before.items():
            signal.signal(number, kept)
