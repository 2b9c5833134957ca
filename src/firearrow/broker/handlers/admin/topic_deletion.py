"""Deletes topics for operators. Java: ``AdminBrokerProcessor``.

A deletion first deletes the topic and its offsets durably, then the queues: if a crash restored old offsets for queues
that start again at 0, consumers would skip messages. A deletion is answered when no crash can restore any of it; the
log keeps the records until they expire. A new topic of the same name takes its first message when the deletion is
complete.
"""

import logging
from collections.abc import Callable
from typing import Final

from firearrow.broker.gate.gate import Gate, GatedAnswer, KeptAnswer
from firearrow.broker.handlers.admin.large_answer import in_order
from firearrow.broker.handlers.admin.topic import check_not_system
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.state.saved import SaveWaiter, keep, when_all
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.offset_book import OffsetBook
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import DiskError
from firearrow.model.names import is_system_topic
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.topic import CleanUnusedTopic, DeleteTopicInBroker
from firearrow.remoting.handlers import Call, Handlers
from firearrow.runtime.turn import Pace
from firearrow.store.store import Store

OFFSETS_AT_ONCE: Final = 100
"""Groups whose offsets in a topic are deleted in one turn of the loop."""
TOPICS_AT_ONCE: Final = 250
"""Topics looked at in one turn of the loop."""
DELETED_AT_ONCE: Final = 50
"""Topics that are deleted together, when all unused ones are."""

log = logging.getLogger(__name__)


class TopicDeletionHandlers:
    """Deletes topics with their offsets and queues."""

    def __init__(
        self,
        *,
        topics: TopicBook,
        store: Store,
        lanes: Lanes,
        gate: Gate,
        settings: LiveSettings,
        offsets: OffsetBook,
        stats: BrokerStats,
        changes: TableChanges,
    ) -> None:
        self._topics = topics
        self._store = store
        self._lanes = lanes
        self._gate = gate
        self._settings = settings
        self._offsets = offsets.table
        self._offsets_changed = offsets.file.changed
        self._counters = stats
        self._changes = changes

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        kept = self._gate.before(handlers)
        kept.on(DeleteTopicInBroker, self.delete, urgent=True)
        kept.on(CleanUnusedTopic, self.clean_unused, urgent=True)

    def delete(self, request: DeleteTopicInBroker, call: Call) -> KeptAnswer:
        """Delete a topic with its offsets and queues."""
        topic = request.topic
        if not topic.strip():
            raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        check_not_system(topic, self._topics, self._settings)
        self._gate.check_change()
        self._lanes.check(call.peer, WaitKind.CHANGE)
        log.info("topic deleted", extra={"topic": topic, "by": str(call.peer.address)})
        return self._gate.job(
            self._lanes.do, call, WaitKind.CHANGE, self._deleted([topic], self._begin_deletion([topic]), call)
        )

    def _begin_deletion(self, topics: list[str]) -> SaveWaiter:
        """Delete topics; the result waits until no crash can restore them."""
        saved = SaveWaiter()
        tell = when_all(len(topics), saved.tell)
        for topic in topics:
            self._changes.begin_deletion(topic)
            self._topics.begin_deletion(topic, tell)
        return saved

    async def _deleted(self, topics: list[str], saved: SaveWaiter, call: Call) -> GatedAnswer:
        await self._complete_deletion(topics, saved)
        return self._gate.changed(call)

    async def _complete_deletion(self, topics: list[str], saved: SaveWaiter) -> None:
        left = dict.fromkeys(topics)

        def ended(topic: str, log_end: int) -> None:
            del left[topic]
            self._changes.end_life(topic, log_end)

        try:
            await self._forget(topics)
            await self._keep_offsets()
            await saved.wait()
            try:
                await self._delete_queues(topics, ended)
            finally:
                self._changes.deleted(topic for topic in topics if topic not in left)
            await self._forget(topics)  # offsets that consumers of the old queues committed meanwhile
            await self._counters.forget_topics(topics)
            await self._keep_offsets()
        finally:
            for topic in left:
                self._changes.end_deletion(topic)
            for topic in topics:
                self._topics.end_deletion(topic)

    async def _forget(self, topics: list[str]) -> None:
        pace, table = Pace(OFFSETS_AT_ONCE), self._offsets
        for topic in topics:
            for group in list(table.groups_in(topic)):
                table.forget_row(topic, group)
                await pace.did()

    async def _keep_offsets(self) -> None:
        await keep(self._offsets_changed)

    async def _delete_queues(self, topics: list[str], ended: Callable[[str, int], None]) -> None:
        try:
            await self._store.delete_topics(topics, ended)
        except DiskError as error:
            remark = f"queues may be left, and a crash within seconds may bring others back: delete again ({error})"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error

    def clean_unused(self, _request: CleanUnusedTopic, call: Call) -> KeptAnswer:
        """Delete the queues whose topics do not exist."""
        self._gate.check_change()
        return self._gate.job(self._lanes.do, call, WaitKind.CHANGE, self._clean_unused(call))

    async def _clean_unused(self, call: Call) -> GatedAnswer:
        known = self._topics.table.topics
        pace, unused = Pace(TOPICS_AT_ONCE), list[str]()
        for topic in self._store.queues.topics():
            if topic not in known and not is_system_topic(topic):
                unused.append(topic)
            await pace.did()
        gone = await in_order(unused)
        log.info("queues of topics that are gone are deleted", extra={"topics": gone})
        for first in range(0, len(gone), DELETED_AT_ONCE):
            some = [topic for topic in gone[first : first + DELETED_AT_ONCE] if topic not in known]
            if some:
                await self._complete_deletion(some, self._begin_deletion(some))
        return self._gate.changed(call)
