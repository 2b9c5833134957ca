"""The position of a stream, and whether its queues are still the same ones.

An offset alone cannot tell a queue from a new queue of the same name: after a topic was deleted and created again, or a
broker lost its store or its last messages, offsets start lower and grow past the old one. So a checkpoint holds a
*mark* for each offset, the store time and the physical offset of the message before it, and the *life* of each topic on
each broker of ours (``TopicConfig``). They are kept apart from the offsets, so that programs can read offsets as
numbers, and checkpoints without them can be opened::

    {"orders": {"broker-a": {"0": 1200}}, "@stored": {"orders": {"broker-a": {"0": 1790000000123}}},
     "@placed": {"orders": {"broker-a": {"0": 9731042}}}, "@lives": {"orders": {"broker-a": 1789000000456}}}

A queue has changed if it ends before its offset, if the message before the offset is not the marked one, or if its
topic has another life. Its unread messages begin at the first message stored after the mark: for a queue that lost its
tail, where the tail was; for a new queue, at its first message. If retention deleted the marked message, only the life
tells a change.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from firearrow.client import Bounds, MessageQueue
from firearrow.client.consumer.hidden_queues import QueueExtent
from firearrow.spark.options import LIVES, MARKS, PLACES
from firearrow.spark.row_mark import Mark
from firearrow.spark.source import plan
from firearrow.spark.source.plan import Offsets

SAYS_ANEW: Final = "its topic was deleted and created again, its broker lost its store, or it lost its last messages"


Lives = Mapping[tuple[str, str], int]
"""The life of each topic on each broker."""


class Position(Struct, frozen=True):
    """The position of a stream: the next offset of each queue, the mark of the message before it, lives of topics."""

    offsets: dict[MessageQueue, int]
    marks: dict[MessageQueue, Mark] = {}
    lives: dict[tuple[str, str], int] = {}


class ReplacedQueue(Struct, frozen=True):
    """A queue that is not the one of the checkpoint, and the offset of its first unread message."""

    queue: MessageQueue
    offset: int
    bounds: Bounds
    resume: int
    has_new_life: bool = False

    def __str__(self) -> str:
        queue, (first, end) = self.queue, self.bounds
        seen = f"the queue ends at {end}" if end < self.offset else f"another message stands at {self.offset - 1}"
        if self.has_new_life:
            seen = (
                f"the topic was created again since, and {seen}" if end < self.offset else "the topic was created again"
            )
        why = "" if self.has_new_life else f"; {SAYS_ANEW}"
        return (
            f"{queue.topic} on {queue.broker_name}, queue {queue.queue_id} has changed: the checkpoint continues at "
            f"{self.offset}, but {seen}{why}. It holds offsets {first} to {end - 1} now, unread from {self.resume} on"
        )


class DeletedTopic(Struct, frozen=True):
    """A topic of the checkpoint that its brokers, or one of them, do not know any more."""

    topic: str
    broker: str = ""
    """The only broker where it is deleted."""

    def __str__(self) -> str:
        where = f" on {self.broker}" if self.broker else ""
        return f"topic {self.topic} is deleted{where}; messages that were not read are gone"


class ClosedQueue(Struct, frozen=True):
    """A queue with unread messages whose broker permits no reads of the topic."""

    queue: MessageQueue
    offset: int

    def __str__(self) -> str:
        queue = self.queue
        return (
            f"{queue.topic} on {queue.broker_name}, queue {queue.queue_id} may not be read, and its messages from "
            f"{self.offset} on are unread: the topic has no permission to read there; give it: firearrow topic update "
            f"{queue.topic} --broker {queue.broker_name} --perm 6"
        )


def to_json(position: Position) -> dict[str, Any]:
    """Return a position as JSON for the checkpoint."""
    found: dict[str, Any] = plan.to_json(position.offsets)
    if position.marks:
        found[MARKS] = plan.to_json({queue: mark.stored_ms for queue, mark in position.marks.items()})
        placed = {queue: mark.physical for queue, mark in position.marks.items() if mark.physical}
        if placed:
            found[PLACES] = plan.to_json(placed)
    for (topic, broker), life in sorted(position.lives.items()):
        found.setdefault(LIVES, {}).setdefault(topic, {})[broker] = life
    return found


def from_json(data: Mapping[str, Any] | None) -> Position:
    """The reverse of `to_json`; a checkpoint of an earlier version has no lives, no places or no marks."""
    known = data or {}
    placed = plan.from_json(known.get(PLACES))
    marks = {queue: Mark(ms, placed.get(queue, 0)) for queue, ms in plan.from_json(known.get(MARKS)).items()}
    lives = {
        (topic, broker): int(life)
        for topic, brokers in known.get(LIVES, {}).items()
        for broker, life in brokers.items()
    }
    return Position(plan.from_json(known), marks, lives)


def lives_of(held: Mapping[MessageQueue, QueueExtent]) -> dict[tuple[str, str], int]:
    """Return the lives of topics that brokers tell."""
    return {(queue.topic, queue.broker_name): each.life for queue, each in held.items() if each.life}


def bounds_of(held: Mapping[MessageQueue, QueueExtent]) -> dict[MessageQueue, Bounds]:
    """Return the bounds of queues."""
    return {queue: each.bounds for queue, each in held.items()}


def marked_places(offsets: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int]:
    """Return the offset of the message before each offset, if the queue holds it."""
    return {
        queue: offset - 1
        for queue, offset in sorted(offsets.items())
        if queue in bounds and bounds[queue].first < offset <= bounds[queue].end
    }


def last_marks(offsets: Offsets, held: Mapping[MessageQueue, QueueExtent]) -> dict[MessageQueue, Mark]:
    """Return the marks of queues that end at their offsets, as far as brokers tell when the last message was stored."""
    return {
        queue: Mark(held[queue].stored_ms)
        for queue, offset in offsets.items()
        if queue in held and held[queue].bounds.end == offset and held[queue].stored_ms > 0
    }


def changed_queues(
    position: Position, held: Mapping[MessageQueue, QueueExtent], marks_now: Mapping[MessageQueue, Mark]
) -> dict[MessageQueue, int | None]:
    """Return the changed queues, each with the store time after which its messages are unread, if known."""
    found: dict[MessageQueue, int | None] = {}
    for queue, offset in sorted(position.offsets.items()):
        if queue not in held:
            continue
        mark, now = position.marks.get(queue), marks_now.get(queue)
        if has_new_life(queue, position.lives, held):
            found[queue] = None
        elif held[queue].bounds.end < offset:
            found[queue] = None if mark is None else mark.stored_ms
        elif mark is not None and now is not None and _differ(mark, now):
            # Where the clock went back, times say nothing.
            found[queue] = mark.stored_ms if now.stored_ms > mark.stored_ms else None
    return found


def moved_queues(begin: Position, end: Position) -> set[MessageQueue]:
    """Return the queues of which a batch may have rows: they advanced, or they are other queues at the same offset."""
    found = set()
    for queue, offset in end.offsets.items():
        before, now = begin.marks.get(queue), end.marks.get(queue)
        at = (queue.topic, queue.broker_name)
        lives = {begin.lives.get(at, 0), end.lives.get(at, 0)} - {0}
        is_other = before is not None and now is not None and _differ(before, now)
        if offset != begin.offsets.get(queue) or is_other or len(lives) > 1:
            found.add(queue)
    return found


def has_new_life(queue: MessageQueue, lives: Lives, held: Mapping[MessageQueue, QueueExtent]) -> bool:
    """Whether the topic of a queue was created again since the checkpoint."""
    before, now = lives.get((queue.topic, queue.broker_name), 0), held[queue].life
    return before != now and bool(before and now)


def _differ(mark: Mark, now: Mark) -> bool:
    is_elsewhere = mark.physical != now.physical and bool(mark.physical and now.physical)
    return mark.stored_ms != now.stored_ms or is_elsewhere


def resumed(
    changed: Mapping[MessageQueue, int | None],
    position: Position,
    held: Mapping[MessageQueue, QueueExtent],
    later: Offsets,
) -> list[ReplacedQueue]:
    """Return changed queues with their new positions; ``later`` are their first messages stored after the marks."""
    found = []
    for queue in changed:
        first, end = held[queue].bounds
        resume = min(max(later.get(queue, first), first), end)
        is_new = has_new_life(queue, position.lives, held)
        found.append(ReplacedQueue(queue, position.offsets[queue], held[queue].bounds, resume, is_new))
    return found
