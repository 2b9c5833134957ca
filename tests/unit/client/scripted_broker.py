"""A broker that answers transactions as a test wants, with its name server, over real sockets."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from firearrow.model import EpochMs, PhysicalOffset, QueueOffset, keys
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.naming.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from firearrow.protocol.requests.group.heartbeat import HeartBeat, UnregisterClient
from firearrow.protocol.requests.message.send import SendAnswer, SendMessageV2
from firearrow.protocol.requests.naming.route import GetBrokerClusterInfo, GetRouteInfoByTopic
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState, EndTransaction
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes
from firearrow.record.properties import StoredProperties, format_properties
from firearrow.remoting.handlers import Answer, Call, Handlers, Later, Peer
from firearrow.remoting.server import Server
from firearrow.runtime.network import Address, SystemNetwork

HOST = HostBytes(bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F]))


def record_of_half(group: str, unique_key: str, body: bytes = b"order") -> bytes:
    """The body of a check-back."""
    properties = format_properties({keys.PGROUP: group, keys.UNIQ_KEY: unique_key, keys.TRAN_MSG: "true"})
    draft = Draft("T", 0, body, StoredProperties(properties.encode()), EpochMs(1), HOST, HOST)
    return encode(draft, QueueOffset(9), PhysicalOffset(900), EpochMs(2))


class ScriptedBroker:
    """A name server and a broker in one: stores nothing, and answers ENDs as told."""

    def __init__(self) -> None:
        self.halves: list[SendMessageV2] = []
        self.ends: list[EndTransaction] = []
        self.beats: list[Peer] = []
        self.half_code = 0
        self.on_end: Callable[[Call], Answer | Later | None] = lambda _call: None
        handlers = Handlers()
        handlers.on(GetRouteInfoByTopic, self._route)
        handlers.on(GetBrokerClusterInfo, self._cluster)
        handlers.on(HeartBeat, self._beat)
        handlers.on(UnregisterClient, lambda _request, _call: None)
        handlers.on(SendMessageV2, self._send)
        handlers.on(EndTransaction, self._end)
        self.server = Server(SystemNetwork(), handlers)

    @property
    def _broker(self) -> BrokerData:
        return BrokerData(broker_addrs={0: str(self.server.address)}, broker_name="a", cluster="c")

    def _route(self, _request: GetRouteInfoByTopic, _call: Call) -> Answer:
        queues = [QueueData(broker_name="a", perm=6, read_queue_nums=1, write_queue_nums=1)]
        return Answer(body=encode_body(TopicRouteData(broker_datas=[self._broker], queue_datas=queues)))

    def _cluster(self, _request: GetBrokerClusterInfo, _call: Call) -> Answer:
        return Answer(body=encode_body(ClusterInfo(broker_addr_table={"a": self._broker})))

    def _beat(self, _request: HeartBeat, call: Call) -> None:
        self.beats.append(call.peer)

    def _send(self, request: SendMessageV2, _call: Call) -> Answer:
        self.halves.append(request)
        return Answer(
            SendAnswer(msg_id="7F0000010000367D0000000000000040", queue_id=0, queue_offset=5), b"", self.half_code
        )

    def _end(self, request: EndTransaction, call: Call) -> Answer | Later | None:
        self.ends.append(request)
        return self.on_end(call)

    def ask_back(self, body: bytes) -> None:
        """Push a check-back to the newest producer."""
        request = CheckTransactionState(topic="T", tran_state_table_offset=9, commit_log_offset=900, transaction_id="t")
        self.beats[-1].push(request, body)


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[ScriptedBroker, str]]:
    broker = ScriptedBroker()
    await broker.server.start(Address("127.0.0.1", 0))
    try:
        yield broker, str(broker.server.address)
    finally:
        await broker.server.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the other end of a socket
            await asyncio.sleep(0.005)


@contextmanager
def logged() -> Iterator[list[str]]:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Lines(logging.WARNING), logging.getLogger("firearrow.client.producer")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
