"""Topics whose messages retention keeps until a lake has them: up to where in the log it may delete.

An archive marks, queue by queue, up to which offset its tables have a topic, as offsets of a group of its own, whose
name begins with ``FIREARROW_LAKE_``, by the requests that consumers commit with. A topic in several lakes counts as far
as the slowest archive is; an archive that is given up is forgotten by deleting its group. Messages are released early
only if every other group that has offsets in the topic has consumed them too. The broker hands the marks to the store
(`LakeTopic`). `floors` turns them into two physical offsets for the decision (`deletion`):

- *lacked*: the first message of such a topic that a lake lacks. No file that reaches beyond it is deleted by age.
- *released*: the first message that is not released. A message is released if its topic allows it, and every lake and
  every group that consumes the topic has it; messages of all other topics, the broker's own included, never are.
"""

from collections.abc import Mapping, Sequence
from sys import maxsize
from typing import Final

from msgspec import Struct

from firearrow.model.names import LAKE_GROUP_PREFIX
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

    @classmethod
    def of(cls, offsets: Mapping[str, Mapping[int, int]], *, is_released: bool) -> "LakeTopic":
        """Return what lakes, and all groups if the topic is released early, have of it: ``offsets`` by group."""
        marks = _lowest([queues for group, queues in offsets.items() if group.startswith(LAKE_GROUP_PREFIX)])
        return cls(marks, _lowest([marks, *offsets.values()]) if is_released else None)


def _lowest(by_reader: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """Return the offset that all readers have reached, by queue; without queues that one of them lacks."""
    if not by_reader:
        return {}
    common = set(by_reader[0]).intersection(*by_reader[1:])
    return {queue_id: min(reader[queue_id] for reader in by_reader) for queue_id in common}


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
