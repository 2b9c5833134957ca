"""How far the log has come, who waits for it, and who takes its rows.

Two levels, WRITTEN and FLUSHED, each an offset that only grows. Whoever waits for an offset hears once: that it is
reached, or why it never will be. Rows leave for dispatch, in order, when the level is reached at which they may be
seen. After `fence` nothing is reached any more.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from firearrow.errors import DiskError, FireArrowError, StoreFenced
from firearrow.store.placement import FLUSHED, WRITTEN, Level, Rows
from firearrow.store.waiting import Told, Waiters

Sink: TypeAlias = Callable[[Rows], None]
"""Takes the rows of the log in order, each once."""


class Progress:
    """The levels of a log."""

    __slots__ = (
        "_dispatches_written",
        "_growth",
        "_rows",
        "_sink",
        "_waiters",
        "fenced",
        "flushed",
        "on_fenced",
        "on_written",
        "written",
    )

    def __init__(self, end: int, sink: Sink, dispatches_at: Level) -> None:
        self.written = end
        """Everything below survives the end of this process."""
        self.flushed = end
        """Everything below survives the loss of power."""
        self.fenced: StoreFenced | None = None
        self._sink = sink
        self._dispatches_written = dispatches_at is WRITTEN
        self._rows: deque[tuple[int, Rows]] = deque()
        self._waiters = (Waiters(), Waiters())
        self._growth: list[Callable[[], None]] = []
        self.on_fenced: Callable[[], None] = lambda: None
        """Called once, when nothing will be reached any more."""
        self.on_written: Callable[[], None] = lambda: None
        """Called after every write that reached WRITTEN: there is something to flush."""

    def has_reached(self, offset: int, level: Level) -> bool:
        """Whether everything below ``offset`` has come that far."""
        return offset <= (self.flushed if level is FLUSHED else self.written)

    def on_reached(self, offset: int, level: Level, call: Told) -> None:
        """Call ``call`` once everything below ``offset`` has come that far, or with the error that prevents it."""
        if self.fenced is not None:
            call(self.fenced)
        elif offset <= (self.flushed if level is FLUSHED else self.written):
            call(None)
        else:
            self._waiters[level].add(offset, call)

    async def reached(self, offset: int, level: Level) -> None:
        """Return once everything below ``offset`` has come that far."""
        if self.has_reached(offset, level) and self.fenced is None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(error: FireArrowError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.on_reached(offset, level, tell)
        await future

    def on_growth(self, call: Callable[[], None]) -> None:
        """Call ``call`` once, at the next write or when the log is fenced: the tail signal."""
        self._growth.append(call)

    def fence(self, error: Exception) -> StoreFenced:
        """Let nothing be reached from here on, and tell everyone who waits."""
        if self.fenced is None:
            self.fenced = StoreFenced(f"the store takes no messages since a write or sync failed: {error}; restart it")
            self.fenced.__cause__ = error
            for waiters in self._waiters:
                waiters.failed(self.fenced)
            self._wake_growth()
            self.on_fenced()
        return self.fenced

    def note_written(self, offset: int) -> None:
        """Everything below ``offset`` survives the end of this process."""
        if self.fenced is not None:
            return
        self.written = offset
        waiters = self._waiters[WRITTEN]
        if waiters.calls:
            waiters.reached(offset)
        if self._growth:
            self._wake_growth()
        if self._dispatches_written:
            self._dispatch(offset)
        self.on_written()

    def _came_to_be_flushed(self, offset: int) -> None:
        """Everything below ``offset`` is flushed."""
        self.flushed = offset
        self._waiters[FLUSHED].reached(offset)
        if not self._dispatches_written:
            self._dispatch(offset)

    def _somebody_waits(self, level: Level) -> bool:
        return bool(self._waiters[level].calls)

    def _take_waiting(self, above: int) -> list[Told]:
        """Let nobody wait for more than ``above``; the caller tells them."""
        return [call for waiters in self._waiters for call in waiters.take(above)]

    def _wake_growth(self) -> None:
        growth, self._growth = self._growth, []
        for wake in growth:
            wake()

    def _dispatch(self, offset: int) -> None:
        rows = self._rows
        while rows and rows[0][0] <= offset:
            batch = rows.popleft()[1]
            if not batch:
                continue
            try:
                self._sink(batch)
            except DiskError as error:
                # Whoever waits hears of the fence; nobody above this call could do more about a disk.
                self.fence(error)
                return
            except Exception as error:
                self.fence(error)
                raise
