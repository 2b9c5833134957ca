"""Looks up messages and shows queue entries. Java: ``QueryMessageProcessor``, ``AdminBrokerProcessor``."""

from typing import Final

from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.tables.clients import ClientTable
from firearrow.errors import OffsetNotStored
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.protocol.bodies.message.query import ConsumeQueueData, QueryConsumeQueueBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.query import (
    QueryConsumeQueue,
    QueryMessage,
    QueryMessageAnswer,
    ViewMessageById,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.runtime.turn import Pace
from firearrow.store.queue.consume_queue import ENTRY, ConsumeQueue
from firearrow.store.store import Store

UNIQUE_KEY_MESSAGES: Final = 32
"""Most messages in the answer to a lookup by unique key."""
ENTRIES_MAX: Final = 10_000
"""Most entries of a queue in one answer."""
ENTRIES_AT_ONCE: Final = 1000
"""Entries decoded in one turn of the loop."""


class QueryHandlers:
    """Looks up messages by physical offset and by key, and entries of queues."""

    def __init__(self, store: Store, clients: ClientTable, lanes: Lanes) -> None:
        self._store = store
        self._clients = clients
        self._lanes = lanes

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(QueryMessage, self.by_key, urgent=True)
        handlers.on(ViewMessageById, self.by_place, urgent=True)
        handlers.on(QueryConsumeQueue, self.queue, urgent=True)

    def by_place(self, request: ViewMessageById, call: Call) -> Later:
        """Return the message at a physical offset."""
        return self._lanes.do(call, WaitKind.DEVICE, self._by_place(request.offset))

    async def _by_place(self, physical: int) -> Answer:
        try:
            return Answer(body=await self._store.lookups.by_physical(physical))
        except OffsetNotStored:
            remark = f"can not find message by the offset, {physical}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None

    def by_key(self, request: QueryMessage, call: Call) -> Later:
        """Return the messages with a key that were stored between two times."""
        return self._lanes.do(call, WaitKind.INDEX, self._by_key(request))

    async def _by_key(self, request: QueryMessage) -> Answer:
        most = UNIQUE_KEY_MESSAGES if request.unique_key_query else request.max_num
        found = await self._store.lookups.by_key(
            request.topic,
            request.key,
            max(most, 0),
            request.begin_timestamp,
            request.end_timestamp,
            give_way=self._lanes.give_way,
        )
        fields = QueryMessageAnswer(
            index_last_update_timestamp=found.index_ms, index_last_update_phyoffset=found.index_physical
        )
        if found.records:
            return Answer(fields, b"".join(found.records))
        remark = "can not find message, maybe time range not correct"
        return Answer(fields, code=int(ResponseCode.QUERY_NOT_FOUND), remark=remark)

    # ---- queues

    def queue(self, request: QueryConsumeQueue, call: Call) -> Later:
        """Return a range of entries of a queue."""
        topic = request.topic or ""
        queue = self._store.queues.find(topic, request.queue_id)
        if queue is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{request.queue_id}@{topic} is not exist!")
        return self._lanes.do(call, WaitKind.DEVICE, self._entries(request, queue))

    async def _entries(self, request: QueryConsumeQueue, queue: ConsumeQueue) -> Answer:
        store = self._store
        least = store.queues.min_offset(queue, store.log.min_offset)
        if not least <= request.index < queue.max_offset:
            remark = f"Index {request.index} of {request.queue_id}@{request.topic} is not exist!"
            return Answer(remark=remark)
        count = min(max(request.count, 0), ENTRIES_MAX, queue.max_offset - request.index)
        entries = await store.queues.entries(queue, request.index, count) if count else b""
        subscription, filter_data = self._subscription(request)
        body = QueryConsumeQueueBody(
            filter_data=filter_data,
            max_queue_index=queue.max_offset,
            min_queue_index=least,
            queue_data=await _shown(entries),
            subscription_data=subscription,
        )
        return Answer(body=encode_body(body))

    def _subscription(self, request: QueryConsumeQueue) -> tuple[SubscriptionData | None, str | None]:
        if request.consumer_group is None:
            return None, None
        group = self._clients.group(request.consumer_group)
        subscription = None if group is None else group.subscriptions.get(request.topic or "")
        if subscription is None:
            return None, f"{request.consumer_group}@{request.topic} is not online!"
        return subscription, "null"


async def _shown(entries: bytes) -> list[ConsumeQueueData]:
    """Decode entries for an answer, a bounded number in every turn of the loop."""
    shown: list[ConsumeQueueData] = []
    pace = Pace(ENTRIES_AT_ONCE)
    for physical, size, code in ENTRY.iter_unpack(entries):
        shown.append(ConsumeQueueData(physic_offset=physical, physic_size=size, tags_code=code))
        await pace.did()
    return shown
