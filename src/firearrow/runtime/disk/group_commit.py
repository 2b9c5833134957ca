"""Group commit and the fence: which callers wait for which sync of one file.

At most one sync of a file runs at a time. A sync covers what was written before it began, so callers that ask
while one runs share the next one; a hundred callers cost two syncs. A failed sync fences the file: waiting
callers fail, and so do all later ones, because the kernel has forgotten which pages it could not store and would
report success next time.

A sync that could not begin (no descriptor is free) fails its callers and fences nothing: the pages are still dirty,
and the next sync stores them.

No task is made, and the cancellation of one caller does not stop a sync that others wait for: a callable begins
the sync and reports its end through a callback, perhaps at once.
"""

import asyncio
from collections.abc import Callable

from firearrow.errors import SyncFailed
from firearrow.runtime.disk.door import refusal

SyncEnded = Callable[[OSError | None], None]
BeginSync = Callable[[SyncEnded], None]
"""Begins a sync; raises ``OSError`` when it cannot, and nothing was asked of the kernel."""


class SyncTurns:
    """The syncs of one file or directory, one after the other."""

    __slots__ = ("_begin", "_fence", "_next", "_now", "_running", "_what")

    def __init__(self, what: str, begin: BeginSync) -> None:
        self._what = what
        self._begin = begin
        self._running = False
        self._now: list[asyncio.Future[None]] = []
        self._next: list[asyncio.Future[None]] = []
        self._fence: OSError | None = None

    @property
    def busy(self) -> bool:
        """Whether a sync runs."""
        return self._running

    @property
    def fenced(self) -> bool:
        """Whether a sync has failed, so that none will succeed any more."""
        return self._fence is not None

    async def sync(self) -> None:
        """Return once everything written before this call is durable."""
        if self._fence is not None:
            raise self._refusal()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._running:
            self._next.append(waiter)
        else:
            self._now.append(waiter)
            self._start()
        await waiter

    def _start(self) -> None:
        self._running = True
        try:
            self._begin(self._ended)
        except OSError as error:
            self._running = False
            served, self._now = self._now + self._next, []
            self._next = []
            for waiter in served:
                if not waiter.done():
                    waiter.set_exception(refusal(error, f"sync {self._what}"))

    def _ended(self, error: OSError | None) -> None:
        self._running = False
        served, self._now, self._next = self._now, self._next, []
        if error is not None:
            self._fence = error
            served, self._now = served + self._now, []
        for waiter in served:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(self._refusal())
        if self._now:
            self._start()

    def _refusal(self) -> SyncFailed:
        assert self._fence is not None
        reason = self._fence.strerror or str(self._fence)
        advice = "what was not synced before is lost; restart and read the file again"
        return SyncFailed(f"a sync of {self._what} failed: {reason}; {advice}", self._fence.errno)
