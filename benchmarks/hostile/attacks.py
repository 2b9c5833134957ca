"""`python -m benchmarks.hostile.attacks KIND PORT TOPIC`: a hostile client, until its standard input ends.

It gives way to others on its core, so that the clients beside it wait for the broker and not for this process.
"""

import json
import os
import select
import socket
import sys
from typing import Final

import msgspec

from benchmarks.hostile.floods import Bombs, BulkyBodies, Groups, Keys, LogPort, Offsets, Topics
from benchmarks.hostile.lines import Attack, Lines
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.frame import prefix
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.serialize import encode_request
from firearrow.runtime.acceptor import raise_descriptor_limit

STEP_S: Final = 0.1
HELD_MS: Final = 600_000
CARRIES_SUBSCRIPTION: Final = 0x4
MAY_WAIT: Final = 0x2


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


class Pipelining(Lines):
    """150 large pulls in every write, and nothing is read."""

    def words(self, unsaid: int) -> bytes:
        """More pulls, while the broker takes them."""
        return b"" if unsaid else b"".join(pull(self._topic, opaque) for opaque in range(150))


class Polls(Lines):
    """Pulls that wait for ten minutes, with headers of a megabyte: fifty a second, fifty on a connection."""

    READS = True
    FILLING = 990_000
    EACH = 50

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._said = 0
        self._left = 0
        self._made = [poll(topic, opaque, self.FILLING) for opaque in range(2)]

    def step(self) -> None:
        """Five more."""
        self._left = 5
        super().step()

    def words(self, unsaid: int) -> bytes:
        """One more on this connection, if it is its turn."""
        if unsaid or not self._left or self._said >= self.EACH * self.CONNECTIONS:
            return b""
        self._left -= 1
        self._said += 1
        return self._made[self._said % 2]


class HalfFrames(Lines):
    """Frames of 15 MiB that grow by 64 KiB in a step up to 4 MiB, then by a byte, and never end."""

    CONNECTIONS = 64
    PIECE = 64 * 1024
    MOST = 4 << 20

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._grown: dict[socket.socket, int] = {}

    def step(self) -> None:
        """A piece more of each."""
        super().step()
        for line in self._lines:
            grown = self._grown.get(line, 0)
            if not self._lines[line]:
                begins = prefix(0, 100, 15 << 20) if not grown else b""
                self._lines[line] += begins + b"x" * (self.PIECE if grown < self.MOST else 1)
                self._grown[line] = grown + self.PIECE
        self._grown = {line: grown for line, grown in self._grown.items() if line in self._lines}

    def words(self, unsaid: int) -> bytes:
        """Nothing else."""
        del unsaid
        return b""


class Flood(Attack):
    """12,000 idle connections; those that the broker closes are opened anew, 2,000 a second at most."""

    MOST = 12_000
    A_STEP = 200

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        raise_descriptor_limit()
        self._kept: dict[int, socket.socket] = {}
        self._watch = select.epoll()

    def step(self) -> None:
        """Drop what was closed, open some more."""
        for number, _ in self._watch.poll(0, self.MOST):
            self._kept.pop(number).close()
            self.ended += 1
        for _ in range(min(self.A_STEP, self.MOST - len(self._kept))):
            one = self.connect()
            self._kept[one.fileno()] = one
            self._watch.register(one, select.EPOLLRDHUP)


class SlowReaders(Pipelining):
    """150 large pulls in every write, of whose answers a kilobyte is read in every step; 10 connections a second."""

    CONNECTIONS = 32
    OPENED_IN_A_STEP = 1

    def _look(self, line: socket.socket) -> None:
        try:
            if not line.recv(1024):
                raise ConnectionResetError
        except BlockingIOError:
            return


class SlowWriters(Lines):
    """500 connections that say a pull, a byte a second."""

    CONNECTIONS = 500

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._pull = pull(topic, 1)
        self._said = 0
        self._left = 0

    def step(self) -> None:
        """A byte on every tenth connection."""
        self._left = self.CONNECTIONS // 10
        super().step()
        self._lines = dict([*list(self._lines.items())[self.CONNECTIONS // 10 :], *list(self._lines.items())[:50]])

    def words(self, unsaid: int) -> bytes:
        """One byte, while this step has some left."""
        if unsaid or not self._left:
            return b""
        self._left -= 1
        self._said += 1
        at = self._said // self.CONNECTIONS % len(self._pull)
        return self._pull[at : at + 1]


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
}


def main() -> None:
    """Attack until told to end."""
    os.nice(19)
    attack = ATTACKS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
    attack.step()
    print("it has begun", flush=True)
    while not select.select([sys.stdin], [], [], STEP_S)[0]:
        attack.step()
    print(json.dumps({"opened": attack.opened, "ended": attack.ended}), flush=True)


if __name__ == "__main__":
    main()
