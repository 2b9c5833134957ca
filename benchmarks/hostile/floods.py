"""Hostile clients that make a broker remember or read much: names, offsets, keys, bodies, and the log for slaves."""

import zlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from benchmarks.hostile.lines import Lines
from campaigns.samples import SEND
from firearrow.model.flags import COMPRESSED
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from firearrow.protocol.bodies.group.lock import LockBatchBody
from firearrow.protocol.conversation import Request
from firearrow.protocol.ha_stream import report
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.lock import LockBatchMq
from firearrow.protocol.requests.group.offset import UpdateConsumerOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.query import QueryMessage
from firearrow.protocol.serialize import encode_request

LONGEST_KEYS: Final = "a " * 16_000
CARRIES_SUBSCRIPTION: Final = 0x4
HA_PORT: Final = 1
"""How far the port for slaves is above the port for clients."""


def frame(request: Request[Any], body: bytes = b"", opaque: int = 1) -> bytes:
    """A request as it goes over the wire."""
    return encode_request(0, request, opaque, body_size=len(body)) + body


class Rated(Lines):
    """So many requests in a step on every connection; answers are read."""

    CONNECTIONS = 4
    A_STEP = 10
    READS = True

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._number = 0

    def words(self, unsaid: int) -> bytes:
        """The requests of a step, unless the broker is slow to take them."""
        return b"" if unsaid else b"".join(self._next(self.request) for _ in range(self.A_STEP))

    def _next(self, request: Callable[[int], bytes]) -> bytes:
        self._number += 1
        return request(self._number)

    def request(self, number: int) -> bytes:
        """The next one."""
        raise NotImplementedError


class Topics(Rated):
    """200 messages a second, each to a topic of its own."""

    A_STEP = 5

    def request(self, number: int) -> bytes:
        """A first message."""
        return frame(msgspec.structs.replace(SEND, topic=f"flood_{id(self):x}_{number}", queue_id=0), b"x")


class Groups(Rated):
    """400 heartbeats a second, each of a consumer group and a producer group of its own."""

    def request(self, number: int) -> bytes:
        """A heartbeat."""
        name = f"flood_{id(self):x}_{number}"
        wanted = [SubscriptionData(topic=self._topic, sub_string="*", sub_version=number)]
        data = HeartbeatData(
            client_id=name,
            consumer_data_set=[ConsumerData(group_name=name, subscription_data_set=wanted)],
            producer_data_set=[ProducerData(group_name=name)],
        )
        return frame(HeartBeat(), encode_body(data))


class Offsets(Rated):
    """4,000 commits a second for invented groups, topics and queues, and locks of invented queues."""

    A_STEP = 100

    def request(self, number: int) -> bytes:
        """A commit, or locks."""
        if number % 100 == 0:
            queues = [{"topic": f"t{number}_{one}", "brokerName": "b", "queueId": one} for one in range(100)]
            body = msgspec.json.encode({"clientId": "c", "consumerGroup": f"g{number}", "mqSet": queues})
            return frame(LockBatchMq(), encode_body(msgspec.json.decode(body, type=LockBatchBody, strict=False)))
        group, topic = ("hostile", self._topic) if number % 3 else (f"g{number}", f"t{number}")
        return frame(UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=number, commit_offset=1))


class Keys(Rated):
    """40 messages a second with 16,000 keys each, and 40 questions for them."""

    A_STEP = 2

    def request(self, number: int) -> bytes:
        """A message, or a question."""
        if number % 2:
            long = f"KEYS\x01{LONGEST_KEYS}\x02"
            sent = msgspec.structs.replace(SEND, topic=f"{self._topic}-keys", queue_id=0, properties=long)
            return frame(sent, b"x")
        topic, forever = f"{self._topic}-keys", 1 << 60
        return frame(QueryMessage(topic=topic, key="a", max_num=64, begin_timestamp=0, end_timestamp=forever))


class BulkyBodies(Rated):
    """20 heartbeats a second of a megabyte in fastjson's own form, which is slow to read."""

    CONNECTIONS = 2
    A_STEP = 1
    BODY = b"{clientID:'c',producerDataSet:[" + b"{groupName:'g'}," * 65_000 + b"{groupName:'g'}]}"

    def request(self, number: int) -> bytes:
        """A heartbeat."""
        del number
        return frame(HeartBeat(), self.BODY)


class Bombs(Rated):
    """Bodies of 64 KiB that stand for 64 MiB, and 10 pulls a second with a filter that wants to read them."""

    CONNECTIONS = 1
    A_STEP = 1

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._bomb = zlib.compress(bytes(64 << 20), 9)

    def request(self, number: int) -> bytes:
        """A message, or a pull."""
        if number <= 20:
            sent = msgspec.structs.replace(SEND, topic=f"{self._topic}-bombs", queue_id=0, sys_flag=COMPRESSED)
            return frame(sent, self._bomb)
        pull = PullMessage(
            consumer_group="hostile",
            topic=f"{self._topic}-bombs",
            queue_id=0,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=CARRIES_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="body.amount > 1",
            sub_version=0,
            expression_type="CEL",
        )
        return frame(pull)


class LogPort(Lines):
    """100 connections to the port for slaves: some ask for the log and read nothing, some lie, some say nothing."""

    CONNECTIONS = 100

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port + HA_PORT, topic)
        self._greeted = 0

    def words(self, unsaid: int) -> bytes:
        """A first report, and a byte now and then."""
        self._greeted += 1
        if unsaid or self._greeted % 3 == 0:
            return b""
        return report(-1) if self._greeted % 3 == 1 else report(1 << 40)
