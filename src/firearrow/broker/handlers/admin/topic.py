"""Creates, changes and lists topics for operators. Java: ``AdminBrokerProcessor``.

A request to create or change a topic is answered when the topic is durable and registered at every reachable name
server, because tools ask for its route at once.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Final

from msgspec.structs import asdict, replace

from firearrow import fastjson
from firearrow.broker.gate.gate import Gate, GatedAnswer, KeptAnswer
from firearrow.broker.handlers.admin.large_answer import put_together, queue_row, with_queues
from firearrow.broker.identity import Identity
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.send.incoming import check_topic_name
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.state.saved import SaveWaiter
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.pages import names_of_page
from firearrow.broker.tables.topic_attributes import altered, parse_changes
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import BadBody
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
    CreateTopic,
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
from firearrow.runtime.turn import Pace
from firearrow.store.store import Store

PAGE: Final = 2000
"""Most topics in one answer, for clients that ask for pages."""
NO_STATIC_TOPICS: Final = (
    b',"mappingDataVersion":%b,"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'
    % encode_body(DataVersion())
)
QUEUES_AT_ONCE: Final = 100
"""Queues looked at in one turn of the loop."""
QUEUES_MAX: Final = 65_536
MADE: Final = Answer(remark="not set any response code")
"""Apache's answer after a topic was created: the default remark, which Apache's handler does not clear."""

log = logging.getLogger(__name__)


class TopicHandlers:
    """Gives operators access to the topic table."""

    def __init__(
        self,
        announced: Callable[[], Awaitable[None]],
        *,
        topics: TopicBook,
        store: Store,
        lanes: Lanes,
        gate: Gate,
        settings: LiveSettings,
        identity: Identity,
        stats: BrokerStats,
    ) -> None:
        self._topics = topics
        self._store = store
        self._lanes = lanes
        self._gate = gate
        self._settings = settings
        self._broker_name = identity.name
        self._counters = stats
        self._announced = announced

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        kept = self._gate.before(handlers)
        kept.on(UpdateAndCreateTopic, self.update, urgent=True)
        kept.on(UpdateAndCreateTopicList, self.update_list, urgent=True)
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
        check_not_system(topic, self._topics, self._settings)

    def _with_attributes(self, topic: TopicConfig, changes: dict[str, str]) -> TopicConfig:
        for count in (topic.read_queue_nums, topic.write_queue_nums):
            if not 0 <= count <= QUEUES_MAX:
                raise Refused(ResponseCode.INVALID_PARAMETER, f"a topic has 0 to {QUEUES_MAX} queues, not {count}")
        known = self._topics.get(topic.topic_name or "")
        return replace(topic, attributes=altered(known.attributes if known else None, changes))

    def _put(self, topics: list[TopicConfig], call: Call) -> KeptAnswer:
        self._gate.check_change()
        log.info("topics asked for", extra={"topics": [t.topic_name for t in topics], "by": str(call.peer.address)})
        self._lanes.check(call.peer, WaitKind.CHANGE)
        saved = SaveWaiter()
        self._topics.put(topics, saved.tell)
        return self._gate.job(self._lanes.do, call, WaitKind.CHANGE, self._made(saved, call))

    async def _made(self, saved: SaveWaiter, call: Call) -> GatedAnswer:
        await saved.wait()
        await self._announced()
        return self._gate.changed(call, MADE)

    # ---- looking

    def all_topics(self, request: GetAllTopicConfig, call: Call) -> Answer | Later:
        """Return all topics, or a page of them. The answer with all is built over several turns: there may be many."""
        if (request.topic_seq, request.data_version, request.max_topic_num) == (None, None, None):
            return self._lanes.do(call, WaitKind.TURNS, self._all_topics())
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
        return self._lanes.do(
            call, WaitKind.TURNS, self._stats(request.topic, shown, topic if request.hidden else None)
        )

    async def _stats(self, topic: str, shown: Iterable[int], told: TopicConfig | None) -> Answer:
        rows, pace = list[bytes](), Pace(QUEUES_AT_ONCE)
        for queue_id in shown:
            rows.append(queue_row(self._broker_name, topic, queue_id, await self._offsets(topic, queue_id)))
            await pace.did()
        put_tps = self._counters.topic_put_tps(topic, elapsed_ms())
        table = TopicStatsTable(topic_put_tps=put_tps, hidden=bool(told) or None, life=told.life if told else None)
        what = "the offsets of the topic's queues are {}: ask queue by queue"
        return Answer(body=bytes(await put_together(with_queues(table, rows), what)))

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


def check_not_system(topic: str, topics: TopicBook, settings: LiveSettings) -> None:
    """Refuse a system topic, unless the settings let operators change such topics."""
    is_system = is_system_topic(topic) or topic in topics.table.system
    if is_system and settings.broker.validate_system_topic_when_update_topic:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")
