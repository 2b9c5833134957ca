"""Hostile clients that make a broker remember or read much: names, offsets, keys, bodies, and the log for slaves."""

import zlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from benchmarks.hostile.lines import NUMBER, Lines, Numbered, Repeated
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


def frame(request: Request[Any], body: bytes = b"", opaque: int = 1) -> bytes:
    """A request as it goes over the wire."""
    return encode_request(0, request, opaque, body_size=len(body)) + body


class Topics(Numbered):
    """Messages, each to a topic of its own."""

    def pattern(self) -> bytes:
        """A first message."""
        return frame(msgspec.structs.replace(SEND, topic=f"flood_{id(self):x}_{NUMBER.decode()}", queue_id=0), b"x")


class Groups(Numbered):
    """Heartbeats, each of a consumer group and a producer group of its own."""

    def pattern(self) -> bytes:
        """A heartbeat."""
        name = f"flood_{id(self):x}_{NUMBER.decode()}"
        wanted = [SubscriptionData(topic=self._topic, sub_string="*", sub_version=1)]
        data = HeartbeatData(
            client_id=name,
            consumer_data_set=[ConsumerData(group_name=name, subscription_data_set=wanted)],
            producer_data_set=[ProducerData(group_name=name)],
        )
        return frame(HeartBeat(), encode_body(data))


class Offsets(Numbered):
    """Commits for invented groups, topics and queues, and locks of invented queues."""

    TOGETHER = 1
    COMMITS = 100

    def pattern(self) -> bytes:
        """Commits of invented and of known groups, and locks of a hundred queues."""
        number = NUMBER.decode()
        invented = UpdateConsumerOffset(consumer_group=f"g{number}", topic=f"t{number}", queue_id=1, commit_offset=1)
        known = UpdateConsumerOffset(consumer_group="hostile", topic=self._topic, queue_id=900, commit_offset=1)
        queues = [{"topic": f"t{number}_{one}", "brokerName": "b", "queueId": one} for one in range(100)]
        body = msgspec.json.encode({"clientId": "c", "consumerGroup": f"g{number}", "mqSet": queues})
        locks = encode_body(msgspec.json.decode(body, type=LockBatchBody, strict=False))
        return (frame(invented) + frame(known) * 2) * (self.COMMITS // 3) + frame(LockBatchMq(), locks)


class Keys(Repeated):
    """Messages with 16,000 keys each, and a question for them after every message."""

    def made(self) -> bytes:
        """A message and a question."""
        topic, forever = f"{self._topic}-keys", 1 << 60
        long = f"KEYS\x01{LONGEST_KEYS}\x02"
        sent = msgspec.structs.replace(SEND, topic=topic, queue_id=0, properties=long)
        asked = QueryMessage(topic=topic, key="a", max_num=64, begin_timestamp=0, end_timestamp=forever)
        return frame(sent, b"x") + frame(asked)


class BulkyBodies(Repeated):
    """Heartbeats of a megabyte in fastjson's own form, which is slow to read."""

    CONNECTIONS = 2
    BODY = b"{clientID:'c',producerDataSet:[" + b"{groupName:'g'}," * 65_000 + b"{groupName:'g'}]}"

    def made(self) -> bytes:
        """A heartbeat."""
        return frame(HeartBeat(), self.BODY)


class Bombs(Lines):
    """Bodies of 64 KiB that stand for 64 MiB, and pulls with a filter that wants to read them."""

    CONNECTIONS = 4
    COUNT = 20

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        sent = msgspec.structs.replace(SEND, topic=f"{topic}-bombs", queue_id=0, sys_flag=COMPRESSED)
        self._left = self.COUNT
        self._bomb = frame(sent, zlib.compress(bytes(64 << 20), 9))

    def words(self) -> Iterator[bytes]:
        """Messages, then pulls."""
        while self._left:
            self._left -= 1
            yield self._bomb
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
        while True:
            yield frame(pull) * 8


class Sends(Repeated):
    """Messages of a byte, as many as the broker takes: each waits for its answer in the broker's line."""

    def made(self) -> bytes:
        """Some messages."""
        return frame(msgspec.structs.replace(SEND, topic=self._topic, queue_id=1), b"x") * 64


class LogPort(Lines):
    """100 connections to the port for slaves: some ask for the log and read nothing, some lie, some say nothing."""

    PORT = "log"
    CONNECTIONS = 100
    READS = False

    def words(self) -> Iterator[bytes]:
        """Reports, or nothing."""
        kind = self.opened % 3
        while kind:
            yield report(-1) if kind == 1 else report(1 << 40)
