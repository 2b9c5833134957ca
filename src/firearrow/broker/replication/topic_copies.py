"""The queues of topics that a slave's master has no more: they are deleted with the offsets of groups in them.

The topic may have been created again since the master told its topics. So a topic's queues are deleted only when all
their records lie below a place in the log up to which the master's topics were complete when it told them: else the
next look decides.

In a group with a coordinator a record that comes late makes its topic again when the master passes it on, so that place
is how far the master had passed its log on, and every queue without a topic is looked at. Such a master also tells
which topics were deleted and how long its log was then: they may have been created again before anybody looked.

Another master makes no topic of a late record: it keeps a queue without one, and so does its slave. There the place is
the end of the master's log, and only topics that it had before are looked at.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.model.names import is_system_topic
from firearrow.runtime.turn import Pace
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.store import Store

LOOKED_AT_ONCE: Final = 100
"""Topics that are looked at before other work has its turn."""

log: Final = logging.getLogger(__name__)


class TopicCopies:
    """Deletes queues that belong to no topic of the master."""

    def __init__(self, store: Store, offsets: OffsetTable, topics: TopicBook) -> None:
        self._offsets = offsets
        self._topics = topics
        self._store = store
        self._may_be_strays = True
        self._gone: set[str] = set()

    def look_again(self, gone: Iterable[str] = ()) -> None:
        """Have the next look find what the master has no more; ``gone`` are topics that it had before."""
        self._may_be_strays = True
        self._gone.update(gone)

    async def delete_strays(self, below: int, *, known: bool = False) -> None:
        """Delete the queues of topics that the master does not have, and whose records all lie below an offset.

        With ``known`` only of topics that it had before. Yields to the loop.
        """
        if not self._may_be_strays:
            return
        self._may_be_strays = False  # a record that arrives from now on sets it again
        is_done = False
        try:
            is_done = await self._delete_strays(below, list(self._gone if known else self._store.queues.topics()))
        finally:
            self._may_be_strays = self._may_be_strays or not is_done

    async def _delete_strays(self, below: int, names: list[str]) -> bool:
        strays, over, pace = list[str](), list[str](), Pace(LOOKED_AT_ONCE)
        for topic in names:
            if self._is_stray(topic):
                strays.append(topic)
                if self._ends_below(topic, below):
                    over.append(topic)
            await pace.did()
        gone = set[str]()

        def ended(topic: str, _log_end: int) -> None:
            gone.add(topic)
            self._offsets.forget_topic(topic)

        def is_over(topic: str) -> bool:
            return self._is_stray(topic) and self._ends_below(topic, below)

        if over:
            log.info("topics that the master has no more are deleted", extra={"topics": over})
            await self._store.delete_topics(over, ended, is_over)
        self._gone.intersection_update(set(strays) - gone)
        return len(gone) == len(strays)

    def _is_stray(self, topic: str) -> bool:
        return topic not in self._topics.table.topics and not self._is_system(topic)

    def _is_system(self, topic: str) -> bool:
        return is_system_topic(topic) or topic in self._topics.table.system

    async def end_lives(self, deleted: Mapping[str, int]) -> None:
        """Delete the queues of lives that are over: of deleted topics whose records all lie below an end of the log."""
        await self._store.end_lives(deleted)

    def _ends_below(self, topic: str, below: int) -> bool:
        queues = [queue for queue in self._store.queues.of_topic(topic) if queue.max_offset > queue.start]
        return all(self._last(queue) < below for queue in queues)

    def _last(self, queue: ConsumeQueue) -> int:
        return self._store.queues.entry(queue, queue.max_offset - 1)[0]
