"""Hidden queues: queues that a topic has lost by shrinking, and whose messages the log still has.

Routes do not show them, and brokers refuse ordinary pulls of them, so consumers do not see them, as Apache's do not.
Readers of logs (sources of Spark, the mirror) and the doctor use this module. Our brokers list and read hidden queues
when a request has our field ``firearrowHidden``. Other brokers ignore the field; there this module

- looks for queues behind those of the topic by requests for their entries (QUERY_CONSUME_QUEUE), which make no queue,
  until `GAP` numbers in a row have none; queues that the caller names are always asked for;
- reads a hidden queue entry by entry, each message by its place in the log (VIEW_MESSAGE_BY_ID). Such reads are not
  filtered by the broker: tags are left to the caller, other filters are refused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from firearrow import fastjson
from firearrow.client.consumer.broker_queries import Bounds, PulledBytes, PullOrder, PullStatus
from firearrow.errors import QueueHidden, RequestRefused
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.admin.topic import TopicStatsTable
from firearrow.protocol.bodies.message.query import ConsumeQueueData, QueryConsumeQueueBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import A, Request
from firearrow.protocol.requests.admin.topic import GetTopicStatsInfo
from firearrow.protocol.requests.group.offset import GetMaxOffset, GetMinOffset
from firearrow.protocol.requests.message.query import QueryConsumeQueue, ViewMessageById
from firearrow.record.decode import peek
from firearrow.remoting.reply import Reply

GAP: Final = 64
"""Queue numbers in a row without a queue that end a search."""
SEARCH_S: Final = 60.0
"""Seconds for which the result of a search counts, unless the number of the topic's queues changes."""
LOOK_S: Final = 2.0
"""Seconds for which the bounds of a hidden queue of another broker count: it gets hardly any new messages."""
ENTRIES_AT_ONCE: Final = 32
STATS_TIMEOUT_MS: Final = 10_000
NOTHING_NEW_S: Final = 1.0
"""Seconds that a reader waits at the end of a hidden queue of another broker, which cannot hold its request."""
_FOUND_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.SYSTEM_ERROR)})


class QueueExtent(Struct, frozen=True):
    """The state of one queue in a broker's log."""

    bounds: Bounds
    stored_ms: int = 0
    """The store time of its last message; 0 without a message."""
    life: int = 0
    """The life of its topic on its broker: another number for a topic that was created again; 0 if it is not known."""
    is_readable: bool = True
    """Whether its broker permits reads of the topic."""


class _UnlistedQueues(Struct):
    """The hidden queues of a topic on a broker that does not list them."""

    shown: int
    queues: dict[int, QueueExtent]
    searched_at: float
    looked_at: float


class BrokerAsker(Protocol):
    """Whoever sends requests to brokers by their names."""

    async def ask(
        self, broker: str, request: Request[A], *, timeout_ms: float | None = None, accept: frozenset[int] = ...
    ) -> Reply[A]:
        """Return a broker's answer; raise ``RequestRefused`` for a code that is not accepted."""
        ...


class HiddenQueues:
    """Lists and reads all queues of which a broker's log has messages."""

    def __init__(self, brokers: BrokerAsker, gap: int = GAP) -> None:
        self._brokers = brokers
        self._gap = gap
        self._hidden: dict[tuple[str, str], _UnlistedQueues] = {}
        self._refused_until: dict[MessageQueue, float] = {}

    async def held(self, broker: str, topic: str, known: Collection[int] = ()) -> dict[MessageQueue, QueueExtent]:
        """Return what a broker has of every queue of a topic; a ``known`` queue without messages is empty."""
        request = GetTopicStatsInfo(topic=topic, hidden=True)
        reply = await self._brokers.ask(broker, request, timeout_ms=STATS_TIMEOUT_MS)
        table = fastjson.decode(reply.body, TopicStatsTable)
        life = table.life or 0
        found = {
            queue.queue_id: QueueExtent(Bounds(each.min_offset, each.max_offset), each.last_update_timestamp, life)
            for queue, each in table.offset_table.items()
        }
        if not table.hidden:
            found |= await self._searched(broker, topic, len(found), known)
        for number in known:
            found.setdefault(number, QueueExtent(Bounds(0, 0), 0, life))
        return {MessageQueue(topic, broker, number): found[number] for number in sorted(found)}

    # -- brokers that do not list hidden queues

    async def _searched(self, broker: str, topic: str, shown: int, known: Collection[int]) -> dict[int, QueueExtent]:
        now = asyncio.get_running_loop().time()
        last = self._hidden.get((broker, topic))
        if last is None or last.shown != shown or now - last.searched_at >= SEARCH_S:
            numbers = await self._search(broker, topic, shown)
            last = self._hidden[(broker, topic)] = _UnlistedQueues(
                shown, dict.fromkeys(numbers, NOT_LOOKED_AT), now, 0.0
            )
        named = {number for number in known if number >= shown}
        if now - last.looked_at >= LOOK_S or not named <= last.queues.keys():
            numbers = sorted({*last.queues, *named})
            looks = (self._look(MessageQueue(topic, broker, number)) for number in numbers)
            last.queues = dict(zip(numbers, await asyncio.gather(*looks), strict=True))
            last.looked_at = now
        return {number: queue for number, queue in last.queues.items() if queue.bounds.end}

    async def _search(self, broker: str, topic: str, shown: int) -> list[int]:
        found: list[int] = []
        begin = shown
        while True:
            numbers = range(begin, begin + self._gap)
            has_queue = await asyncio.gather(*(self._exists(MessageQueue(topic, broker, each)) for each in numbers))
            here = [number for number, has in zip(numbers, has_queue, strict=True) if has]
            if not here:
                return found
            found += here
            begin = here[-1] + 1

    async def _exists(self, queue: MessageQueue) -> bool:
        request = QueryConsumeQueue(topic=queue.topic, queue_id=queue.queue_id)
        try:
            reply = await self._brokers.ask(queue.broker_name, request, accept=_FOUND_OR_NOT)
        except RequestRefused:  # accounts may have no right to this request; that for an offset makes a queue there
            return (await self._bounds(queue)).end > 0
        return reply.code == ResponseCode.SUCCESS

    async def _look(self, queue: MessageQueue) -> QueueExtent:
        bounds = await self._bounds(queue)
        if not bounds.end:
            return QueueExtent(bounds)
        try:
            records = await self._records(queue, await self._entries(queue, bounds.end - 1, 1))
        except QueueHidden:
            return QueueExtent(bounds)
        return QueueExtent(bounds, peek(records[0]).store_timestamp if records else 0)

    async def _bounds(self, queue: MessageQueue) -> Bounds:
        broker, topic, number = queue.broker_name, queue.topic, queue.queue_id
        first, end = await asyncio.gather(
            self._brokers.ask(broker, GetMinOffset(topic=topic, queue_id=number)),
            self._brokers.ask(broker, GetMaxOffset(topic=topic, queue_id=number)),
        )
        return Bounds(max(first.answer.offset, 0), max(end.answer.offset, 0))

    # -- reading

    async def pull(self, order: PullOrder, by: Callable[[PullOrder], Awaitable[PulledBytes]]) -> PulledBytes:
        """Pull once from any queue of which a log has messages; raise ``QueueHidden`` if a broker does not let us.

        ``by`` sends an ordinary pull.
        """
        queue, now = order.queue, asyncio.get_running_loop().time()
        if self._refused_until.get(queue, now) <= now:
            try:
                return await by(replace(order, reads_hidden=True))
            except RequestRefused as refusal:
                if refusal.code != ResponseCode.INVALID_PARAMETER:
                    raise
                self._refused_until[queue] = now + LOOK_S
        if not order.subscription.is_by_tag:
            raise _hidden(queue, "a broker that does not know hidden queues cannot filter them by an expression")
        pulled = await self._pull_entries(order)
        if pulled.status is PullStatus.NOTHING_NEW and order.suspend_ms:
            await asyncio.sleep(min(NOTHING_NEW_S, order.suspend_ms / 1000))
        return pulled

    async def _pull_entries(self, order: PullOrder) -> PulledBytes:
        queue, offset = order.queue, order.offset
        entries = await self._entries(queue, offset, min(order.max_messages, ENTRIES_AT_ONCE))
        bounds = await self._bounds(queue)
        if not entries:
            if offset < bounds.first:
                return PulledBytes(PullStatus.OFFSET_MOVED, b"", bounds.first, *bounds)
            return PulledBytes(PullStatus.NOTHING_NEW, b"", min(offset, bounds.end), *bounds)
        records = await self._records(queue, entries)
        if records:
            return PulledBytes(PullStatus.FOUND, b"".join(records), offset + len(records), *bounds)
        return PulledBytes(PullStatus.NOTHING_MATCHED, b"", offset + 1, *bounds)  # its log file is deleted

    async def _entries(self, queue: MessageQueue, offset: int, count: int) -> list[ConsumeQueueData]:
        request = QueryConsumeQueue(topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count)
        try:
            reply = await self._brokers.ask(queue.broker_name, request, accept=_FOUND_OR_NOT)
        except RequestRefused as refusal:
            raise _hidden(queue, f"the broker refuses its entries ({refusal.remark})") from refusal
        if reply.code != ResponseCode.SUCCESS or not reply.body:
            return []
        return fastjson.decode(reply.body, QueryConsumeQueueBody).queue_data or []

    async def _records(self, queue: MessageQueue, entries: Iterable[ConsumeQueueData]) -> list[bytes]:
        """Return the records of entries, up to the first one that the log has no longer."""
        found: list[bytes] = []
        for record in await asyncio.gather(*(self._record(queue, entry.physic_offset) for entry in entries)):
            if not record:
                break
            found.append(record)
        return found

    async def _record(self, queue: MessageQueue, physical: int) -> bytes:
        request = ViewMessageById(topic=queue.topic, offset=physical)
        try:
            reply = await self._brokers.ask(queue.broker_name, request, accept=_FOUND_OR_NOT)
        except RequestRefused as refusal:
            raise _hidden(queue, f"the broker refuses its messages ({refusal.remark})") from refusal
        return reply.body if reply.code == ResponseCode.SUCCESS else b""


NOT_LOOKED_AT: Final = QueueExtent(Bounds(0, 0))


def _hidden(queue: MessageQueue, reason: str) -> QueueHidden:
    return QueueHidden(
        f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name} holds messages, but the topic has fewer read "
        f"queues now, and {reason}; raise them: firearrow topic update {queue.topic} --queues {queue.queue_id + 1}, or "
        "read the files of the store"
    )
