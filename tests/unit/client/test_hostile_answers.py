"""Hostile name servers and brokers: whatever they answer, a client raises its own errors, in time, and holds little."""

import asyncio
import struct
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from firearrow.client import Producer, PullConsumer, ReceivedMessage
from firearrow.client.routes import MOST_IN_DIALECT
from firearrow.errors import BadBody, FireArrowError
from firearrow.model import EpochMs, Message, MessageQueue, PhysicalOffset, QueueOffset
from firearrow.model.flags import COMPRESSED
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.naming.route import BrokerData, QueueData, TopicRouteData
from firearrow.protocol.command import Heading
from firearrow.protocol.frame import FrameSplitter, prefix
from firearrow.protocol.serialize import read_heading
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes
from firearrow.record.properties import StoredProperties

HOST = HostBytes(bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F]))
ROUTE_CODE, PULL_CODE, SEND_CODE = 105, 11, 310
TIMEOUT_MS = 700
MOST_MIB = 48

Answers = Callable[[Heading[Any], int], bytes]


def answer(opaque: int, body: bytes = b"", fields: dict[str, str] | None = None, code: int = 0) -> bytes:
    header = msgspec.json.encode({"code": code, "flag": 1, "opaque": opaque, "extFields": fields or {}})
    return prefix(0, len(header), len(body)) + header + body


class Hostile:
    """A name server and broker in one: routes lead to itself, and ``says`` what everything else is answered with."""

    def __init__(self, says: Answers, route: bytes | None = None, endless: bytes = b"") -> None:
        self._says = says
        self._route = route
        self._endless = endless
        self.port = 0
        self.asked: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = FrameSplitter()
        try:
            while data := await reader.read(1 << 16):
                for encoding, header, _ in splitter.feed(data):
                    heading = read_heading(encoding, header)[0]
                    self.asked.append(heading.code)
                    writer.write(self._answer(heading))
                    while self._endless and heading.code not in (ROUTE_CODE, 34, 35):
                        writer.write(self._endless)
                        await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _answer(self, heading: Heading[Any]) -> bytes:
        if heading.code == ROUTE_CODE:
            return answer(heading.opaque, self._route if self._route is not None else self._own_route())
        if heading.code in (34, 35):
            return answer(heading.opaque)
        return self._says(heading, heading.opaque)

    def _own_route(self) -> bytes:
        brokers = [BrokerData(broker_name="a", cluster="c", broker_addrs={0: f"127.0.0.1:{self.port}"})]
        queues = [QueueData(broker_name="a", perm=6, read_queue_nums=1, write_queue_nums=1)]
        return encode_body(TopicRouteData(broker_datas=brokers, queue_datas=queues))


@asynccontextmanager
async def serving(hostile: Hostile) -> AsyncIterator[str]:
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield f"127.0.0.1:{hostile.port}"
    finally:
        server.close()


def against(hostile: Hostile, act: Callable[[str], Awaitable[None]]) -> None:
    """Act against a hostile server, and look at the memory that it took."""

    async def main() -> None:
        async with serving(hostile) as address:
            tracemalloc.start()
            try:
                async with asyncio.timeout(20):
                    await act(address)
                assert tracemalloc.get_traced_memory()[1] < MOST_MIB << 20
            finally:
                tracemalloc.stop()

    asyncio.run(main())


async def send(address: str) -> None:
    async with Producer(address, retries=0, send_timeout_ms=TIMEOUT_MS) as producer:
        with pytest.raises(FireArrowError):
            await producer.send(Message.of("T", b"body"), timeout_ms=TIMEOUT_MS)


FRAMES: dict[str, tuple[Answers, bytes]] = {
    "nothing": (lambda _heading, _opaque: b"", b""),
    "the answer to another question": (lambda _heading, opaque: answer(opaque + 1), b""),
    "the answer to another question, for ever": (lambda _heading, _opaque: b"", answer(1 << 30, bytes(100_000))),
    "a length over the limit": (lambda _heading, _opaque: struct.pack(">II", 1 << 30, 10), b""),
    "a negative length": (lambda _heading, _opaque: b"\xff" * 8, b""),
    "a header longer than its frame": (lambda _heading, _opaque: struct.pack(">II", 100, 5000) + bytes(200), b""),
    "a frame that never ends": (lambda _heading, _opaque: struct.pack(">II", 15 << 20, 10) + b"x" * 10, b""),
    "a frame that grows": (lambda _heading, _opaque: struct.pack(">II", (16 << 20) + 1, 10), bytes(65536)),
    "no protocol at all": (lambda _heading, _opaque: b"HTTP/1.1 200 OK\r\n\r\n" * 100, b""),
    "no JSON": (lambda _heading, _opaque: prefix(0, 5000, 0) + b"{" * 5000, b""),
    "a message id that is none": (
        lambda _heading, opaque: answer(opaque, fields={"msgId": "x" * 100_000, "queueId": "0", "queueOffset": "y"}),
        b"",
    ),
    "success without fields": (lambda _heading, opaque: answer(opaque), b""),
    "a remark of a megabyte": (
        lambda _heading, opaque: answer(opaque, fields={"a": "b" * 900_000}, code=-7),
        b"",
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_send_ends_with_an_error_of_ours_in_time(kind: str) -> None:
    says, endless = FRAMES[kind]
    hostile = Hostile(says, endless=endless)
    against(hostile, send)
    assert SEND_CODE in hostile.asked


ROUTES = {
    "a million brokers": b'{"brokerDatas":['
    + b'{"brokerName":"b","brokerAddrs":{"0":"1.1.1.1:1"}},' * 200_000
    + b"{}]}",
    "slow to read": b"{brokerDatas:[" + b"{brokerName:'b'}," * (MOST_IN_DIALECT // 17 + 10) + b"{}]}",
    "queues without end": b'{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2147483647}]}',
    "no address": b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{"0":"nowhere"}}]}',
    "deep": b'{"brokerDatas":' + b"[" * 100_000,
    "not text": bytes(range(256)) * 10,
}


@pytest.mark.parametrize("kind", ROUTES)
def test_a_route_that_cannot_be_is_an_error_of_ours(kind: str) -> None:
    hostile = Hostile(lambda _heading, opaque: answer(opaque), route=ROUTES[kind])
    against(hostile, send)
    assert SEND_CODE not in hostile.asked


def record(body: bytes, *, sys_flag: int = 0) -> bytes:
    draft = Draft("T", 0, body, StoredProperties(b""), EpochMs(1), HOST, HOST, 0, sys_flag)
    return encode(draft, QueueOffset(0), PhysicalOffset(0), EpochMs(2))


BOMB = record(zlib.compress(bytes(64 << 20), 9), sys_flag=COMPRESSED)
GOOD = record(b"good")
LYING = {
    "longer than it is": struct.pack(">i", 1 << 30) + GOOD[4:],
    "shorter than anything": struct.pack(">i", 3) + GOOD[4:],
    "of no size": struct.pack(">i", 0) + GOOD[4:],
    "of a negative size": struct.pack(">i", -1) + GOOD[4:],
    "cut": GOOD[:-5],
    "no record": b"\xee" * 5000,
}


PULL_FIELDS = {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1", "suggestWhichBrokerId": "0"}


def broker_with(records: bytes) -> Hostile:
    """A broker that answers every pull with these bytes."""

    def says(heading: Heading[Any], opaque: int) -> bytes:
        if heading.code == PULL_CODE:
            return answer(opaque, records, PULL_FIELDS)
        return answer(opaque, fields={"offset": "0"})

    return Hostile(says)


async def first_of(address: str) -> list[ReceivedMessage]:
    """The first message that a consumer is handed."""
    async with PullConsumer(address, group="g") as consumer:
        queue = MessageQueue("T", "a", 0)
        await consumer.assign([queue])
        await consumer.seek(queue, 0)
        return await consumer.poll(1, timeout_ms=1500)


@pytest.mark.parametrize("kind", LYING)
def test_a_record_that_lies_about_its_size_is_not_handed_out(kind: str) -> None:
    async def act(address: str) -> None:
        with suppress(FireArrowError):
            assert await first_of(address) == []

    hostile = broker_with(LYING[kind])
    against(hostile, act)
    assert PULL_CODE in hostile.asked


def test_a_bomb_in_a_message_is_told_and_not_unpacked() -> None:
    async def act(address: str) -> None:
        (message,) = await first_of(address)
        assert message.body_fault
        with pytest.raises(BadBody):
            _ = message.body

    against(broker_with(BOMB), act)


def test_a_record_that_does_not_lie_is_handed_out() -> None:
    async def act(address: str) -> None:
        (message,) = await first_of(address)
        assert message.body == b"good"

    against(broker_with(GOOD), act)
