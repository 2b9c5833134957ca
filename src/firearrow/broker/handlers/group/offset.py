"""Offsets of groups and of queues. Java: ``ConsumerManageProcessor``, ``AdminBrokerProcessor``.

A queue is *young* while it still has all its messages and the first of them is in memory. A group without an offset
starts at 0 in a young queue; in other queues the answer says that there is no offset, and the consumer starts where its
own setting says. So consumers that start at the end do not miss the first messages of a new topic. An empty queue is
young too, as in Apache 4.9. Apache 5.5 answers that there is no offset; then a consumer that starts at the end asks for
the end in a second request, and misses the messages that came between the two.
"""

from typing import Final

from firearrow.broker.gate.gate import Gate
from firearrow.broker.handlers.admin.large_answer import put_together
from firearrow.broker.handlers.group.offset_bounds import OffsetBounds
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.tables.changed_rows import Key
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.offset_book import OffsetBook
from firearrow.broker.tables.offset_parts import OffsetPart
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import OffsetNotStored
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.offset import QueryCorrectionOffsetBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import INT64_MAX
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.group.offset import (
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
from firearrow.protocol.requests.group.reset import QueryCorrectionOffset
from firearrow.protocol.requests.replication.replication import GetAllConsumerOffset, GetAllConsumerOffsetAnswer
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.runtime.turn import Pace, breathe
from firearrow.store.queue.consume_queue import ENTRY, ConsumeQueue
from firearrow.store.read.lookup import Boundary
from firearrow.store.store import Store

OFFSETS_AT_ONCE: Final = 200
"""Offsets that are compared before others have their turn."""


class OffsetHandlers:
    """Reads and commits the offsets of groups; reads the offsets of queues."""

    def __init__(
        self, *, store: Store, gate: Gate, topics: TopicBook, groups: GroupBook, offsets: OffsetBook, lanes: Lanes
    ) -> None:
        self._store = store
        self._gate = gate
        self._topics = topics
        self._groups = groups
        self._offsets = offsets.table
        self._bounds = OffsetBounds(store, offsets.table)
        self._lanes = lanes
        self._on_commit = offsets.file.changed

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        # Not urgent: a commit must not overtake an earlier pull, which may carry an older commit.
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
        """Return the committed offset of a group."""
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
        """Whether a queue still has all its messages and the first is in memory, or the queue is empty."""
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
            return self._store.bytes.read_hot(physical, size) is not None
        except OffsetNotStored:
            return False

    def update(self, request: UpdateConsumerOffset, _call: Call) -> Answer | None:
        """Commit the offset of a group."""
        self._gate.check_lead()
        group, topic = request.consumer_group, request.topic
        if group not in self._groups.table:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        config = self._topics.get(topic)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        self._bounds.check_queue(topic, config, request.queue_id)
        self._bounds.check_room(group, topic, (request.queue_id,))
        if not self._offsets.commit(group, topic, request.queue_id, request.commit_offset):
            return Answer(remark="Offset has been previously reset")
        self._on_commit()
        return None

    def all_offsets(self, request: GetAllConsumerOffset, call: Call) -> Later:
        """Return every offset, or what changed, for slaves. The answer is built over several turns: it may be large."""
        told = self._part_of_offsets(request.since) if request.in_parts else self._all_offsets(request.since)
        return self._lanes.do(call, WaitKind.TURNS, told)

    async def _part_of_offsets(self, since: str | None) -> Answer:
        part = OffsetPart(self._offsets, since)
        body = bytes(await put_together(part.pieces(), "the offsets of one group and topic are {}"))
        return Answer(GetAllConsumerOffsetAnswer(mark=part.mark, since=part.since, more=part.has_more or None), body)

    async def _all_offsets(self, since: str | None) -> Answer:
        what = "all offsets are {}: ask for those of one group and topic"
        changed = await self._changed_after(since)
        mark = self._offsets.changed_rows.mark
        told = GetAllConsumerOffsetAnswer(mark=mark, since=None if changed is None else since)
        return Answer(told, bytes(await put_together(self._offsets.pieces(changed), what)))

    async def _changed_after(self, mark: str | None) -> list[Key] | None:
        """Return the rows that changed after a mark; None when that is not known.

        A row that changes again during the walk may have left its place before it was seen: those are added at the end.
        """
        rows, found = self._offsets.changed_rows, dict[Key, None]()
        number, last = rows.number_of(mark), rows.number
        if number is None:
            return None
        while number < last and (some := rows.after(number, OFFSETS_AT_ONCE)):
            found.update(dict.fromkeys(key for key, _ in some))
            number = some[-1][1]
            await breathe()
            if rows.number_of(mark) is None:  # deleted rows were forgotten meanwhile
                return None
        found.update(dict.fromkeys(key for key, _ in rows.after(number, rows.number)))
        return list(found)

    def correction(self, request: QueryCorrectionOffset, call: Call) -> Later:
        """Return the lowest offset of all groups by queue; INT64_MAX where the group to compare with is below it."""
        return self._lanes.do(call, WaitKind.TURNS, self._correction(request))

    async def _correction(self, request: QueryCorrectionOffset) -> Answer:
        without, pace = set((request.filter_groups or "").split(",")), Pace(OFFSETS_AT_ONCE)
        lowest: dict[int, int] = {}
        for group, queues in self._offsets.rows_in(request.topic):
            for queue_id, offset in () if group in without else tuple(queues.items()):
                if offset >= self._start_of(request.topic, queue_id):
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
                await pace.did()
            await pace.did()
        for queue_id, offset in tuple(self._offsets.of(request.compare_group, request.topic).items()):
            if lowest.get(queue_id, 0) > offset:
                lowest[queue_id] = INT64_MAX
            await pace.did()
        return Answer(body=encode_body(QueryCorrectionOffsetBody(correction_offsets=lowest)))

    # ---- of queues

    def max_offset(self, request: GetMaxOffset, _call: Call) -> Answer:
        """Return the offset after the last visible message."""
        return Answer(OffsetAnswer(offset=self._store.max_offset(request.topic, request.queue_id)))

    def min_offset(self, request: GetMinOffset, _call: Call) -> Answer:
        """Return the offset of the first message."""
        return Answer(OffsetAnswer(offset=self._start_of(request.topic, request.queue_id)))

    def search(self, request: SearchOffsetByTimestamp, call: Call) -> Answer | Later:
        """Return the offset of the message at a store time."""
        queue = self._store.queues.find(request.topic, request.queue_id)
        if queue is None:
            return Answer(OffsetAnswer(offset=0))
        boundary = Boundary.UPPER if request.boundary_type is BoundaryType.UPPER else Boundary.LOWER
        return self._lanes.do(call, WaitKind.DEVICE, self._search(queue, request.timestamp, boundary))

    async def _search(self, queue: ConsumeQueue, time_ms: int, boundary: Boundary) -> Answer:
        return Answer(OffsetAnswer(offset=await self._store.lookups.offset_by_time(queue, time_ms, boundary)))

    def earliest(self, request: GetEarliestMsgStoretime, call: Call) -> Answer | Later:
        """Return the store time of the first message; -1 when the queue does not exist."""
        queue = self._store.queues.find(request.topic, request.queue_id)
        if queue is None:
            return Answer(EarliestStoretimeAnswer(timestamp=-1))
        return self._lanes.do(call, WaitKind.DEVICE, self._earliest(queue))

    async def _earliest(self, queue: ConsumeQueue) -> Answer:
        return Answer(EarliestStoretimeAnswer(timestamp=await self._store.lookups.earliest_ms(queue)))

    def _start_of(self, topic: str, queue_id: int) -> int:
        queue = self._store.queues.find(topic, queue_id)
        return 0 if queue is None else self._store.queues.min_offset(queue, self._store.log.min_offset)
