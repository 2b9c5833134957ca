"""The progress of groups. Java: ``AdminBrokerProcessor.getConsumeStats`` and related methods."""

from typing import Final

import msgspec
from msgspec import Struct, field

from firearrow.broker.handlers.admin.large_answer import put_together, queue_row, topics_of, with_queues
from firearrow.broker.identity import Identity
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.state.state_file import in_pieces
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.clients import ClientTable
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.admin.stats import ConsumeStats, OffsetWrapper, QueueTimeSpan
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.stats import GetBrokerConsumeStats, GetConsumeStats
from firearrow.protocol.requests.message.query import QueryConsumeTimeSpan
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.runtime.turn import Pace
from firearrow.store.store import Store

NO_TIME: Final = -1
QUEUES_AT_ONCE: Final = 100
"""Queues handled in one turn of the loop."""


class _Read(Struct):
    """The progress of a group in the queues of a topic."""

    rows: list[bytes] = field(default_factory=list)
    behind: int = 0
    in_flight: int = 0


class ProgressHandlers:
    """Compares the offsets of groups with the ends of queues."""

    def __init__(
        self,
        *,
        store: Store,
        topics: TopicBook,
        groups: GroupBook,
        clients: ClientTable,
        offsets: OffsetTable,
        lanes: Lanes,
        stats: BrokerStats,
        clock: Clock,
        identity: Identity,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._lanes = lanes
        self._counters = stats
        self._clock = clock
        self._identity = identity

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(GetConsumeStats, self.stats, urgent=True)
        handlers.on(GetBrokerConsumeStats, self.all_stats, urgent=True)
        handlers.on(QueryConsumeTimeSpan, self.time_span, urgent=True)

    # ---- one group

    def stats(self, request: GetConsumeStats, call: Call) -> Later:
        """Return the progress of a group in its topics."""
        listed = list(dict.fromkeys(topic for topic in (request.topic_list or "").split(";") if topic))
        return self._lanes.do(call, WaitKind.TURNS, self._stats(request.consumer_group, listed, request.topic or ""))

    async def _stats(self, group: str, listed: list[str], topic: str) -> Answer:
        topics = listed or self._subscribed(group, [topic] if topic else await topics_of(self._offsets, group))
        rows, rate, pace = list[bytes](), 0.0, Pace(QUEUES_AT_ONCE)
        for name in topics:
            config = self._topics.get(name)
            if config is None:
                continue
            rows += (await self._queues(group, name, config.read_queue_nums, pace)).rows
            rate += self._counters.consume_tps(group, name, elapsed_ms())
        what = "what the group has read is {}: ask topic by topic"
        return Answer(body=bytes(await put_together(with_queues(ConsumeStats(consume_tps=rate), rows), what)))

    def _subscribed(self, group: str, topics: list[str]) -> list[str]:
        """Return the ``topics`` to which the members of a group subscribe; all of them without subscriptions."""
        online = self._clients.group(group)
        if online is None or not online.subscriptions:
            return topics
        return [topic for topic in topics if topic in online.subscriptions]

    async def _queues(self, group: str, topic: str, count: int, pace: Pace) -> _Read:
        found = _Read()
        for queue_id in range(count):
            one = await self._queue(group, topic, queue_id)
            found.rows.append(queue_row(self._identity.name, topic, queue_id, one))
            found.behind += one.broker_offset - one.consumer_offset
            found.in_flight += one.pull_offset - one.consumer_offset
            await pace.did()
        return found

    async def _queue(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        offset = max(self._offsets.committed(group, topic, queue_id), 0)
        return OffsetWrapper(
            broker_offset=self._store.max_offset(topic, queue_id),
            consumer_offset=offset,
            last_timestamp=max(await self._stored_ms(topic, queue_id, offset - 1), 0),
            pull_offset=max(offset, self._offsets.pulled(group, topic, queue_id)),
        )

    # ---- all groups

    def all_stats(self, request: GetBrokerConsumeStats, call: Call) -> Later:
        """Return the progress of every group. The answer is built over several turns: there may be very many."""
        return self._lanes.do(call, WaitKind.TURNS, self._all_stats(ordered_only=request.is_order))

    async def _all_stats(self, *, ordered_only: bool) -> Answer:
        listed: list[bytes] = []
        behind = in_flight = 0
        pace = Pace(QUEUES_AT_ONCE)
        for group in list(self._groups.table):
            of_group = []
            for topic in self._subscribed(group, await topics_of(self._offsets, group)):
                config = self._topics.get(topic)
                if config is None or (ordered_only and not config.order):
                    continue
                found = await self._queues(group, topic, config.write_queue_nums, pace)
                tps = self._counters.consume_tps(group, topic, elapsed_ms())
                of_group.append(b"".join(with_queues(ConsumeStats(consume_tps=tps), found.rows)))
                behind, in_flight = behind + found.behind, in_flight + found.in_flight
            listed.append(b"{%b:[%b]}" % (msgspec.json.encode(group), b",".join(of_group)))
            await pace.did()
        head = b'{"brokerAddr":%b,"consumeStatsList":[' % msgspec.json.encode(self._identity.address)
        pieces = in_pieces(iter(listed), head, b'],"totalDiff":%d,"totalInflightDiff":%d}' % (behind, in_flight))
        return Answer(body=bytes(await put_together(pieces, "what all groups have read is {}: ask group by group")))

    # ---- times

    def time_span(self, request: QueryConsumeTimeSpan, call: Call) -> Later:
        """Return the store times that a topic's queues cover, and the delay of a group."""
        config = self._topics.get(request.topic)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist")
        return self._lanes.do(call, WaitKind.TURNS, self._time_spans(request, config.write_queue_nums))

    async def _time_spans(self, request: QueryConsumeTimeSpan, queues: int) -> Answer:
        rows, pace = list[bytes](), Pace(QUEUES_AT_ONCE)
        for queue_id in range(queues):
            rows.append(encode_body(await self._time_span(request.group, request.topic, queue_id)))
            await pace.did()
        what = "the times of the topic's queues are {}"
        return Answer(body=bytes(await put_together(in_pieces(iter(rows), b'{"consumeTimeSpanSet":[', b"]}"), what)))

    async def _time_span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        queue = self._store.queues.find(topic, queue_id)
        offset = self._offsets.committed(group, topic, queue_id)
        end = self._store.max_offset(topic, queue_id)
        first_ms = NO_TIME if queue is None else await self._store.lookups.earliest_ms(queue)
        late_ms = 0
        if offset < end:
            late_ms = self._clock.now_ms() - await self._stored_ms(topic, queue_id, offset)
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._identity.name, queue_id),
            min_time_stamp=first_ms,
            max_time_stamp=await self._stored_ms(topic, queue_id, end - 1),
            consume_time_stamp=await self._stored_ms(topic, queue_id, offset - 1) if offset > 0 else first_ms,
            delay_time=late_ms,
        )

    async def _stored_ms(self, topic: str, queue_id: int, offset: int) -> int:
        queue = self._store.queues.find(topic, queue_id)
        if queue is None or offset < 0:
            return NO_TIME
        return await self._store.lookups.store_ms(queue, offset)
