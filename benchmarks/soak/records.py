"""The records of clients: acknowledged messages, deliveries to each group, and the delay of each.

Files are read as they grow and folded at once, so that hours fit into memory: a byte a message and group, and a
histogram of delays for every two seconds.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DELIVERY = np.dtype([("number", ">i8"), ("sent_ns", ">i8"), ("seen_ns", ">i8")])
NUMBER = np.dtype([("number", ">i8")])
SLICE_NS = 2_000_000_000
SHORTEST_MS, LONGEST_MS, STEP = 0.01, 1_000_000.0, 1.01
"""Bounds of the histogram, and how much wider each bin is than the one before it."""
_EDGES = SHORTEST_MS * STEP ** np.arange(int(np.log(LONGEST_MS / SHORTEST_MS) / np.log(STEP)) + 1)

Records = NDArray[np.void]
Counts = NDArray[np.int32]


class Tail:
    """A file of records that grows."""

    def __init__(self, path: Path, kind: np.dtype[np.void]) -> None:
        self._path = path
        self._kind = kind
        self._read = 0

    def more(self) -> Records:
        """The whole records that were added since."""
        if not self._path.exists():
            return np.zeros(0, self._kind)
        size = self._kind.itemsize
        count = (self._path.stat().st_size - self._read) // size
        found: Records = np.fromfile(self._path, self._kind, count, offset=self._read)
        self._read += len(found) * size
        return found


class Numbers:
    """The set of numbered messages that occurred."""

    def __init__(self) -> None:
        self._seen = np.zeros(1 << 16, np.bool_)
        self.total = 0

    def add(self, numbers: NDArray[np.int64]) -> None:
        """These occurred; some perhaps not for the first time."""
        while len(numbers) and int(numbers.max()) >= len(self._seen):
            self._seen = np.concatenate([self._seen, np.zeros_like(self._seen)])
        self._seen[numbers] = True
        self.total += len(numbers)

    @property
    def distinct(self) -> int:
        """The number of different messages."""
        return int(np.count_nonzero(self._seen))

    def missing_from(self, other: "Numbers") -> NDArray[np.int64]:
        """Those that the other has not."""
        size = max(len(self._seen), len(other._seen))
        here, there = (np.pad(one._seen, (0, size - len(one._seen))) for one in (self, other))
        return np.flatnonzero(here & ~there)


class Delays:
    """A histogram of milliseconds from the send to the listener."""

    def __init__(self) -> None:
        self._bins: Counts = np.zeros(len(_EDGES) + 1, np.int32)
        self.longest_ms = 0.0

    def add(self, delays_ms: NDArray[np.float64]) -> None:
        """Count them."""
        if len(delays_ms):
            found = np.bincount(np.searchsorted(_EDGES, delays_ms), minlength=len(self._bins))
            self._bins += found.astype(np.int32)
            self.longest_ms = max(self.longest_ms, float(delays_ms.max()))

    def merge(self, other: "Delays") -> None:
        """Count the other's too."""
        self._bins += other._bins
        self.longest_ms = max(self.longest_ms, other.longest_ms)

    @property
    def count(self) -> int:
        """The number of delays."""
        return int(self._bins.sum())

    def percentile(self, part: float) -> float:
        """The delay that this part of them does not exceed."""
        if not self.count:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._bins), part * self.count))
        return min(float(_EDGES[min(place, len(_EDGES) - 1)]), self.longest_ms)

    def over(self, limit_ms: float) -> float:
        """The part of them that is later than this."""
        return float(self._bins[int(np.searchsorted(_EDGES, limit_ms)) + 1 :].sum()) / max(self.count, 1)


class Delivered:
    """The deliveries to one group."""

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.slices: dict[int, Delays] = {}
        """By the time of sending, in units of SLICE_NS."""

    def add(self, records: Records) -> None:
        """More deliveries."""
        numbers = records["number"].astype(np.int64)
        self.numbers.add(numbers)
        delays = (records["seen_ns"].astype(np.int64) - records["sent_ns"].astype(np.int64)) / 1e6
        slices = records["sent_ns"].astype(np.int64) // SLICE_NS
        for place in np.unique(slices):
            self.slices.setdefault(int(place), Delays()).add(delays[slices == place])

    def between(self, from_ns: int, to_ns: int) -> Delays:
        """Delays of what was sent in this time, to whole slices inside it."""
        found = Delays()
        for place, delays in self.slices.items():
            if place * SLICE_NS >= from_ns and (place + 1) * SLICE_NS <= to_ns:
                found.merge(delays)
        return found
