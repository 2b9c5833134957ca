"""Hostile clients whose requests wait for long: lookups of a colliding key, producers that do not read, resubscribers.

Each says as much as the broker takes: a further batch whenever the one before has left.
"""

import time
from collections.abc import Iterator
from typing import Final

import msgspec

from benchmarks.hostile.floods import CARRIES_SUBSCRIPTION, frame
from benchmarks.hostile.lines import Lines
from campaigns.samples import SEND
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.query import QueryMessage

STORED_KEY: Final = "AaAaAaAa"
ASKED_KEY: Final = "BBBBBBBB"
"""Has the hash of the stored key, in Java and so in the index."""
FOREVER: Final = 1 << 60
MAY_WAIT: Final = 0x2
PREPARED: Final = 0x4


class Phased(Lines):
    """Says a beginning once on every connection, then batches for ever."""

    CONNECTIONS = 1

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._number = 0

    def words(self) -> Iterator[bytes]:
        """The beginning, then batches while there are any."""
        yield self.beginning()
        while batch := self.batch():
            yield batch

    def beginning(self) -> bytes:
        """Return the bytes that are sent first."""
        raise NotImplementedError

    def batch(self) -> bytes:
        """Return the bytes that are sent again and again."""
        return b""


class Lookups(Phased):
    """7,000 messages with one key, then lookups of another key with the same hash, 2,000 at a time."""

    def beginning(self) -> bytes:
        """The messages."""
        keyed = f"KEYS\x01{STORED_KEY}\x02"
        sent = msgspec.structs.replace(SEND, topic=f"{self._topic}-waits", queue_id=0, properties=keyed)
        return frame(sent, b"x") * 7_000

    def batch(self) -> bytes:
        """The lookups."""
        topic = f"{self._topic}-waits"
        wanted = QueryMessage(topic=topic, key=ASKED_KEY, max_num=32, begin_timestamp=0, end_timestamp=FOREVER)
        return frame(wanted) * 2_000


class SilentProducers(Phased):
    """1,000 producer groups of one connection, each with a half message, that read nothing."""

    READS = False
    GROUPS = 1_000

    def beginning(self) -> bytes:
        """The groups and their half messages."""
        names = [f"silent_{number}" for number in range(self.GROUPS)]
        data = HeartbeatData(client_id="silent", producer_data_set=[ProducerData(group_name=name) for name in names])
        return frame(HeartBeat(), encode_body(data)) + b"".join(map(self._half, names))

    def _half(self, group: str) -> bytes:
        self._number += 1
        properties = f"UNIQ_KEY\x010A{self._number:030d}\x02TRAN_MSG\x01true\x02PGROUP\x01{group}\x02"
        half = msgspec.structs.replace(
            SEND,
            producer_group=group,
            topic=self._topic,
            queue_id=0,
            sys_flag=PREPARED,
            born_timestamp=int(time.time() * 1000),
            properties=properties,
        )
        return frame(half, b"half")


class Resubscribers(Phased):
    """10,000 parked pulls on each of 9 connections, and heartbeats with an ever newer expression."""

    CONNECTIONS = 9

    def beginning(self) -> bytes:
        """A topic with an empty queue, and the pulls there, of another group than that of the heartbeats."""
        topic = f"{self._topic}-parked"
        sent = msgspec.structs.replace(SEND, topic=topic, queue_id=0)
        pull = PullMessage(
            consumer_group="parked",
            topic=topic,
            queue_id=1,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=CARRIES_SUBSCRIPTION | MAY_WAIT,
            commit_offset=0,
            suspend_timeout_millis=30_000,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        return frame(sent, b"x") + frame(pull) * 10_000

    def batch(self) -> bytes:
        """A hundred heartbeats."""
        return b"".join(self._heartbeat() for _ in range(100))

    def _heartbeat(self) -> bytes:
        self._number += 1
        wanted = SubscriptionData(topic=self._topic, sub_string=f"tag{self._number}", sub_version=self._number)
        group = ConsumerData(group_name="resubscribing", subscription_data_set=[wanted])
        data = HeartbeatData(client_id=f"c{self._number % self.CONNECTIONS}", consumer_data_set=[group])
        return frame(HeartBeat(), encode_body(data))
