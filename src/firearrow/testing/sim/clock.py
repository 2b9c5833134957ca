"""A wall clock that may be wrong.

Wall time is the world's epoch plus virtual time, seen through this node's faults: a constant skew, a drift in
parts per million, and jumps. Ticks are virtual time itself.
"""

from typing import Final

from firearrow.testing.sim.loop import SimLoop

EPOCH_MS: Final = 1_700_000_000_000


class SimClock:
    """The clock of one node."""

    def __init__(self, loop: SimLoop, *, skew_ms: int = 0, drift_ppm: float = 0.0) -> None:
        self._loop = loop
        self._offset_ms = EPOCH_MS + loop.now * 1000.0 + skew_ms
        self._rate = 1000.0 * (1.0 + drift_ppm / 1e6)
        self._since = loop.now

    def now_ms(self) -> int:
        """Return what this node takes for wall time."""
        return int(self._offset_ms + (self._loop.now - self._since) * self._rate)

    def now_ns(self) -> int:
        """Return the same in nanoseconds."""
        return self.now_ms() * 1_000_000

    def ticks(self) -> int:
        """Return virtual nanoseconds."""
        return int(self._loop.now * 1e9)

    def cpu_ns(self) -> int:
        """Return virtual nanoseconds: work takes no time in a simulation."""
        return self.ticks()

    def jump(self, by_ms: int) -> None:
        """Move wall time at once, either way."""
        self._offset_ms += by_ms

    def drift(self, ppm: float) -> None:
        """Run fast (positive) or slow (negative) from now on."""
        self._offset_ms += (self._loop.now - self._since) * self._rate
        self._since = self._loop.now
        self._rate = 1000.0 * (1.0 + ppm / 1e6)
