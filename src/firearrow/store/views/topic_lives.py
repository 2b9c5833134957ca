"""Dispatches rows of the log to the queues again, where a topic may have been deleted and created again meanwhile.

A topic that is created again begins at offset 0 again: so the log shows where one life of a queue ends and the next
begins. Only the last life counts: entries of earlier lives are dropped when the first row of a new life comes. The log
does not show the deletion of a queue that has got no message since: such a queue comes back with its messages.

Rows that follow the last entry of their queue need no check, so queues that were never deleted cost nothing.
"""

from collections.abc import Mapping
from typing import Final

from firearrow.store.dispatch import Dispatch
from firearrow.store.placement import Placed, QueueTail
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.queue.table import Queues
from firearrow.store.recovery.damage import Damage
from firearrow.store.recovery.rescan import begins_anew


class Lives:
    """Passes rows to queues, and empties a queue where a new life of its topic begins."""

    def __init__(self, queues: Queues, dispatch: Dispatch, damage: Damage, reached: Mapping[QueueTail, int]) -> None:
        self._queues: Final = queues
        self._dispatch: Final = dispatch
        self._damage: Final = damage
        self._reached = reached  # the end of each queue's last record: no earlier row is missing
        self._reached_at_most = max(reached.values(), default=0)

    async def enter(self, rows: list[Placed]) -> None:
        """Pass rows to the queues, in the order of the log."""
        reached = self._reached
        if rows and rows[0][1] < self._reached_at_most:
            rows = [row for row in rows if row[1] >= reached.get(row[0], 0)]
        todo = [rows]
        while todo:
            rows = todo.pop()
            for queue, physical, queue_offset in self._dispatch.enter_queues_again(rows):
                if self._begins_anew(queue, queue_offset):
                    fresh = await self._queues.begin_anew(queue, physical)
                    todo.append([(fresh, *row[1:]) for row in rows if row[0] is queue and row[1] >= physical])

    def _begins_anew(self, queue: ConsumeQueue, queue_offset: int) -> bool:
        if self._queues.find(queue.topic, queue.queue_id) is not queue:
            return False  # the queue has begun a new life since
        return begins_anew(queue_offset, queue.max_offset, self._damage)
