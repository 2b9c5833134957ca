"""Where a stream is, and whether its queues are still those that it knew.

An offset alone does not tell a queue from one that was made anew: a topic that was deleted and created again, or a
broker that lost its store or its last messages, counts from a lower number on and grows past the old one. So a
checkpoint remembers a *mark* beside each offset: when the message before it was stored. It stands apart from the
offsets, so that whoever reads these as numbers still can, and checkpoints without marks can be opened::

    {"orders": {"broker-a": {"0": 1200}}, "@stored": {"orders": {"broker-a": {"0": 1790000000123}}}}

A queue has changed when it ends before its offset, or when another message than the marked one stands before it. What
came since begins at the first message stored after the mark: for a queue that lost its tail that is where its tail
was, for one made anew it is its first. Where retention deleted the marked message nothing can be told, and nothing is.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from firearrow.client import Bounds, MessageQueue
from firearrow.spark import plan
from firearrow.spark.options import MARKS
from firearrow.spark.plan import Offsets

Stored = Mapping[MessageQueue, int]
"""Store times in milliseconds, by queue."""

SAYS_ANEW: Final = "its topic was deleted and created again, its broker lost its store, or it lost its last messages"


class Position(Struct, frozen=True):
    """Where a stream is: the next offset of each queue, and when the message before it was stored."""

    offsets: dict[MessageQueue, int]
    stored: dict[MessageQueue, int] = {}


class Changed(Struct, frozen=True):
    """A queue that is not the one of the checkpoint any more, and where its unread messages begin."""

    queue: MessageQueue
    offset: int
    bounds: Bounds
    resume: int

    def __str__(self) -> str:
        queue, (first, end) = self.queue, self.bounds
        seen = f"the queue ends at {end}" if end < self.offset else f"another message stands at {self.offset - 1}"
        return (
            f"{queue.topic} on {queue.broker_name}, queue {queue.queue_id} began anew: the checkpoint goes on at "
            f"{self.offset}, but {seen}; {SAYS_ANEW}. It holds offsets {first} to {end - 1} now, unread from "
            f"{self.resume} on"
        )


def to_json(position: Position) -> dict[str, Any]:
    """A position as it goes into the checkpoint."""
    found: dict[str, Any] = plan.to_json(position.offsets)
    if position.stored:
        found[MARKS] = plan.to_json(position.stored)
    return found


def from_json(data: Mapping[str, Any] | None) -> Position:
    """The reverse of `to_json`; a checkpoint without marks has none."""
    return Position(plan.from_json(data), plan.from_json((data or {}).get(MARKS)))


def marked_places(offsets: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int]:
    """The place of the message before each offset, where the queue holds it."""
    return {
        queue: offset - 1
        for queue, offset in sorted(offsets.items())
        if queue in bounds and bounds[queue].first < offset <= bounds[queue].end
    }


def changed_queues(
    position: Position, bounds: Mapping[MessageQueue, Bounds], stored_now: Stored
) -> dict[MessageQueue, int | None]:
    """The queues that are others now, each with the time after which its unread messages were stored, if known."""
    found: dict[MessageQueue, int | None] = {}
    for queue, offset in sorted(position.offsets.items()):
        mark, now = position.stored.get(queue), stored_now.get(queue)
        if queue in bounds and bounds[queue].end < offset:
            found[queue] = mark
        elif mark is not None and now is not None and now != mark:
            found[queue] = mark if now > mark else None  # the clock went back: times tell nothing
    return found


def resumed(
    changed: Mapping[MessageQueue, int | None],
    position: Position,
    bounds: Mapping[MessageQueue, Bounds],
    later: Offsets,
) -> list[Changed]:
    """What to say of changed queues; ``later`` are their first messages stored after the marks."""
    return [
        Changed(queue, position.offsets[queue], bounds[queue], min(max(later.get(queue, first), first), end))
        for queue in changed
        for first, end in [bounds[queue]]
    ]
