"""The position of a stream, and whether its queues are still the same ones.

An offset alone cannot tell a queue from a new queue of the same name: after a topic was deleted and created again, or a
broker lost its store or its last messages, offsets start lower and grow past the old one. So a checkpoint holds a
*mark* for each offset: the store time of the message before it. Marks are kept apart from the offsets, so that programs
can read offsets as numbers, and checkpoints without marks can be opened::

    {"orders": {"broker-a": {"0": 1200}}, "@stored": {"orders": {"broker-a": {"0": 1790000000123}}}}

A queue has changed if it ends before its offset, or if the message before the offset is not the marked one. Its unread
messages begin at the first message stored after the mark: for a queue that lost its tail, where the tail was; for a new
queue, at its first message. If retention deleted the marked message, a change cannot be detected.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from firearrow.client import Bounds, MessageQueue
from firearrow.spark.options import MARKS
from firearrow.spark.source import plan
from firearrow.spark.source.plan import Offsets

Stored = Mapping[MessageQueue, int]
"""Store times in milliseconds, by queue."""

SAYS_ANEW: Final = "its topic was deleted and created again, its broker lost its store, or it lost its last messages"


class Position(Struct, frozen=True):
    """The position of a stream: the next offset of each queue, and the store time of the message before it."""

    offsets: dict[MessageQueue, int]
    stored: dict[MessageQueue, int] = {}


class Changed(Struct, frozen=True):
    """A queue that is not the one of the checkpoint, and the offset of its first unread message."""

    queue: MessageQueue
    offset: int
    bounds: Bounds
    resume: int

    def __str__(self) -> str:
        queue, (first, end) = self.queue, self.bounds
        seen = f"the queue ends at {end}" if end < self.offset else f"another message stands at {self.offset - 1}"
        return (
            f"{queue.topic} on {queue.broker_name}, queue {queue.queue_id} has changed: the checkpoint continues at "
            f"{self.offset}, but {seen}; {SAYS_ANEW}. It holds offsets {first} to {end - 1} now, unread from "
            f"{self.resume} on"
        )


def to_json(position: Position) -> dict[str, Any]:
    """Return a position as JSON for the checkpoint."""
    found: dict[str, Any] = plan.to_json(position.offsets)
    if position.stored:
        found[MARKS] = plan.to_json(position.stored)
    return found


def from_json(data: Mapping[str, Any] | None) -> Position:
    """The reverse of `to_json`; a checkpoint without marks has none."""
    return Position(plan.from_json(data), plan.from_json((data or {}).get(MARKS)))


def marked_places(offsets: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int]:
    """Return the offset of the message before each offset, if the queue holds it."""
    return {
        queue: offset - 1
        for queue, offset in sorted(offsets.items())
        if queue in bounds and bounds[queue].first < offset <= bounds[queue].end
    }


def changed_queues(
    position: Position, bounds: Mapping[MessageQueue, Bounds], stored_now: Stored
) -> dict[MessageQueue, int | None]:
    """Return the changed queues, each with the store time after which its messages are unread, if known."""
    found: dict[MessageQueue, int | None] = {}
    for queue, offset in sorted(position.offsets.items()):
        mark, now = position.stored.get(queue), stored_now.get(queue)
        if queue in bounds and bounds[queue].end < offset:
            found[queue] = mark
        elif mark is not None and now is not None and now != mark:
            found[queue] = mark if now > mark else None  # the clock went back, so times say nothing
    return found


def resumed(
    changed: Mapping[MessageQueue, int | None],
    position: Position,
    bounds: Mapping[MessageQueue, Bounds],
    later: Offsets,
) -> list[Changed]:
    """Return changed queues with their new positions; ``later`` are their first messages stored after the marks."""
    return [
        Changed(queue, position.offsets[queue], bounds[queue], min(max(later.get(queue, first), first), end))
        for queue in changed
        for first, end in [bounds[queue]]
    ]
