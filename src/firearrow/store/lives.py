"""Rows of the log again for the queues, where a topic may have been deleted and made again on the way.

A topic that is made again begins at offset 0 again: that is how the log tells one life of a queue from the next. The
last life counts: what a queue got from earlier rows is forgotten, and it begins with the row that shows its new life.
The log says nothing of a queue that was deleted and has got no message since: what it held comes back with it.

Nothing is asked of rows that follow the last entry of their queue, so queues that were never deleted cost nothing.
"""

from collections.abc import Mapping
from typing import Final

from firearrow.store.consumequeue import ConsumeQueue
from firearrow.store.damage import Damage
from firearrow.store.dispatch import Dispatch
from firearrow.store.placement import Placed, QueueTail
from firearrow.store.queues import Queues
from firearrow.store.rescan import begins_anew


class Lives:
    """Enters rows in queues that begin anew where their topics did."""

    def __init__(self, queues: Queues, dispatch: Dispatch, damage: Damage, reached: Mapping[QueueTail, int]) -> None:
        self._queues: Final = queues
        self._dispatch: Final = dispatch
        self._damage: Final = damage
        self._reached = reached  # where the last record of a queue ends: what lies below is in it, or of a former life
        self._reached_at_most = max(reached.values(), default=0)

    async def enter(self, rows: list[Placed]) -> None:
        """Bring rows to the queues, in the order of the log."""
        reached = self._reached
        if rows and rows[0][1] < self._reached_at_most:
            rows = [row for row in rows if row[1] >= reached.get(row[0], 0)]
        todo = [rows]
        while todo:
            rows = todo.pop()
            for queue, physical, queue_offset in self._dispatch.enter_queues_again(rows):
                if self._begins_anew(queue, queue_offset):
                    fresh = await self._queues.begin_anew(queue)
                    todo.append([(fresh, *row[1:]) for row in rows if row[0] is queue and row[1] >= physical])

    def _begins_anew(self, queue: ConsumeQueue, queue_offset: int) -> bool:
        if self._queues.find(queue.topic, queue.queue_id) is not queue:
            return False  # it has begun anew since
        return begins_anew(queue_offset, queue.max_offset, self._damage)
