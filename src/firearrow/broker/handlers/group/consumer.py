"""Lists connected clients and passes questions on to consumers. Java: ``AdminBrokerProcessor``, ``Broker2Client``.

An operator's question to one consumer (its state, or to consume a message now) is sent over that consumer's own
connection, and the consumer's answer is returned unchanged.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final, cast

from msgspec.structs import replace

from firearrow import fastjson
from firearrow.broker.handlers.admin.large_answer import NAMES_AT_ONCE, in_order, put_together, topics_of
from firearrow.broker.identity import Identity
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.state.state_file import in_pieces
from firearrow.broker.tables.clients import Client, ClientTable, ConsumerGroup
from firearrow.broker.tables.disagreement import Disagreements
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import BadBody, FireArrowError, IllegalMessage, OffsetNotStored, RequestRefused, RequestTimedOut
from firearrow.model.message import MessageQueue
from firearrow.model.versions import version_number
from firearrow.protocol.bodies.admin.topic import GroupList
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import QuerySubscriptionBody
from firearrow.protocol.bodies.group.heartbeat import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
)
from firearrow.protocol.bodies.group.offset import GetConsumerStatusBody
from firearrow.protocol.bodies.naming.route import TopicList
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.topic import QueryTopicConsumeByWho
from firearrow.protocol.requests.group.group import (
    GetAllProducerInfo,
    GetConsumerConnectionList,
    GetProducerConnectionList,
    QuerySubscriptionByConsumer,
    QueryTopicsByConsumer,
)
from firearrow.protocol.requests.group.push import ConsumeMessageDirectly, GetConsumerRunningInfo
from firearrow.protocol.requests.group.reset import GetConsumerStatusFromClient, InvokeBrokerToGetConsumerStatus
from firearrow.remoting.handlers import Answer, Call, Handlers, Later, Peer
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.runtime.turn import Pace, breathe
from firearrow.store.store import Store

ANSWERS_SINCE: Final = version_number("3.1.8") - 1
"""Consumers from this version on answer these questions (V3_1_8_SNAPSHOT)."""
ASK_TIMEOUT_MS: Final = 10_000
STATUS_TIMEOUT_MS: Final = 5_000
ASKED_AT_ONCE: Final = 256
"""Most members of a group that are asked side by side."""
ASKED_IN_A_TURN: Final = 32
"""Questions of one request that are sent in one turn of the loop."""
MOST_HEADER_BYTES: Final = 16 * 1024
"""Largest header of a question to clients, which is kept for as long as they are silent."""


class ConsumerHandlers:
    """Answers questions about connected clients."""

    def __init__(
        self,
        disagreements: Disagreements,
        *,
        store: Store,
        topics: TopicBook,
        groups: GroupBook,
        clients: ClientTable,
        offsets: OffsetTable,
        clock: Clock,
        identity: Identity,
        lanes: Lanes,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._clock = clock
        self._identity = identity
        self._lanes = lanes
        self._disagreements = disagreements

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(GetConsumerConnectionList, self.consumers, urgent=True)
        handlers.on(GetProducerConnectionList, self.producers, urgent=True)
        handlers.on(GetAllProducerInfo, self.all_producers, urgent=True)
        handlers.on(QueryTopicConsumeByWho, self.groups_of_topic, urgent=True)
        handlers.on(QueryTopicsByConsumer, self.topics_of_group, urgent=True)
        handlers.on(QuerySubscriptionByConsumer, self.subscription, urgent=True)
        handlers.on(GetConsumerRunningInfo, self.running_info, urgent=True)
        handlers.on(ConsumeMessageDirectly, self.consume_directly, urgent=True)
        handlers.on(InvokeBrokerToGetConsumerStatus, self.status, urgent=True)

    # ---- connected clients

    def consumers(self, request: GetConsumerConnectionList, call: Call) -> Later:
        """Return the members of a consumer group and its subscriptions."""
        group = self._clients.group(request.consumer_group)
        if group is None:
            remark = f"the consumer group[{request.consumer_group}] not online"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        differs = self._disagreements.lasting.get(group.name)
        body = ConsumerConnection(
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_disagreement=None if differs is None else str(differs),
            subscription_table=group.subscriptions,
        )
        return self._lanes.do(call, WaitKind.TURNS, _connections(encode_body(body), list(group.members.values())))

    def producers(self, request: GetProducerConnectionList, call: Call) -> Later:
        """Return the members of a producer group."""
        members = self._clients.producers(request.producer_group)
        if members is None:
            remark = f"the producer group[{request.producer_group}] not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        body = encode_body(ProducerConnection())
        return self._lanes.do(call, WaitKind.TURNS, _connections(body, list(members.values())))

    def all_producers(self, _request: GetAllProducerInfo, call: Call) -> Later:
        """Return every producer, by group. The answer is built over several turns: there may be ten thousands."""
        return self._lanes.do(call, WaitKind.TURNS, self._all_producers())

    async def _all_producers(self) -> Answer:
        what = "all producers are {}: ask for those of one group"
        return Answer(body=bytes(await put_together(self._producer_pieces(), what)))

    def _producer_pieces(self) -> Iterator[bytes]:
        """Yield the table of all producers in pieces. Groups and members may come and go between two of them."""
        born_ms = self._clock.now_ms() - elapsed_ms()
        before = b'{"data":{'
        for name, members in list(self._clients.producer_groups()):
            rows = (encode_body(_producer(client, born_ms)) for client in list(members.values()))
            yield from in_pieces(rows, before + fastjson.encode(name) + b":[", b"]")
            before = b","
        yield b"}}" if before == b"," else before + b"}}"

    def groups_of_topic(self, request: QueryTopicConsumeByWho, call: Call) -> Later:
        """Return the groups that subscribe to a topic or have offsets in it."""
        return self._lanes.do(call, WaitKind.TURNS, self._groups_of_topic(request.topic))

    async def _groups_of_topic(self, topic: str) -> Answer:
        known, pace = list[str](), Pace(NAMES_AT_ONCE)
        for group in list(self._clients.groups()):
            if topic in group.subscriptions:
                known.append(group.name)
            await pace.did()
        for name in list(self._offsets.groups_in(topic)):
            if self._offsets.queues_of(topic, name) is not None:
                known.append(name)
            await pace.did()
        return Answer(body=encode_body(GroupList(group_list=await in_order(known))))

    def topics_of_group(self, request: QueryTopicsByConsumer, call: Call) -> Later:
        """Return the topics in which a group has offsets."""
        return self._lanes.do(call, WaitKind.TURNS, self._topics_of_group(request.group))

    async def _topics_of_group(self, group: str) -> Answer:
        topics = await topics_of(self._offsets, group)
        return Answer(body=encode_body(TopicList(broker_addr=self._identity.address, topic_list=topics)))

    def subscription(self, request: QuerySubscriptionByConsumer, _call: Call) -> Answer:
        """Return the subscription of a group to a topic."""
        group = self._clients.group(request.group)
        wanted = None if group is None else group.subscriptions.get(request.topic or "")
        body = QuerySubscriptionBody(group=request.group, topic=request.topic, subscription_data=wanted)
        return Answer(body=encode_body(body))

    # ---- asking consumers

    def running_info(self, request: GetConsumerRunningInfo, call: Call) -> Later:
        """Return a consumer's report about itself."""
        _check_size(call)
        peer = self._consumer(request.consumer_group, request.client_id)
        return self._lanes.do(
            call, WaitKind.CLIENT, _pass_on(peer, request, b"", request.consumer_group, request.client_id)
        )

    def consume_directly(self, request: ConsumeMessageDirectly, call: Call) -> Later:
        """Let a consumer consume a message now."""
        _check_size(call)
        peer = self._consumer(request.consumer_group, request.client_id or "")
        return self._lanes.do(call, WaitKind.CLIENT, self._consume_directly(request, peer))

    async def _consume_directly(self, request: ConsumeMessageDirectly, peer: Peer) -> Answer:
        try:
            record = await self._store.lookups.by_message_id(request.msg_id or "")
        except (OffsetNotStored, IllegalMessage) as missing:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(missing)) from missing
        topic = self._topics.get(request.topic) if request.topic else None
        group = self._groups.get(request.consumer_group)
        passed = replace(
            request,
            broker_name=self._identity.name,
            topic_sys_flag=request.topic_sys_flag if topic is None else topic.topic_sys_flag,
            group_sys_flag=request.group_sys_flag if group is None else group.group_sys_flag,
        )
        return await _pass_on(peer, passed, record, request.consumer_group, request.client_id or "")

    def _consumer(self, group_name: str, client_id: str) -> Peer:
        group = self._clients.group(group_name)
        client = None if group is None else group.member(client_id)
        if client is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online")
        if client.version < ANSWERS_SINCE:
            remark = f"The Consumer <{client_id}> Version <{client.version}> too low to finish"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return cast("Peer", client.connection)

    def status(self, request: InvokeBrokerToGetConsumerStatus, call: Call) -> Later:
        """Return the offsets that the consumers of a group report themselves."""
        _check_size(call)
        group = self._clients.group(request.group)
        if group is None:
            remark = f"No Any Consumer online in the consumer group: [{request.group}]"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return self._lanes.do(call, WaitKind.CLIENT, self._statuses(request, group))

    async def _statuses(self, request: InvokeBrokerToGetConsumerStatus, group: ConsumerGroup) -> Answer:
        """Ask members side by side; let other questions have their turn between portions of a large group."""
        asked = GetConsumerStatusFromClient(topic=request.topic, group=request.group)
        wanted = [each for each in group.members.values() if request.client_addr in (None, "", each.client_id)]
        table: dict[str, dict[MessageQueue, int]] = {}
        for first in range(0, len(wanted), ASKED_AT_ONCE):
            if first:
                await self._lanes.give_way()
            portion = wanted[first : first + ASKED_AT_ONCE]
            told = await asyncio.gather(*(_status(each, asked, turn) for turn, each in enumerate(portion)))
            known = zip(portion, told, strict=True)
            table |= {client.client_id: offsets for client, offsets in known if offsets is not None}
        return Answer(body=encode_body(GetConsumerStatusBody(consumer_table=table)))


async def _pass_on(peer: Peer, request: Request[Any], body: bytes, group: str, client_id: str) -> Answer:
    try:
        reply = await peer.call(request, body, timeout_ms=ASK_TIMEOUT_MS)
    except RequestTimedOut as late:
        remark = f"consumer <{group}> <{client_id}> Timeout: {late}"
        raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from late
    except RequestRefused as refusal:
        raise Refused(refusal.code, refusal.remark) from refusal
    except FireArrowError as error:
        remark = f"invoke consumer <{group}> <{client_id}> Exception: {error}"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error
    return Answer(body=reply.body, remark=reply.remark)


async def _status(client: Client, asked: GetConsumerStatusFromClient, number: int) -> dict[MessageQueue, int] | None:
    """Return the offsets that a consumer reports; None: it did not answer, and is left out as in Apache."""
    for _ in range(number // ASKED_IN_A_TURN):
        await breathe()
    try:
        reply = await cast("Peer", client.connection).call(asked, timeout_ms=STATUS_TIMEOUT_MS)
        return fastjson.decode(reply.body, GetConsumerStatusBody).message_queue_table
    except (FireArrowError, BadBody):
        return None


def _check_size(call: Call) -> None:
    """Refuse a question that would be kept for long and is large."""
    size = len(call.asked.header)
    if size > MOST_HEADER_BYTES:
        remark = f"the header of this question has {size} bytes, and may have {MOST_HEADER_BYTES}: shorten its fields"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)


async def _connections(body: bytes, clients: list[Client]) -> Answer:
    """Return an answer with connections as its ``connectionSet``, which is the first and empty in ``body``."""
    head, empty, tail = body.partition(b'"connectionSet":[')
    rows = (encode_body(_connection(client)) for client in clients)
    what = f"{len(clients)} connections are {{}}"
    return Answer(body=bytes(await put_together(in_pieces(rows, head + empty, tail), what)))


def _connection(client: Client) -> ClientConnection:
    address = str(cast("Peer", client.connection).address)
    return ClientConnection(
        client_addr=address, client_id=client.client_id, language=client.language, version=client.version
    )


def _producer(client: Client, born_ms: int) -> ProducerInfo:
    return ProducerInfo(
        client_id=client.client_id,
        language=client.language,
        last_update_timestamp=born_ms + client.heard_ms,
        remote_ip=f"/{cast('Peer', client.connection).address}",
        version=client.version,
    )
