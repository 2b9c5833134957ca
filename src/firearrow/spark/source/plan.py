"""Plans a micro-batch or job: from offsets to the spans of its tasks. Pure, imports no Spark.

Offsets are a mapping of queues to numbers; in Spark's checkpoint they are JSON by topic, broker and queue::

    {"orders": {"broker-a": {"0": 1200, "1": 1187}}}

Invariants: a batch never ends before it begins; with a limit every queue with a backlog advances by its share of the
whole backlog, and at least one row advances; tasks cover every range exactly once, each range in order; the same input
gives the same tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from firearrow.model import MessageQueue
from firearrow.spark.options import BESIDE_OFFSETS, EARLIEST, LATEST, PlanningOptions

Offsets = Mapping[MessageQueue, int]
OffsetsJson = dict[str, dict[str, dict[str, int]]]


class Span(Struct, frozen=True):
    """Messages of one queue, ``begin`` to ``end`` exclusive."""

    queue: MessageQueue
    begin: int
    end: int

    @property
    def rows(self) -> int:
        """The number of offsets."""
        return self.end - self.begin


class Loss(Struct, frozen=True):
    """Messages that should have been read and are missing."""

    queue: MessageQueue
    begin: int
    end: int
    reason: str

    def __str__(self) -> str:
        queue = self.queue
        return (
            f"{self.end - self.begin} messages of {queue.topic} on {queue.broker_name}, queue {queue.queue_id}, "
            f"offsets {self.begin} to {self.end - 1}: {self.reason}"
        )


def to_json(offsets: Offsets) -> OffsetsJson:
    """Return offsets as JSON for the checkpoint, in a fixed order, because Spark compares them as text."""
    found: OffsetsJson = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return found


def from_json(data: Mapping[str, Any] | None) -> dict[MessageQueue, int]:
    """The reverse of `to_json`; marks are left out."""
    return {
        MessageQueue(topic, broker, int(number)): int(offset)
        for topic, brokers in (data or {}).items()
        if topic not in BESIDE_OFFSETS
        for broker, queues in brokers.items()
        for number, offset in queues.items()
    }


def resolved(asked: int | None, first: int, end: int, otherwise: int) -> int:
    """Return an offset as a number: special offsets from a queue's bounds, ``otherwise`` if none is given."""
    if asked is None:
        asked = otherwise
    if asked == EARLIEST:
        return first
    return end if asked == LATEST else asked


# -- how far a micro-batch goes


def complete(start: Offsets, firsts: Offsets) -> dict[MessageQueue, int]:
    """Return ``start`` with unknown queues added at their first messages."""
    return {queue: start[queue] if queue in start else firsts[queue] for queue in sorted({*start, *firsts})}


def behind(start: Offsets, latest: Offsets) -> dict[MessageQueue, int]:
    """Return the backlog of each queue; ``start`` is complete."""
    return {queue: max(0, end - start[queue]) for queue, end in sorted(latest.items())}


def merged(start: Offsets, latest: Offsets) -> dict[MessageQueue, int]:
    """Return ``latest``, in which a queue that is missing or behind ``start`` keeps its offset in ``start``.

    A queue that ends before its offset is a new queue; callers check that before (`marks`).
    """
    return {queue: max(latest.get(queue, offset), offset) for queue, offset in sorted(start.items())}


def limited_rows(start: Offsets, latest: Offsets, most: int) -> dict[MessageQueue, int]:
    """Return offsets at most ``most`` rows after ``start``, each queue by its share of the backlog."""
    return _limited(start, latest, most, dict.fromkeys(latest, 1.0))


def limited_bytes(
    start: Offsets, latest: Offsets, most: int, sizes: Mapping[MessageQueue, float]
) -> dict[MessageQueue, int]:
    """Return offsets at most ``most`` bytes after ``start``, by the average record size of each queue."""
    return _limited(start, latest, most, sizes)


def _limited(
    start: Offsets, latest: Offsets, most: float, sizes: Mapping[MessageQueue, float]
) -> dict[MessageQueue, int]:
    backlog = behind(start, latest)
    total = sum(rows * sizes.get(queue, 1.0) for queue, rows in backlog.items())
    end = merged(start, latest)
    if total <= most:
        return end
    share = most / total
    exact = {queue: rows * share for queue, rows in backlog.items()}
    taken = {queue: int(rows) for queue, rows in exact.items()}
    left = most - sum(rows * sizes.get(queue, 1.0) for queue, rows in taken.items())
    for queue in sorted(exact, key=lambda queue: (taken[queue] - exact[queue], queue)):
        if taken[queue] < backlog[queue] and (left >= sizes.get(queue, 1.0) or not any(taken.values())):
            taken[queue] += 1
            left -= sizes.get(queue, 1.0)
    return {queue: start[queue] + taken[queue] if queue in taken else offset for queue, offset in end.items()}


# -- what is gone


def lost(spans: Iterable[Span], firsts: Offsets, ends: Offsets) -> list[Loss]:
    """Return the parts of the spans that lie outside the brokers' bounds."""
    found = []
    for span in spans:
        first, end = firsts.get(span.queue), ends.get(span.queue)
        if first is None or end is None:
            continue
        if first > span.begin:
            reason = f"the broker's first message is {first} now; retention deleted those before it"
            found.append(Loss(span.queue, span.begin, min(first, span.end), reason))
        if end < span.end and span.rows:
            reason = f"the queue ends at {end}; its broker or topic was created again, or lost its last messages"
            found.append(Loss(span.queue, max(span.begin, end), span.end, reason))
    return found


def without(spans: Iterable[Span], losses: Iterable[Loss]) -> list[Span]:
    """Return the spans without missing messages at their beginnings and ends."""
    gone: dict[MessageQueue, list[Loss]] = {}
    for loss in losses:
        gone.setdefault(loss.queue, []).append(loss)
    found = []
    for span in spans:
        begin, end = span.begin, span.end
        for loss in gone.get(span.queue, ()):
            if loss.begin <= begin:
                begin = max(begin, loss.end)
            else:
                end = min(end, loss.begin)
        if begin < end:
            found.append(Span(span.queue, begin, end))
    return found


def clipped(spans: Iterable[Span], places: Offsets, *, is_start: bool) -> list[Span]:
    """Return the spans from, or up to, an offset in each queue."""
    found = []
    for span in spans:
        place = places.get(span.queue, span.begin if is_start else span.end)
        begin, end = (max(span.begin, place), span.end) if is_start else (span.begin, min(span.end, place))
        if begin < end:
            found.append(Span(span.queue, begin, end))
    return found


# -- in which tasks

_SPARE: Final = 1


def tasks(spans: Iterable[Span], planning: PlanningOptions) -> list[tuple[Span, ...]]:
    """Spread spans over tasks of about the same number of rows; a queue may be in several tasks, in order."""
    listed = [span for span in spans if span.rows > 0]
    rows = sum(span.rows for span in listed)
    if not rows:
        return []
    return _cut(listed, rows, task_count(rows, planning))


def task_count(rows: int, planning: PlanningOptions) -> int:
    """Return the number of tasks for so many rows."""
    count = -(-rows // planning.rows_per_partition)
    count = min(max(count, planning.min_partitions), planning.max_partitions)
    return min(max(count, -(-rows // planning.max_records_per_partition)), rows)


def _cut(spans: Sequence[Span], rows: int, count: int) -> list[tuple[Span, ...]]:
    found: list[tuple[Span, ...]] = []
    task: list[Span] = []
    held = 0
    room = -(-rows // count)
    for span in spans:
        begin = span.begin
        while begin < span.end:
            end = min(span.end, begin + room - held)
            task.append(Span(span.queue, begin, end))
            held += end - begin
            begin = end
            if held == room:
                found.append(tuple(task))
                task, held = [], 0
                rows -= room
                room = -(-rows // max(count - len(found), _SPARE)) if rows else 1
    if task:
        found.append(tuple(task))
    return found
