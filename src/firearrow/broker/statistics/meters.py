"""Counters and their rates over the last seconds, minutes, hours and the day.

A handler adds to `TrafficCounts`, which costs one addition. `Meter.sample` is called periodically and records the
current
values; rates are differences between these notes. Pure; time is an argument, in elapsed milliseconds. Java:
``StatsItem``, ``StoreStatsService``.
"""

from collections import deque
from typing import Final, NamedTuple

from msgspec import Struct

SAMPLE_MS: Final = 10_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000


class TrafficCounts(Struct, gc=False):
    """Messages and bytes counted since the start."""

    messages: int = 0
    size: int = 0


class SpanGrowth(NamedTuple):
    """The growth of a number in a span of time: in total, per second, and per event."""

    total: int
    per_second: float
    per_event: float


class _Note(NamedTuple):
    at_ms: int
    total: int
    events: int


class History:
    """Past values of one number: close together for the last minutes, further apart for a day."""

    __slots__ = ("_coarse", "_fine", "_middle")

    def __init__(self, at_ms: int) -> None:
        first = _Note(at_ms, 0, 0)
        self._fine: deque[_Note] = deque([first], maxlen=61)
        self._middle: deque[_Note] = deque([first], maxlen=61)
        self._coarse: deque[_Note] = deque([first], maxlen=25)

    def note(self, now_ms: int, total: int, events: int) -> None:
        """Record the current value."""
        note = _Note(now_ms, total, events)
        self._fine.append(note)
        if now_ms - self._middle[-1].at_ms >= MINUTE_MS:
            self._middle.append(note)
        if now_ms - self._coarse[-1].at_ms >= HOUR_MS:
            self._coarse.append(note)

    def over(self, span_ms: int, now_ms: int, total: int, events: int) -> SpanGrowth:
        """Return the growth since the latest note that is at least ``span_ms`` old, or since the first note."""
        notes = self._fine if span_ms <= 10 * MINUTE_MS else self._middle if span_ms <= HOUR_MS else self._coarse
        since = next((note for note in reversed(notes) if note.at_ms <= now_ms - span_ms), notes[0])
        elapsed = now_ms - since.at_ms
        happened, times = total - since.total, events - since.events
        return SpanGrowth(happened, happened * 1000 / elapsed if elapsed else 0.0, happened / times if times else 0.0)


class Meter:
    """A number with its history."""

    __slots__ = ("events", "history", "total")

    def __init__(self, at_ms: int) -> None:
        self.total = 0
        self.events = 0
        self.history = History(at_ms)

    def add(self, amount: int, events: int = 1) -> None:
        """Add to the number, and to the number of events."""
        self.total += amount
        self.events += events

    def sample(self, now_ms: int) -> None:
        """Record the current value in the history."""
        self.history.note(now_ms, self.total, self.events)

    def over(self, span_ms: int, now_ms: int) -> SpanGrowth:
        """Return the growth over the last ``span_ms``."""
        return self.history.over(span_ms, now_ms, self.total, self.events)
