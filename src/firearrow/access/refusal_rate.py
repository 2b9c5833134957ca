"""The limit on refusals in the audit log: any client can cause refusals without end, and lines cost disk space. Pure.

Every source has a bucket of lines, so that one source does not hide the refusals of others, and all sources together
have one, so that many sources do not fill the disk. A refusal without room in both is counted instead of written.
"""

from typing import Final

SOURCE_BURST: Final = 100.0
SOURCE_LINES_S: Final = 1.0
"""Lines of one source: at once, and a second."""
ALL_BURST: Final = 10_000.0
ALL_LINES_S: Final = 100.0
SOURCES_MAX: Final = 1024
"""The most sources with a bucket of their own; further ones have none until a bucket is full again."""
FORGET_EVERY_S: Final = 1.0
"""Buckets are not looked through more often: strangers with many addresses would pay for it with our time."""


class _Lines:
    """The lines that may be written, up to a burst."""

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._at = burst, now

    def left(self, now: float) -> float:
        """Return how many lines may be written."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        return self._left

    def take(self) -> None:
        """Count a line."""
        self._left -= 1

    def is_full(self, now: float) -> bool:
        """Whether nothing was written for a while."""
        return self.left(now) >= self._burst


class RefusalRate:
    """Says which refusals are written."""

    def __init__(self, now: float) -> None:
        self._all = _Lines(ALL_BURST, ALL_LINES_S, now)
        self._sources: dict[tuple[str, str], _Lines] = {}
        self._looked_at = now

    def passes(self, source: str, stage: str, now: float) -> bool:
        """Whether a refusal is written; strangers and known users of one source do not share their lines."""
        of_source = self._of(source, stage, now)
        if of_source is None or of_source.left(now) < 1 or self._all.left(now) < 1:
            return False
        of_source.take()
        self._all.take()
        return True

    def _of(self, source: str, stage: str, now: float) -> _Lines | None:
        found = self._sources.get((source, stage))
        if found is None:
            if len(self._sources) >= SOURCES_MAX and now - self._looked_at >= FORGET_EVERY_S:
                self._looked_at = now
                self._sources = {key: lines for key, lines in self._sources.items() if not lines.is_full(now)}
            if len(self._sources) >= SOURCES_MAX:
                return None
            found = self._sources[source, stage] = _Lines(SOURCE_BURST, SOURCE_LINES_S, now)
        return found
