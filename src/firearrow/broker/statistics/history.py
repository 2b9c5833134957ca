"""Past values of very many counters, in columns: a column for every moment, a row for every counter. Pure.

A moment is kept every ten seconds for a minute, every ten minutes for an hour, every two hours for a day: 27 columns of
16 bytes a row. A counter that is newer than a moment has no value there, which means zero. A sample visits all
counters, so it is an iterator that pauses every `ROWS_AT_ONCE` rows. Java: ``StatsItem``, which keeps a list per item.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from firearrow.broker.statistics.meters import DAY_MS, HOUR_MS, MINUTE_MS, SAMPLE_MS, SpanGrowth, TrafficCounts

ROWS_AT_ONCE: Final = 2_000


class _Moment(NamedTuple):
    at_ms: int
    messages: "array[int]"
    size: "array[int]"


class _SpacedMoments:
    """The moments of one span of time, at least ``apart_ms`` apart."""

    def __init__(self, span_ms: int, apart_ms: int, first: _Moment) -> None:
        self._apart_ms = apart_ms
        self.moments: deque[_Moment] = deque([first], maxlen=span_ms // apart_ms + 1)

    def add(self, moment: _Moment) -> None:
        if moment.at_ms - self.moments[-1].at_ms >= self._apart_ms:
            self.moments.append(moment)

    def before(self, at_ms: int) -> _Moment:
        return next((one for one in reversed(self.moments) if one.at_ms <= at_ms), self.moments[0])


class CountHistory:
    """Counters by row, and their past values."""

    def __init__(self, at_ms: int) -> None:
        first = _Moment(at_ms, array("q"), array("q"))
        self._latest_ms = at_ms
        self._spans = {
            MINUTE_MS: _SpacedMoments(MINUTE_MS, SAMPLE_MS, first),
            HOUR_MS: _SpacedMoments(HOUR_MS, 10 * MINUTE_MS, first),
            DAY_MS: _SpacedMoments(DAY_MS, 2 * HOUR_MS, first),
        }
        self._counts: list[TrafficCounts | None] = []
        self._since: array[int] = array("q")
        """The start time of every counter, by row."""
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._counts) - len(self._free)

    def add(self, counts: TrafficCounts) -> int:
        """Add a counter; return its row."""
        if self._free:
            row = self._free.pop()
            self._counts[row], self._since[row] = counts, self._latest_ms
            return row
        self._counts.append(counts)
        self._since.append(self._latest_ms)
        return len(self._counts) - 1

    def remove(self, row: int) -> None:
        """Remove a counter; a later counter reuses its row."""
        self._counts[row] = None
        self._free.append(row)
        for spaced in self._spans.values():
            for moment in spaced.moments:
                if row < len(moment.messages):
                    moment.messages[row] = moment.size[row] = 0

    def sample(self, now_ms: int) -> Iterator[None]:
        """Record the values of all counters, `ROWS_AT_ONCE` rows a step."""
        moment = _Moment(now_ms, array("q"), array("q"))
        for spaced in self._spans.values():
            spaced.add(moment)
        self._latest_ms = now_ms
        for first in range(0, len(self._counts), ROWS_AT_ONCE):
            some = self._counts[first : first + ROWS_AT_ONCE]
            moment.messages.extend([0 if one is None else one.messages for one in some])
            moment.size.extend([0 if one is None else one.size for one in some])
            yield

    def over(self, row: int, span_ms: int, now_ms: int) -> tuple[SpanGrowth, SpanGrowth]:
        """Return the growth of a counter over a minute, an hour or a day: messages and bytes."""
        counts = self._counts[row]
        moment = self._spans[span_ms].before(now_ms - span_ms)
        if counts is None:
            return SpanGrowth(0, 0.0, 0.0), SpanGrowth(0, 0.0, 0.0)
        is_there = row < len(moment.messages)
        messages = counts.messages - (moment.messages[row] if is_there else 0)
        size = counts.size - (moment.size[row] if is_there else 0)
        elapsed_ms = now_ms - max(moment.at_ms, self._since[row])
        return _span(messages, messages, elapsed_ms), _span(size, messages, elapsed_ms)


def _span(total: int, events: int, elapsed_ms: int) -> SpanGrowth:
    return SpanGrowth(total, total * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0, total / events if events else 0.0)
