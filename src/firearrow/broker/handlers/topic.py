"""Topics, for operators: made, changed, listed, deleted. Java: ``AdminBrokerProcessor``.

A topic is answered for when it is durable and every name server that can be reached has heard of it, because tools ask
for its route at once. Deleting forgets the topic and its offsets first, durably, then its queues: offsets that a crash
brought back to queues that begin anew would pass over messages. It is answered when no crash can bring any of it back;
the log keeps the records until they are old enough. A topic of that name that is made meanwhile takes its first message
when the old one is gone.
"""

import logging
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, Protocol

from msgspec.structs import asdict, replace

from firearrow import fastjson
from firearrow.broker.errands import Errands
from firearrow.broker.handlers.large import put_together
from firearrow.broker.incoming import check_topic_name
from firearrow.broker.live import LiveSettings
from firearrow.broker.saved import Saved, keep, when_all
from firearrow.broker.statefile import OnSaved
from firearrow.broker.topicattributes import altered, parse_changes
from firearrow.broker.topicbook import Topics
from firearrow.errors import BadBody, DiskError
from firearrow.model.message import MessageQueue
from firearrow.model.names import SYSTEM_TOPICS, is_system_topic
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.route import TopicList
from firearrow.protocol.bodies.topic import (
    CreateTopicListBody,
    TopicConfig,
    TopicConfigAndMappingTable,
    TopicConfigAndQueueMapping,
    TopicOffset,
    TopicStatsTable,
)
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.topic import (
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
from firearrow.store.store import Store

PAGE: Final = 2000
"""Topics in one answer at most, for those who know pages."""
NO_STATIC_TOPICS: Final = (
    b',"mappingDataVersion":%b,"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'
    % encode_body(DataVersion())
)
QUEUES_MAX: Final = 65_536
MADE: Final = Answer(remark="not set any response code")
"""What Apache says when a topic was made, because it forgets to say nothing."""

log = logging.getLogger(__name__)


class ForgetsTopics(Protocol):
    """Who keeps something by topic."""

    def forget_topic(self, topic: str) -> None:
        """Drop everything about a topic."""
        ...


class TopicHandlers:
    """The table of topics, from outside."""

    def __init__(
        self,
        topics: Topics,
        store: Store,
        errands: Errands,
        settings: LiveSettings,
        *,
        broker_name: str,
        announced: Callable[[], Awaitable[None]],
        keepers: tuple[ForgetsTopics, ...],
        offsets_changed: Callable[[OnSaved], None],
        put_tps: Callable[[str], float],
    ) -> None:
        self._topics = topics
        self._store = store
        self._errands = errands
        self._settings = settings
        self._broker_name = broker_name
        self._announced = announced
        self._keepers = keepers
        self._offsets_changed = offsets_changed
        self._put_tps = put_tps

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(UpdateAndCreateTopic, self.update, urgent=True)
        handlers.on(UpdateAndCreateTopicList, self.update_list, urgent=True)
        handlers.on(GetAllTopicConfig, self.all_topics, urgent=True)
        handlers.on(GetTopicConfig, self.one_topic, urgent=True)
        handlers.on(DeleteTopicInBroker, self.delete, urgent=True)
        handlers.on(GetSystemTopicListFromBroker, self.system_topics, urgent=True)
        handlers.on(GetTopicStatsInfo, self.stats, urgent=True)
        handlers.on(CleanUnusedTopic, self.clean_unused, urgent=True)

    # ---- making and changing

    def update(self, request: UpdateAndCreateTopic, call: Call) -> Later:
        """Make or change a topic."""
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

    def update_list(self, _request: UpdateAndCreateTopicList, call: Call) -> Later:
        """Make or change several topics."""
        try:
            given = fastjson.decode(call.body, CreateTopicListBody).topic_config_list
        except BadBody as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
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

    def _put(self, topics: list[TopicConfig], call: Call) -> Later:
        log.info("topics asked for", extra={"topics": [t.topic_name for t in topics], "by": str(call.peer.address)})
        saved = Saved()
        self._topics.put(topics, saved.tell)
        return self._errands.do(call, self._made(saved))

    async def _made(self, saved: Saved) -> Answer:
        await saved.wait()
        await self._announced()
        return MADE

    # ---- deleting

    def delete(self, request: DeleteTopicInBroker, call: Call) -> Later:
        """Forget a topic and what it holds."""
        topic = request.topic
        if not topic.strip():
            raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        if self._settings.broker.validate_system_topic_when_update_topic and self._is_system(topic):
            raise _conflict(topic)
        log.info("topic deleted", extra={"topic": topic, "by": str(call.peer.address)})
        return self._errands.do(call, self._deleted([topic], self._begin_deletion([topic])))

    def _begin_deletion(self, topics: list[str]) -> Saved:
        """Forget topics and their offsets; return what waits until no crash brings them back."""
        saved = Saved()
        tell = when_all(len(topics) + 1, saved.tell)
        for topic in topics:
            self._topics.begin_deletion(topic, tell)
        self._forget(topics)
        self._offsets_changed(tell)
        return saved

    async def _deleted(self, topics: list[str], saved: Saved) -> None:
        try:
            await saved.wait()
            await self._delete_queues(topics)
            self._forget(topics)  # what consumers of the old queues said meanwhile
            await self._keep_offsets()
        finally:
            for topic in topics:
                self._topics.end_deletion(topic)

    def _forget(self, topics: list[str]) -> None:
        for topic in topics:
            for keeper in self._keepers:
                keeper.forget_topic(topic)

    async def _keep_offsets(self) -> None:
        await keep(self._offsets_changed)

    async def _delete_queues(self, topics: list[str]) -> None:
        try:
            await self._store.delete_topics(topics)
        except DiskError as error:
            remark = f"the queues are gone, and a crash within seconds may bring them back: delete again ({error})"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error

    def clean_unused(self, _request: CleanUnusedTopic, call: Call) -> Later:
        """Delete the queues of topics that are gone."""
        return self._errands.do(call, self._clean_unused())

    async def _clean_unused(self) -> None:
        known = self._topics.table.topics
        unused = {topic for topic in self._store.queues.topics() if topic not in known}
        gone = sorted(topic for topic in unused if not is_system_topic(topic))
        log.info("queues of topics that are gone are deleted", extra={"topics": gone})
        await self._deleted(gone, self._begin_deletion(gone))

    # ---- looking

    def all_topics(self, request: GetAllTopicConfig, call: Call) -> Answer | Later:
        """All topics, or a page of them. All are put together in turns: there may be very many."""
        if (request.topic_seq, request.data_version, request.max_topic_num) == (None, None, None):
            return self._errands.do(call, self._all_topics())
        table = self._topics.table
        start = request.topic_seq or 0 if self._is_current(request.data_version) else 0
        page = dict(islice(table.topics.items(), start, start + min(request.max_topic_num or PAGE, PAGE)))
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
        """One topic."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {request.topic}")
        return Answer(body=encode_body(TopicConfigAndQueueMapping(**asdict(topic))))

    def system_topics(self, _request: GetSystemTopicListFromBroker, _call: Call) -> Answer:
        """The broker's own topics."""
        names = sorted(SYSTEM_TOPICS | self._topics.table.system)
        return Answer(body=encode_body(TopicList(topic_list=names)))

    def stats(self, request: GetTopicStatsInfo, call: Call) -> Later:
        """What each queue of a topic holds."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist")
        count = max(topic.read_queue_nums, topic.write_queue_nums)
        return self._errands.do(call, self._stats(request.topic, count))

    async def _stats(self, topic: str, count: int) -> Answer:
        table = {}
        for queue_id in range(count):
            key = MessageQueue(topic=topic, broker_name=self._broker_name, queue_id=queue_id)
            table[key] = await self._offsets(topic, queue_id)
        return Answer(body=encode_body(TopicStatsTable(offset_table=table, topic_put_tps=self._put_tps(topic))))

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
