"""Topics whose messages retention keeps until a lake has them: up to where in the log it may delete.

An archive marks, queue by queue, up to which offset its tables have a topic; the broker hands the marks to the store
(`LakeTopic`). `floors` turns them into two physical offsets for the decision (`deletion`):

- *lacked*: the first message of such a topic that a lake lacks. No file that reaches beyond it is deleted by age.
- *released*: the first message that is not released. A message is released if its topic allows it, and every lake and
  every group that consumes the topic has it; messages of all other topics, the broker's own included, never are.
"""

from collections.abc import Mapping
from sys import maxsize
from typing import Final

from msgspec import Struct

from firearrow.runtime.turn import Pace
from firearrow.store.deletion import NO_FLOORS, Floors
from firearrow.store.queue.table import Queues

QUEUES_AT_ONCE: Final = 32
"""Queues looked at before the work yields to the loop."""


class LakeTopic(Struct, frozen=True):
    """A topic that is kept for a lake."""

    marks: Mapping[int, int]
    """The offset up to which every lake has a queue; a queue that is not there is in no lake."""
    released: Mapping[int, int] | None = None
    """The offset up to which messages may be deleted before they expire, by queue; None if none may be."""


NOT_KEPT: Final = LakeTopic({})
"""Stands for every other topic."""


async def floors(queues: Queues, log_start: int, topics: Mapping[str, LakeTopic]) -> Floors:
    """Return where in the log deletion must stop. Yields to the loop."""
    if not topics:
        return NO_FLOORS
    pace = Pace(QUEUES_AT_ONCE)
    lacked, held_by, kept = maxsize, "", maxsize
    # Without a topic that is released early, the queues of other topics do not matter.
    is_any_released = any(topic.released is not None for topic in topics.values())
    for name in queues.topics() if is_any_released else topics:
        topic = topics.get(name, NOT_KEPT)
        for queue in queues.of_topic(name):
            await pace.did()
            first = queues.min_offset(queue, log_start)
            if topic is not NOT_KEPT:
                place = queues.place_from(queue, max(first, topic.marks.get(queue.queue_id, 0)))
                if place < lacked:
                    lacked, held_by = place, name
            released = (topic.released or {}).get(queue.queue_id, 0)
            kept = min(kept, queues.place_from(queue, max(first, released)))
    return Floors(lacked, min(lacked, kept) if is_any_released else 0, held_by)
