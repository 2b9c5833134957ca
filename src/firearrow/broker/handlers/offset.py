"""Offsets of groups, and of queues by place and time. Java: ``ConsumerManageProcessor``, ``AdminBrokerProcessor``.

The rule of the young queue: a group without an offset starts at 0 where the whole queue is still there and its first
message is in memory; elsewhere it is told that there is none, and starts where its own setting says. Without the rule
the first messages of a new topic would be missed by consumers that start at the end. A queue without any message is
young as well: its end is 0. Apache's 4.9 says so, its 5.5 says that there is no offset; then a consumer that starts at
the end asks for it in a second request, and misses what came between the two.
"""

from collections.abc import Callable

from firearrow.broker.errands import Errands
from firearrow.broker.grouping import Groups
from firearrow.broker.handlers.large import put_together
from firearrow.broker.offsets import OffsetTable
from firearrow.broker.pullchecks import KnownTopics
from firearrow.errors import OffsetNotStored
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.offset import QueryCorrectionOffsetBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import INT64_MAX
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.offset import (
    BoundaryType,
    EarliestStoretimeAnswer,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from firearrow.protocol.requests.replication import GetAllConsumerOffset
from firearrow.protocol.requests.reset import QueryCorrectionOffset
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.store.consumequeue import ENTRY, ConsumeQueue
from firearrow.store.lookups import Boundary
from firearrow.store.store import Store


class OffsetHandlers:
    """Where groups are, and where queues begin and end."""

    def __init__(
        self,
        store: Store,
        topics: KnownTopics,
        groups: Groups,
        offsets: OffsetTable,
        errands: Errands,
        on_commit: Callable[[], None],
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._errands = errands
        self._on_commit = on_commit

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        # Not urgent: a commit must not overtake the pull before it, which carries an older one.
        handlers.on(QueryConsumerOffset, self.query)
        handlers.on(UpdateConsumerOffset, self.update)
        handlers.on(GetAllConsumerOffset, self.all_offsets, urgent=True)
        handlers.on(GetMaxOffset, self.max_offset, urgent=True)
        handlers.on(GetMinOffset, self.min_offset, urgent=True)
        handlers.on(SearchOffsetByTimestamp, self.search, urgent=True)
        handlers.on(GetEarliestMsgStoretime, self.earliest, urgent=True)
        handlers.on(QueryCorrectionOffset, self.correction, urgent=True)

    # ---- of groups

    def query(self, request: QueryConsumerOffset, _call: Call) -> Answer:
        """Where a group goes on."""
        offset = self._offsets.committed(request.consumer_group, request.topic, request.queue_id)
        if offset >= 0:
            return Answer(OffsetAnswer(offset=offset))
        if request.set_zero_if_not_found is False:
            remark = "Not found, do not set to zero, maybe this group boot first"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        if self._is_young(request.topic, request.queue_id):
            return Answer(OffsetAnswer(offset=0))
        remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Whether a queue is whole and its first message in memory or yet to come."""
        queue = self._store.queues.find(topic, queue_id)
        if queue is None:
            config = self._topics.get(topic)
            return config is not None and 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums)
        if self._start_of(topic, queue_id) > 0 or queue.start > 0:
            return False
        if queue.max_offset == 0:
            return True
        entry = self._store.queues.entries_hot(queue, 0, 1)
        if not entry or len(entry) != ENTRY.size:
            return False
        physical, size, _ = ENTRY.unpack(entry)
        try:
            return self._store.log.read_hot(physical, size) is not None
        except OffsetNotStored:
            return False

    def update(self, request: UpdateConsumerOffset, _call: Call) -> Answer | None:
        """A group is this far."""
        group, topic = request.consumer_group, request.topic
        if group not in self._groups.table:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        if self._topics.get(topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if not self._offsets.commit(group, topic, request.queue_id, request.commit_offset):
            return Answer(remark="Offset has been previously reset")
        self._on_commit()
        return None

    def all_offsets(self, _request: GetAllConsumerOffset, call: Call) -> Later:
        """Every offset, for slaves. They are put together in turns: there may be very many."""
        return self._errands.do(call, self._all_offsets())

    async def _all_offsets(self) -> Answer:
        what = "all offsets are {}: ask for those of one group and topic"
        return Answer(body=bytes(await put_together(self._offsets.pieces(), what)))

    def correction(self, request: QueryCorrectionOffset, _call: Call) -> Answer:
        """The lowest offsets of all groups; the largest number where a group to compare with is behind them."""
        without = (request.filter_groups or "").split(",")
        lowest = self._offsets.lowest(request.topic, without, self._start_of)
        for queue_id, offset in self._offsets.of(request.compare_group, request.topic).items():
            if lowest.get(queue_id, 0) > offset:
                lowest[queue_id] = INT64_MAX
        return Answer(body=encode_body(QueryCorrectionOffsetBody(correction_offsets=lowest)))

    # ---- of queues

    def max_offset(self, request: GetMaxOffset, _call: Call) -> Answer:
        """One past the last message that may be seen."""
        queue = self._store.queues.find(request.topic, request.queue_id)
        return Answer(OffsetAnswer(offset=0 if queue is None else queue.max_offset))

    def min_offset(self, request: GetMinOffset, _call: Call) -> Answer:
        """The first message."""
        return Answer(OffsetAnswer(offset=self._start_of(request.topic, request.queue_id)))

    def search(self, request: SearchOffsetByTimestamp, call: Call) -> Answer | Later:
        """The message at a time."""
        queue = self._store.queues.find(request.topic, request.queue_id)
        if queue is None:
            return Answer(OffsetAnswer(offset=0))
        boundary = Boundary.UPPER if request.boundary_type is BoundaryType.UPPER else Boundary.LOWER
        return self._errands.do(call, self._search(queue, request.timestamp, boundary))

    async def _search(self, queue: ConsumeQueue, time_ms: int, boundary: Boundary) -> Answer:
        return Answer(OffsetAnswer(offset=await self._store.lookups.offset_by_time(queue, time_ms, boundary)))

    def earliest(self, request: GetEarliestMsgStoretime, call: Call) -> Answer | Later:
        """When the first message was stored."""
        queue = self._store.queues.find(request.topic, request.queue_id)
        if queue is None:
            return Answer(EarliestStoretimeAnswer(timestamp=-1))
        return self._errands.do(call, self._earliest(queue))

    async def _earliest(self, queue: ConsumeQueue) -> Answer:
        return Answer(EarliestStoretimeAnswer(timestamp=await self._store.lookups.earliest_ms(queue)))

    def _start_of(self, topic: str, queue_id: int) -> int:
        queue = self._store.queues.find(topic, queue_id)
        return 0 if queue is None else self._store.queues.min_offset(queue, self._store.log.min_offset)
