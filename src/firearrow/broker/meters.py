"""Numbers that grow, and how fast they grow: over the last seconds, minutes, hours and the day.

Whoever does the work adds to `Counts`, which costs an addition. Once in a while `Meter.sample` notes where the numbers
are, and the differences between such notes are the rates. Pure; time is an argument, in elapsed milliseconds. Java:
``StatsItem``, ``StoreStatsService``.
"""

from collections import deque
from typing import Final, NamedTuple

from msgspec import Struct

SAMPLE_MS: Final = 10_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000


class Counts(Struct, gc=False):
    """How much of something there was since the start."""

    messages: int = 0
    size: int = 0


class Span(NamedTuple):
    """What happened in a span of time: a sum, its share a second, and its share an event."""

    total: int
    per_second: float
    per_event: float


class _Note(NamedTuple):
    at_ms: int
    total: int
    events: int


class History:
    """Notes of one number: close together for the last minutes, further apart for a day."""

    __slots__ = ("_coarse", "_fine", "_middle")

    def __init__(self, at_ms: int) -> None:
        first = _Note(at_ms, 0, 0)
        self._fine: deque[_Note] = deque([first], maxlen=61)
        self._middle: deque[_Note] = deque([first], maxlen=61)
        self._coarse: deque[_Note] = deque([first], maxlen=25)

    def note(self, now_ms: int, total: int, events: int) -> None:
        """Remember where the number is."""
        note = _Note(now_ms, total, events)
        self._fine.append(note)
        if now_ms - self._middle[-1].at_ms >= MINUTE_MS:
            self._middle.append(note)
        if now_ms - self._coarse[-1].at_ms >= HOUR_MS:
            self._coarse.append(note)

    def over(self, span_ms: int, now_ms: int, total: int, events: int) -> Span:
        """What happened since the last note that is at least ``span_ms`` old, or since the first."""
        notes = self._fine if span_ms <= 10 * MINUTE_MS else self._middle if span_ms <= HOUR_MS else self._coarse
        since = next((note for note in reversed(notes) if note.at_ms <= now_ms - span_ms), notes[0])
        elapsed = now_ms - since.at_ms
        happened, times = total - since.total, events - since.events
        return Span(happened, happened * 1000 / elapsed if elapsed else 0.0, happened / times if times else 0.0)


class Meter:
    """A number with its history."""

    __slots__ = ("events", "history", "total")

    def __init__(self, at_ms: int) -> None:
        self.total = 0
        self.events = 0
        self.history = History(at_ms)

    def add(self, amount: int, events: int = 1) -> None:
        """Count."""
        self.total += amount
        self.events += events

    def sample(self, now_ms: int) -> None:
        """Note where the number is."""
        self.history.note(now_ms, self.total, self.events)

    def over(self, span_ms: int, now_ms: int) -> Span:
        """What happened lately."""
        return self.history.over(span_ms, now_ms, self.total, self.events)
