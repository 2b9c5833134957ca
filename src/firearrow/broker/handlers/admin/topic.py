"""Creates, changes, lists and deletes topics for operators. Java: ``AdminBrokerProcessor``.

A request to create or change a topic is answered when the topic is durable and registered at every reachable name
server, because tools ask for its route at once. A deletion first deletes the topic and its offsets durably, then the
queues: if a crash restored old offsets for queues that start again at 0, consumers would skip messages. A deletion is
answered when no crash can restore any of it; the log keeps the records until they expire. A new topic of the same name
takes its first message when the deletion is complete.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Final

from msgspec.structs import asdict, replace

from firearrow import fastjson
from firearrow.broker.gate.gate import Kept, KeptAnswer
from firearrow.broker.handlers.admin.large_answer import put_together
from firearrow.broker.lanes import Wait
from firearrow.broker.send.incoming import check_topic_name
from firearrow.broker.state.saved import Saved, keep, when_all
from firearrow.broker.tables.pages import names_of_page
from firearrow.broker.tables.tables import Tables
from firearrow.broker.tables.topic_attributes import altered, parse_changes
from firearrow.errors import BadBody, DiskError
from firearrow.model.message import MessageQueue
from firearrow.model.names import SYSTEM_TOPICS, is_system_topic
from firearrow.protocol.bodies.admin.topic import (
    CreateTopicListBody,
    TopicConfig,
    TopicConfigAndMappingTable,
    TopicConfigAndQueueMapping,
    TopicOffset,
    TopicStatsTable,
)
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.naming.route import TopicList
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused, request_body
from firearrow.protocol.requests.admin.topic import (
    CleanUnusedTopic,
    CreateTopic,
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetAllTopicConfigAnswer,
    GetSystemTopicListFromBroker,
    GetTopicConfig,
    GetTopicStatsInfo,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.runtime.clock import elapsed_ms

PAGE: Final = 2000
"""Most topics in one answer, for clients that ask for pages."""
NO_STATIC_TOPICS: Final = (
    b',"mappingDataVersion":%b,"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'
    % encode_body(DataVersion())
)
DELETED_AT_ONCE: Final = 50
"""Topics that are deleted together, when all unused ones are."""
QUEUES_MAX: Final = 65_536
MADE: Final = Answer(remark="not set any response code")
"""Apache's answer after a topic was created: the default remark, which Apache's handler does not clear."""

log = logging.getLogger(__name__)


class TopicHandlers:
    """Gives operators access to the topic table."""

    def __init__(self, tables: Tables, announced: Callable[[], Awaitable[None]]) -> None:
        self._topics = tables.topics
        self._store = tables.store
        self._lanes = tables.lanes
        self._gate = tables.gate
        self._settings = tables.settings
        self._broker_name = tables.identity.name
        self._offset_table = tables.offsets
        self._offsets_changed = tables.offset_file.changed
        self._counters = tables.stats
        self._changes = tables.changes
        self._announced = announced

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        kept = self._gate.before(handlers)
        kept.on(UpdateAndCreateTopic, self.update, urgent=True)
        kept.on(UpdateAndCreateTopicList, self.update_list, urgent=True)
        kept.on(DeleteTopicInBroker, self.delete, urgent=True)
        kept.on(CleanUnusedTopic, self.clean_unused, urgent=True)
        handlers.on(GetAllTopicConfig, self.all_topics, urgent=True)
        handlers.on(GetTopicConfig, self.one_topic, urgent=True)
        handlers.on(GetSystemTopicListFromBroker, self.system_topics, urgent=True)
        handlers.on(GetTopicStatsInfo, self.stats, urgent=True)

    # ---- making and changing

    def update(self, request: UpdateAndCreateTopic, call: Call) -> KeptAnswer:
        """Create or change a topic."""
        self._check_name(request.topic)
        return self._put([self._wanted(request)], call)

    def _wanted(self, request: CreateTopic) -> TopicConfig:
        topic = TopicConfig(
            topic_name=request.topic,
            read_queue_nums=request.read_queue_nums,
            write_queue_nums=request.write_queue_nums,
            perm=request.perm,
            topic_filter_type=request.topic_filter_type,
            topic_sys_flag=request.topic_sys_flag or 0,
            order=request.order,
        )
        return self._with_attributes(topic, parse_changes(request.attributes))

    def update_list(self, _request: UpdateAndCreateTopicList, call: Call) -> KeptAnswer:
        """Create or change several topics."""
        given = request_body(call.body, CreateTopicListBody).topic_config_list
        for topic in given:
            self._check_name(topic.topic_name or "")
        return self._put([self._with_attributes(topic, topic.attributes) for topic in given], call)

    def _check_name(self, topic: str) -> None:
        check_topic_name(topic)
        if self._settings.broker.validate_system_topic_when_update_topic and self._is_system(topic):
            raise _conflict(topic)

    def _is_system(self, topic: str) -> bool:
        return is_system_topic(topic) or topic in self._topics.table.system

    def _with_attributes(self, topic: TopicConfig, changes: dict[str, str]) -> TopicConfig:
        for count in (topic.read_queue_nums, topic.write_queue_nums):
            if not 0 <= count <= QUEUES_MAX:
                raise Refused(ResponseCode.INVALID_PARAMETER, f"a topic has 0 to {QUEUES_MAX} queues, not {count}")
        known = self._topics.get(topic.topic_name or "")
        return replace(topic, attributes=altered(known.attributes if known else None, changes))

    def _put(self, topics: list[TopicConfig], call: Call) -> KeptAnswer:
        self._gate.check_change()
        log.info("topics asked for", extra={"topics": [t.topic_name for t in topics], "by": str(call.peer.address)})
        self._lanes.check(call.peer, Wait.CHANGE)
        saved = Saved()
        self._topics.put(topics, saved.tell)
        return self._gate.job(self._lanes.do, call, Wait.CHANGE, self._made(saved, call))

    async def _made(self, saved: Saved, call: Call) -> Kept:
        await saved.wait()
        await self._announced()
        return self._gate.changed(call, MADE)

    # ---- deleting

    def delete(self, request: DeleteTopicInBroker, call: Call) -> KeptAnswer:
        """Delete a topic with its offsets and queues."""
        topic = request.topic
        if not topic.strip():
            raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        if self._settings.broker.validate_system_topic_when_update_topic and self._is_system(topic):
            raise _conflict(topic)
        self._gate.check_change()
        self._lanes.check(call.peer, Wait.CHANGE)
        log.info("topic deleted", extra={"topic": topic, "by": str(call.peer.address)})
        return self._gate.job(
            self._lanes.do, call, Wait.CHANGE, self._deleted([topic], self._begin_deletion([topic]), call)
        )

    def _begin_deletion(self, topics: list[str]) -> Saved:
        """Delete topics and their offsets; the result waits until no crash can restore them."""
        saved = Saved()
        tell = when_all(len(topics) + 1, saved.tell)
        for topic in topics:
            self._changes.begin_deletion(topic)
            self._topics.begin_deletion(topic, tell)
        self._forget(topics)
        self._offsets_changed(tell)
        return saved

    async def _deleted(self, topics: list[str], saved: Saved, call: Call) -> Kept:
        await self._complete_deletion(topics, saved)
        return self._gate.changed(call)

    async def _complete_deletion(self, topics: list[str], saved: Saved) -> None:
        left = dict.fromkeys(topics)

        def ended(topic: str, log_end: int) -> None:
            del left[topic]
            self._changes.end_life(topic, log_end)

        try:
            await saved.wait()
            try:
                await self._delete_queues(topics, ended)
            finally:
                self._changes.deleted(topic for topic in topics if topic not in left)
            self._forget(topics)  # offsets that consumers of the old queues committed meanwhile
            await self._counters.forget_topics(topics)
            await self._keep_offsets()
        finally:
            for topic in left:
                self._changes.end_deletion(topic)
            for topic in topics:
                self._topics.end_deletion(topic)

    def _forget(self, topics: list[str]) -> None:
        for topic in topics:
            self._offset_table.forget_topic(topic)

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
        return self._gate.job(self._lanes.do, call, Wait.CHANGE, self._clean_unused(call))

    async def _clean_unused(self, call: Call) -> Kept:
        known = self._topics.table.topics
        unused = {topic for topic in self._store.queues.topics() if topic not in known}
        gone = sorted(topic for topic in unused if not is_system_topic(topic))
        log.info("queues of topics that are gone are deleted", extra={"topics": gone})
        for first in range(0, len(gone), DELETED_AT_ONCE):
            some = [topic for topic in gone[first : first + DELETED_AT_ONCE] if topic not in known]
            await self._complete_deletion(some, self._begin_deletion(some))
        return self._gate.changed(call)

    # ---- looking

    def all_topics(self, request: GetAllTopicConfig, call: Call) -> Answer | Later:
        """Return all topics, or a page of them. The answer with all is built over several turns: there may be many."""
        if (request.topic_seq, request.data_version, request.max_topic_num) == (None, None, None):
            return self._lanes.do(call, Wait.TURNS, self._all_topics())
        table = self._topics.table
        start = min(max(request.topic_seq or 0, 0), len(table)) if self._is_current(request.data_version) else 0
        count = min(max(request.max_topic_num or PAGE, 0), PAGE)
        from_start = islice(table.topics, start, None)
        names = names_of_page(from_start, count, len(table) - start, lambda name: len(encode_body(table.topics[name])))
        page = {name: table.topics[name] for name in names}
        body = TopicConfigAndMappingTable(data_version=table.version, topic_config_table=page)
        return Answer(GetAllTopicConfigAnswer(total_topic_num=len(table)), encode_body(body))

    async def _all_topics(self) -> Answer:
        table = self._topics.table
        count = len(table)
        what = f"{count} topics are {{}}: ask by pages (topicSeq, maxTopicNum), as clients of 5.x do"
        body = await put_together(table.pieces(), what)
        body[-1:] = NO_STATIC_TOPICS
        return Answer(GetAllTopicConfigAnswer(total_topic_num=count), bytes(body))

    def _is_current(self, version: str | None) -> bool:
        try:
            return fastjson.decode((version or "{}").encode(), DataVersion) == self._topics.table.version
        except BadBody:
            return False

    def one_topic(self, request: GetTopicConfig, _call: Call) -> Answer:
        """Return one topic."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {request.topic}")
        fields = asdict(topic)
        del fields["life"]
        return Answer(body=encode_body(TopicConfigAndQueueMapping(**fields)))

    def system_topics(self, _request: GetSystemTopicListFromBroker, _call: Call) -> Answer:
        """Return the system topics of the broker."""
        names = sorted(SYSTEM_TOPICS | self._topics.table.system)
        return Answer(body=encode_body(TopicList(topic_list=names)))

    def stats(self, request: GetTopicStatsInfo, call: Call) -> Later:
        """Return the offsets and the last store time of every queue of a topic."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist")
        shown = dict.fromkeys(range(max(topic.read_queue_nums, topic.write_queue_nums)))
        if request.hidden:
            held = self._store.queues.of_topic(request.topic)
            shown |= dict.fromkeys(queue.queue_id for queue in held if queue.max_offset)
        return self._lanes.do(call, Wait.TURNS, self._stats(request.topic, shown, topic if request.hidden else None))

    async def _stats(self, topic: str, shown: Iterable[int], told: TopicConfig | None) -> Answer:
        table = {}
        for queue_id in shown:
            key = MessageQueue(topic=topic, broker_name=self._broker_name, queue_id=queue_id)
            table[key] = await self._offsets(topic, queue_id)
        put_tps = self._counters.topic_put_tps(topic, elapsed_ms())
        return Answer(
            body=encode_body(
                TopicStatsTable(
                    offset_table=table,
                    topic_put_tps=put_tps,
                    hidden=bool(told) or None,
                    life=told.life if told else None,
                )
            )
        )

    async def _offsets(self, topic: str, queue_id: int) -> TopicOffset:
        store = self._store
        queue = store.queues.find(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return TopicOffset()
        return TopicOffset(
            min_offset=store.queues.min_offset(queue, store.log.min_offset),
            max_offset=queue.max_offset,
            last_update_timestamp=await store.lookups.store_ms(queue, queue.max_offset - 1),
        )


def _conflict(topic: str) -> Refused:
    return Refused(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")
