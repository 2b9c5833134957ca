"""Decides where the next sync runs: on the loop, in a side process, or in a thread. Pure, from measured times.

A sync on the loop costs only its own duration, which is the best choice while that is short. A sync in a thread
must get the interpreter's lock back from a busy loop, which costs more than a short sync itself; a sync in
another process does not. So:

* the first few go to a thread, which costs nothing to set up, and are measured;
* while the 99th percentile stays under ``INLINE_LIMIT_NS`` small syncs run on the loop;
* otherwise they run in the side process, and return to the loop when its measurements allow, after a longer time
  with each return;
* a sync of many unsynced bytes never runs on the loop.
"""

import enum
from collections import deque
from typing import Final

INLINE_LIMIT_NS: Final = 200_000
INLINE_BYTES_MAX: Final = 1 << 20
FIRST_SAMPLES: Final = 16
WINDOW: Final = 128
SLOW_ALLOWED: Final = 2  # of a window: a little more than one percent
RELUCTANCE_MAX: Final = 64


class SyncPlace(enum.Enum):
    """The place where a sync runs: on the loop, in a process or in a thread."""

    INLINE = "inline"
    PROCESS = "process"
    THREAD = "thread"


class SyncChoice:
    """Remembers the durations of syncs and chooses the route of the next."""

    def __init__(self) -> None:
        self._route = SyncPlace.THREAD
        self._slow: deque[bool] = deque(maxlen=WINDOW)
        self._needed = FIRST_SAMPLES
        self._seen = 0
        self._reluctance = 1
        self._process_works = True

    @property
    def usual(self) -> SyncPlace:
        """The route of small syncs."""
        return self._route

    def route(self, unsynced_bytes: int) -> SyncPlace:
        """Return where a sync of so many bytes runs."""
        if self._route is SyncPlace.INLINE and unsynced_bytes > INLINE_BYTES_MAX:
            return SyncPlace.PROCESS if self._process_works else SyncPlace.THREAD
        return self._route

    def no_process(self) -> None:
        """Use threads from now on, because the side process could not be started."""
        self._process_works = False
        if self._route is SyncPlace.PROCESS:
            self._route = SyncPlace.THREAD

    def took(self, nanoseconds: int, unsynced_bytes: int) -> None:
        """Note the duration of a sync; large syncs do not count."""
        if unsynced_bytes > INLINE_BYTES_MAX:
            return
        self._slow.append(nanoseconds >= INLINE_LIMIT_NS)
        self._seen += 1
        slow = sum(self._slow)
        if self._route is SyncPlace.INLINE:
            if slow > SLOW_ALLOWED:
                self._reluctance = min(RELUCTANCE_MAX, self._reluctance * 2)
                self._go(self._away(), WINDOW * self._reluctance)
        elif self._seen >= self._needed:
            if slow <= SLOW_ALLOWED * len(self._slow) // WINDOW:
                self._go(SyncPlace.INLINE, 0)
            elif self._route is SyncPlace.THREAD and self._process_works:
                self._go(SyncPlace.PROCESS, WINDOW)

    def _away(self) -> SyncPlace:
        return SyncPlace.PROCESS if self._process_works else SyncPlace.THREAD

    def _go(self, route: SyncPlace, needed: int) -> None:
        self._route = route
        self._needed = needed
        self._seen = 0
        self._slow.clear()
