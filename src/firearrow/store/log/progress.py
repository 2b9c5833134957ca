"""The progress of the log: its levels, the waiters for an offset, and the dispatch of rows.

Two levels, WRITTEN and FLUSHED, each an offset that only grows. Each waiter is called once: when its offset is reached,
or with the error why it never will be. Rows are dispatched, in order, when the level is reached at which they may be
read. After `fence` no offset is reached any more.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from sys import maxsize
from typing import TypeAlias

from firearrow.errors import DiskError, FireArrowError, StoreFenced
from firearrow.store.log.waiters import OnReached, Waiters
from firearrow.store.placement import FLUSHED, WRITTEN, Level, Rows

Sink: TypeAlias = Callable[[Rows], None]
"""Gets the rows of the log in order, each once."""


class Progress:
    """The levels of a log."""

    __slots__ = (
        "_confirmed",
        "_dispatches_written",
        "_growth",
        "_rows",
        "_sink",
        "_waiters",
        "fenced",
        "flushed",
        "kept_at",
        "on_fenced",
        "on_written",
        "written",
    )

    def __init__(self, end: int, sink: Sink, dispatches_at: Level) -> None:
        self.written = end
        """Bytes below survive the end of this process."""
        self.flushed = end
        """Bytes below survive a power loss."""
        self.fenced: StoreFenced | None = None
        self._sink = sink
        self.kept_at = dispatches_at
        """The level at which a record may be acknowledged and read."""
        self._dispatches_written = dispatches_at is WRITTEN
        self._confirmed = maxsize
        self._rows: deque[tuple[int, Rows]] = deque()
        self._waiters = (Waiters(), Waiters())
        self._growth: list[Callable[[], None]] = []
        self.on_fenced: Callable[[], None] = lambda: None
        """Called once, when the log is fenced."""
        self.on_written: Callable[[], None] | None = None
        """Called after every write: there are bytes to flush."""

    def keep_at(self, level: Level) -> None:
        """Let records be acknowledged and read at another level from now on."""
        self.kept_at = level
        self._dispatches_written = level is WRITTEN
        self._dispatch(self.kept)

    @property
    def kept(self) -> int:
        """Bytes below may be acknowledged and read."""
        return self.flushed if self.kept_at is FLUSHED else self.written

    def has_reached(self, offset: int, level: Level) -> bool:
        """Whether all bytes below ``offset`` have reached the level."""
        return offset <= (self.flushed if level is FLUSHED else self.written)

    def on_reached(self, offset: int, level: Level, call: OnReached) -> None:
        """Call ``call`` once all bytes below ``offset`` have reached the level, or with the error that prevents it."""
        if self.fenced is not None:
            call(self.fenced)
        elif offset <= (self.flushed if level is FLUSHED else self.written):
            call(None)
        else:
            waiters = self._waiters[level]
            if waiters.calls and waiters.calls[-1][0] > offset:
                waiters.add(offset, call)
            else:  # what `add` does, without the call: most waiters wait for the end of the log
                waiters.calls.append((offset, call))

    async def reached(self, offset: int, level: Level) -> None:
        """Wait until all bytes below ``offset`` have reached the level."""
        if self.has_reached(offset, level) and self.fenced is None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def resolve(error: FireArrowError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.on_reached(offset, level, resolve)
        await future

    def on_growth(self, call: Callable[[], None]) -> None:
        """Call ``call`` once, at the next write or when the log is fenced."""
        self._growth.append(call)

    def fence(self, error: Exception) -> StoreFenced:
        """Stop all progress, and call every waiter with the error."""
        if self.fenced is None:
            self.fenced = StoreFenced(f"the store takes no messages since a write or sync failed: {error}; restart it")
            self.fenced.__cause__ = error
            for waiters in self._waiters:
                waiters.failed(self.fenced)
            self._wake_growth()
            self.on_fenced()
        return self.fenced

    def note_written(self, offset: int) -> None:
        """Note that all bytes below ``offset`` survive the end of this process."""
        if self.fenced is not None:
            return
        self.written = offset
        calls = self._waiters[WRITTEN].calls
        while calls and calls[0][0] <= offset:  # what `Waiters.reached` does, without the call
            calls.popleft()[1](None)
        if self._growth:
            self._wake_growth()
        if self._dispatches_written:
            self._dispatch(offset)
        if self.on_written is not None:
            self.on_written()

    def _advance_flushed(self, offset: int) -> None:
        """Note that all bytes below ``offset`` are flushed."""
        self.flushed = offset
        self._waiters[FLUSHED].reached(offset)
        if not self._dispatches_written:
            self._dispatch(offset)

    def _has_waiters(self, level: Level) -> bool:
        return bool(self._waiters[level].calls)

    def _take_waiting(self, above: int) -> list[OnReached]:
        """Remove and return the waiters for offsets above ``above``; the caller must call them."""
        return [call for waiters in self._waiters for call in waiters.take(above)]

    def _wake_growth(self) -> None:
        growth, self._growth = self._growth, []
        for wake in growth:
            wake()

    def dispatch_below(self, offset: int) -> None:
        """Dispatch nothing behind ``offset``, which other replicas do not have yet, until a later call says more."""
        self._confirmed = offset
        if self._rows:
            self._dispatch(self.kept)

    def _dispatch(self, offset: int) -> None:
        offset = min(offset, self._confirmed)
        rows = self._rows
        while rows and rows[0][0] <= offset:
            batch = rows.popleft()[1]
            if not batch:
                continue
            try:
                self._sink(batch)
            except DiskError as error:
                # The fence reports the error to all waiters; raising it further would not help against a bad disk.
                self.fence(error)
                return
            except Exception as error:  # a bug in the queues or the index: rows may be missing there (`store.dispatch`)
                self.fence(error)
                raise
