"""The events of a run, as a running hash and a tail to read.

Every event that crosses a door is added with its virtual time. Two runs are the same run when their hashes
are equal; the tail is what a failed run prints.
"""

import hashlib
from collections import Counter, deque
from typing import Final

from firearrow.testing.sim.loop import SimLoop

TAIL_EVENTS: Final = 400


class Trace:
    """The events of one run."""

    def __init__(self, loop: SimLoop, *, tail: int = TAIL_EVENTS) -> None:
        self._loop = loop
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[str] = deque(maxlen=tail)
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, detail: str) -> None:
        """Record one event; ``kind`` is counted, ``detail`` is for the reader and the hash."""
        line = f"{self._loop.now:.9f} {kind} {detail}"
        self._hash.update(line.encode())
        self._tail.append(line)
        self.counts[kind] += 1

    @property
    def digest(self) -> str:
        """The hash of everything so far."""
        return self._hash.copy().hexdigest()

    def tail(self, events: int = TAIL_EVENTS) -> list[str]:
        """Return the last events, oldest first."""
        return list(self._tail)[-events:]
