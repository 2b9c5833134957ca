"""The queues of topics that a slave's master has no more: they are deleted with the offsets of groups in them.

The topic may have been created again since the master told its topics. So a topic's queues are deleted only when all
their records lie below the end that the master's log had before it told: else the next look decides. In a group with a
coordinator the master also tells which topics were deleted and how long its log was then: they may have been created
again before anybody looked.
"""

import logging
from collections.abc import Container, Mapping
from typing import Final

from firearrow.broker.tables.tables import Tables
from firearrow.model.names import is_system_topic
from firearrow.store.queue.consume_queue import ConsumeQueue

log: Final = logging.getLogger(__name__)


class TopicCopies:
    """Deletes queues that belong to no topic of the master."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._store = tables.store
        self._may_be_strays = True

    def look_again(self) -> None:
        """Have the next look find what the master has no more."""
        self._may_be_strays = True

    def strays(self, topics: Container[str]) -> list[str]:
        """Return the topics that have queues here and are not among the master's."""
        if not self._may_be_strays:
            return []
        self._may_be_strays = False
        return [name for name in self._store.queues.topics() if name not in topics and not self._is_system(name)]

    def _is_system(self, topic: str) -> bool:
        return is_system_topic(topic) or topic in self._tables.topics.table.system

    async def delete(self, topics: list[str], told_at: int) -> None:
        """Delete the queues of topics that the master did not have when its log had the end ``told_at``."""
        gone = [topic for topic in topics if self._ends_below(topic, told_at)]
        if len(gone) < len(topics):
            self.look_again()
        if not gone:
            return
        log.info("topics that the master has no more are deleted", extra={"topics": gone})
        for topic in gone:
            self._tables.offsets.forget_topic(topic)
        await self._store.delete_topics(gone)

    async def end_lives(self, deleted: Mapping[str, int]) -> None:
        """Delete the queues of lives that are over: of deleted topics whose records all lie below an end of the log."""
        for topic, end in deleted.items():
            await self._store.end_life(topic, end)

    def _ends_below(self, topic: str, told_at: int) -> bool:
        queues = [queue for queue in self._store.queues.of_topic(topic) if queue.max_offset > queue.start]
        return all(self._last(queue) < told_at for queue in queues)

    def _last(self, queue: ConsumeQueue) -> int:
        return self._store.queues.entry(queue, queue.max_offset - 1)[0]
