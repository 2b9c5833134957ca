"""`python -m benchmarks.hostile.attacks KIND PORT TOPIC`: a hostile client, until its standard input ends.

It sends as fast as it can, at the priority of everybody else. ``busy`` is the ordinary client that it is compared with:
a producer that sends 1 KiB messages at ``--rate`` bytes a second and uses ``--cpu`` of its core, signed if ``--keys``
names an account.
"""

import argparse
import json
import select
import socket
import sys
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from benchmarks.hostile.floods import Bombs, BulkyBodies, Groups, Keys, LogPort, Offsets, Sends, Topics
from benchmarks.hostile.lines import OPENED_AT_ONCE, WAIT_S, Attack, Lines, Repeated
from benchmarks.hostile.strangers import Dialect, Fields, Metrics, Refusals, Signatures
from benchmarks.hostile.waits import Lookups, Resubscribers, SilentProducers
from campaigns.samples import SEND
from firearrow.protocol.auth import Credentials, Signer
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.frame import prefix
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.serialize import encode_request
from firearrow.runtime.acceptor import raise_descriptor_limit

HELD_MS: Final = 600_000
CARRIES_SUBSCRIPTION: Final = 0x4
MAY_WAIT: Final = 0x2
PULLS: Final = 150
PACE_S: Final = 0.001


def pull(topic: str, opaque: int) -> bytes:
    """A pull of as much as the broker gives at all."""
    request = PullMessage(
        consumer_group="hostile",
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=1000,
        sys_flag=CARRIES_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
        max_msg_bytes=1 << 30,
        large=True,
    )
    return encode_request(0, request, opaque)


def poll(topic: str, opaque: int, filling: int) -> bytes:
    """A pull at the end of an empty queue with a header of so many bytes: tags it wants, or a field nobody knows."""
    fields = {
        "consumerGroup": "hostile",
        "topic": topic,
        "queueId": "1",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": str(CARRIES_SUBSCRIPTION | MAY_WAIT),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(HELD_MS),
        "subVersion": "0",
        "expressionType": "TAG",
        "subscription": "*",
    }
    tags = "||".join(f"t{number}" for number in range(filling // 8))
    fields |= {"subscription": tags} if opaque % 2 else {"unknown": "x" * filling}
    header = msgspec.json.encode({"code": int(RequestCode.PULL_MESSAGE), "opaque": opaque, "extFields": fields})
    return prefix(0, len(header), 0) + header


class Pipelining(Repeated):
    """150 large pulls in every write, and nothing is read."""

    CONNECTIONS = 8
    READS = False

    def made(self) -> bytes:
        """Pulls."""
        return b"".join(pull(self._topic, opaque) for opaque in range(PULLS))


class Polls(Repeated):
    """Pulls that wait for ten minutes, with headers close to the longest."""

    CONNECTIONS = 8
    FILLING = 255_000

    def made(self) -> bytes:
        """Eight of them."""
        return b"".join(poll(self._topic, opaque, self.FILLING) for opaque in range(8))


class HalfFrames(Lines):
    """Frames of 15 MiB that grow by 64 KiB up to 4 MiB, then by a byte, and never end."""

    CONNECTIONS = 64
    PIECE = 64 * 1024
    MOST = 4 << 20

    def words(self) -> Iterator[bytes]:
        """A frame without its end."""
        yield prefix(0, 100, 15 << 20)
        for _ in range(self.MOST // self.PIECE):
            yield b"x" * self.PIECE
        while True:
            yield b"x"


class Flood(Attack):
    """12,000 idle connections; those that the broker closes are opened anew at once."""

    MOST = 12_000

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        raise_descriptor_limit()
        self._kept: dict[int, socket.socket] = {}
        self._watch = select.epoll()

    def step(self) -> None:
        """Drop what was closed, open some more."""
        is_full = len(self._kept) >= self.MOST
        for number, _ in self._watch.poll(WAIT_S if is_full else 0, self.MOST):
            self._kept.pop(number).close()
            self.ended += 1
        for _ in range(min(OPENED_AT_ONCE, self.MOST - len(self._kept))):
            one = self.connect()
            self._kept[one.fileno()] = one
            self._watch.register(one, select.EPOLLRDHUP)


class SlowReaders(Pipelining):
    """150 large pulls in every write, of whose answers a kilobyte is read every 100 ms; opened anew at once."""

    CONNECTIONS = 32
    EVERY_S = 0.1

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._due = 0.0

    def step(self) -> None:
        """Pulls, and now and then a little of the answers."""
        super().step()
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self.EVERY_S
            for line, _, _ in self._lines.values():
                try:
                    line.recv(1024)
                except OSError:
                    continue


class SlowWriters(Lines):
    """500 connections that say a pull byte by byte, each byte in a packet of its own."""

    CONNECTIONS = 500

    def connect(self) -> socket.socket:
        """A connection that does not gather bytes."""
        one = super().connect()
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return one

    def words(self) -> Iterator[bytes]:
        """Bytes."""
        said = pull(self._topic, 1)
        while True:
            for at in range(len(said)):
                yield said[at : at + 1]


class Busy(Repeated):
    """No attack: a producer of 1 KiB messages at a given rate, whose answers are read."""

    def __init__(self, port: int, topic: str, rate: float, cpu: float, keys: str) -> None:
        super().__init__(port, topic)
        self._rate = rate
        self._cpu = cpu
        self._begin = time.monotonic()
        user, _, secret = keys.partition(":")
        self._sign = Signer(Credentials(user, secret)) if keys else None

    def made(self) -> bytes:
        """Some messages."""
        sent = msgspec.structs.replace(SEND, topic=self._topic, queue_id=1)
        body = b"x" * 1024
        extra = self._sign(sent, body) if self._sign else None
        return (encode_request(0, sent, 1, body_size=len(body), extra=extra) + body) * 4

    def step(self) -> None:
        """Send what the rate allows by now; use as much CPU as told, so that neighbours on its core wait as long."""
        spent = time.monotonic() - self._begin
        if self.sent <= spent * self._rate:
            super().step()
        elif time.process_time() >= spent * self._cpu:
            time.sleep(PACE_S)


ATTACKS: Final[dict[str, type[Attack]]] = {
    "pipelining": Pipelining,
    "slow-readers": SlowReaders,
    "slow-writers": SlowWriters,
    "half-frames": HalfFrames,
    "flood": Flood,
    "polls": Polls,
    "topics": Topics,
    "groups": Groups,
    "offsets": Offsets,
    "keys": Keys,
    "bodies": BulkyBodies,
    "bombs": Bombs,
    "log-port": LogPort,
    "sends": Sends,
    "signatures": Signatures,
    "dialect": Dialect,
    "fields": Fields,
    "refusals": Refusals,
    "metrics": Metrics,
    "lookups": Lookups,
    "silent": SilentProducers,
    "resubscribers": Resubscribers,
}


def main() -> None:
    """Attack until told to end; print what was done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*ATTACKS, "busy"])
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("--rate", type=float, default=0.0, help="bytes a second of the ordinary client")
    parser.add_argument("--cpu", type=float, default=0.0, help="share of a core that the ordinary client uses")
    parser.add_argument("--keys", default="", metavar="USER:SECRET", help="the account of the ordinary client")
    given = parser.parse_args()
    attack: Attack
    if given.kind == "busy":
        attack = Busy(given.port, given.topic, given.rate, given.cpu, given.keys)
    else:
        attack = ATTACKS[given.kind](given.port, given.topic)
    attack.step()
    print("it has begun", flush=True)
    begin, cpu_began = time.monotonic(), time.process_time()
    while not select.select([sys.stdin], [], [], 0)[0]:
        attack.step()
    seconds = time.monotonic() - begin
    told = {
        "opened": attack.opened,
        "ended": attack.ended,
        "bytes_a_second": attack.sent / seconds,
        "cpu": (time.process_time() - cpu_began) / seconds,
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
