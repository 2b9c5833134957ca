"""Single messages: found by id or by key, and consumed again by a member of a group.

A message has two ids. Its producer made one (the unique key; brokers find it by topic), its broker the other (the
offset id, which names the broker's address and a place in its log). Both have 32 or 56 digits.
Java: ``QueryMsgByIdSubCommand``, ``QueryMsgByUniqueKeySubCommand``, ``QueryMsgByKeySubCommand``.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from firearrow.admin.brokers import BrokerMember, Brokers, Server, together
from firearrow.client.consumer.broker_queries import SUBSCRIBES, PulledBytes, PullStatus
from firearrow.errors import NoSuchName, RequestRefused
from firearrow.model import MessageQueue, StoredMessage
from firearrow.protocol.bodies.group.running_info import ConsumeMessageDirectlyResult
from firearrow.protocol.bodies.message.query import QueryConsumeQueueBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import INT64_MAX
from firearrow.protocol.requests.group.push import ConsumeMessageDirectly
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.query import QueryConsumeQueue, QueryMessage, ViewMessageById
from firearrow.record.decode import decode, decode_all
from firearrow.record.hosts import host_bytes
from firearrow.record.message_id import offset_message_id, parse_offset_message_id
from firearrow.runtime.network import Address

UNIQUE_KEY_MESSAGES: Final = 32
LATEST_MS: Final = INT64_MAX
"""A time after every message."""
_PULLED: Final = frozenset(map(int, PullStatus))
_FOUND_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})


class FoundMessage(Struct, frozen=True):
    """A message and the broker that holds it."""

    stored: StoredMessage
    broker: BrokerMember

    @property
    def queue(self) -> MessageQueue:
        """The queue that holds it."""
        return MessageQueue(self.stored.topic, self.broker.name, self.stored.queue_id)

    @property
    def offset_id(self) -> str:
        """The id that its broker made."""
        return offset_message_id(host_bytes(self.stored.store_host), self.stored.physical_offset)


class Messages:
    """The messages of a cluster, one by one."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def get(self, message_id: str, topic: str = "", cluster: str = "") -> Sequence[FoundMessage]:
        """Return the messages with an id: of a topic by unique key, else, and without a topic, by offset id."""
        host, physical = parse_offset_message_id(message_id)
        if topic:
            found = await self.by_unique_key(topic, message_id, cluster=cluster)
            if found:
                return found
        address = str(Address(host.ip, host.port))
        member = next((each for each in await self._brokers.list() if each.address == address), None)
        if member is None:
            known = "" if topic else ". If its producer made the id, give the topic too: --topic TOPIC"
            raise NoSuchName(
                f"no message {message_id} is known, and no broker {address}, which the id would name{known}"
            )
        return [FoundMessage(await self._at(member, physical, message_id), member)]

    async def by_unique_key(
        self, topic: str, message_id: str, *, begin_ms: int = 0, end_ms: int = LATEST_MS, cluster: str = ""
    ) -> Sequence[FoundMessage]:
        """Return the messages of a topic whose producer gave them an id, stored between two times, oldest first."""
        asked = QueryMessage(
            topic=topic,
            key=message_id,
            max_num=UNIQUE_KEY_MESSAGES,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=True,
        )
        return await self._query(asked, cluster)

    async def query(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = LATEST_MS, most: int = 64, cluster: str = ""
    ) -> Sequence[FoundMessage]:
        """Return the messages of a topic that have a key and were stored between two times, oldest first."""
        asked = QueryMessage(topic=topic, key=key, max_num=most, begin_timestamp=begin_ms, end_timestamp=end_ms)
        return await self._query(asked, cluster)

    async def consume_again(self, found: FoundMessage, group: str, client_id: str) -> ConsumeMessageDirectlyResult:
        """Let a member of a group consume a message now; its offsets stay. Return what came of it."""
        request = ConsumeMessageDirectly(
            consumer_group=group, client_id=client_id, msg_id=found.offset_id, topic=found.stored.topic
        )
        return await self._brokers.read(found.broker, request, ConsumeMessageDirectlyResult)

    async def pull_one(self, at: Server, queue: MessageQueue, offset: int, group: str) -> PulledBytes:
        """Pull the message at an offset from a broker, also of a topic that name servers do not know."""
        request = PullMessage(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=1,
            sys_flag=SUBSCRIBES,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        reply = await self._brokers.ask(at, request, accept=_PULLED)
        answer = reply.answer
        status = PullStatus(reply.code)
        return PulledBytes(status, reply.body, answer.next_begin_offset, answer.min_offset, answer.max_offset)

    async def queue_entries(
        self, at: Server, topic: str, queue_id: int, first: int, count: int, group: str = ""
    ) -> QueryConsumeQueueBody:
        """Return entries of a broker's consume queue; for a group also whether they pass its filter."""
        request = QueryConsumeQueue(
            topic=topic, queue_id=queue_id, index=first, count=count, consumer_group=group or None
        )
        return await self._brokers.read(at, request, QueryConsumeQueueBody)

    # -- parts

    async def _at(self, member: BrokerMember, physical: int, message_id: str) -> StoredMessage:
        try:
            reply = await self._brokers.ask(member, ViewMessageById(offset=physical))
        except RequestRefused as refusal:
            gone = f"broker {member.name} has no message {message_id}: it was deleted with its file, or the id is wrong"
            raise NoSuchName(gone) from refusal
        return decode(bytes(reply.body), keep_bad_bodies=True)

    async def _query(self, request: QueryMessage, cluster: str) -> Sequence[FoundMessage]:
        topic, key = request.topic, request.key
        route = await self._brokers.route(topic)
        if route is None:
            raise NoSuchName(f"no name server knows a topic {topic!r}; firearrow topic list shows those that are there")
        names = {data.broker_name for data in route.queue_datas}
        members = [member for member in await self._brokers.readable(cluster) if member.name in names]
        bodies = await together(self._matches(member, request) for member in members)
        found = [
            FoundMessage(stored, member)
            for member, body in zip(members, bodies, strict=True)
            for stored in decode_all(body, keep_bad_bodies=True)
            if stored.topic == topic
            and key in ([stored.unique_key] if request.unique_key_query else [*stored.keys, stored.unique_key])
        ]  # the index knows keys by their hash, so others may be among the answers
        return sorted(found, key=lambda each: each.stored.store_timestamp)[: request.max_num]

    async def _matches(self, member: BrokerMember, request: QueryMessage) -> bytes:
        reply = await self._brokers.ask(member, request, accept=_FOUND_OR_NOT)
        return bytes(reply.body) if reply.code == ResponseCode.SUCCESS else b""
