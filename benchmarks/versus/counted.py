"""A fixed number of sends, and the CPU that a broker takes for them: `python -m benchmarks.versus.counted`.

    python -m benchmarks.versus.counted --floor                      every row, the floor beside ours
    python -m benchmarks.versus.counted --floor --before DIRECTORY   and an older checkout of this repository
    python -m benchmarks.versus.counted --rows 128x1 batch           some rows

Requests are encoded beforehand and sent by a page of Python. CPU for a fixed amount of work differs less between runs
on a busy machine than a rate does, so two versions of the broker can be compared there, in many short turns. Other work
on the machine only adds CPU (cold caches, a slower clock): the lower quartile of the turns differs least.
"""

import argparse
import socket
import statistics
import struct
import sys
from contextlib import ExitStack
from datetime import UTC
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks.overload.frames import OPAQUE_AT, Answers, frame
from benchmarks.versus.contestants import ASYNC, BEFORE, FLOOR, OURS, QUEUES, TOPIC, Contestant, Standing
from campaigns.samples import SEND
from firearrow.model import EpochMs, Message
from firearrow.protocol.requests.message.send import SendBatchMessage
from firearrow.record.batch import encode_batch
from firearrow.record.message_id import UniqueKeys

FRAMES = 320
READ_AT_ONCE = 1 << 20
BORN = EpochMs(1_790_000_000_000)


class Row(NamedTuple):
    """A way to send."""

    batch: int
    body: int
    in_flight: int
    connections: int
    sends: int


ROWS = {
    "128x1": Row(1, 128, 1, 1, 500),
    "128x16": Row(1, 128, 16, 1, 3000),
    "128x64": Row(1, 128, 64, 1, 5000),
    "1024x16": Row(1, 1024, 16, 1, 3000),
    "16conns": Row(1, 128, 1, 16, 1600),
    "batch": Row(32, 128, 4, 1, 300),
}
"""Bytes of a message x sends under way; 16 connections with a send each; batches of 32."""


def frames(batch: int, body_bytes: int) -> list[bytearray]:
    """Different requests to take turns with; they lack their opaques."""
    keys = UniqueKeys("fd00::2", 1, 1, UTC)
    made = []
    for number in range(FRAMES):
        body = bytes([ord("a") + number % 26]) * body_bytes
        sent = [Message(TOPIC, body, {"UNIQ_KEY": keys.next(BORN), "WAIT": "true"}) for _ in range(batch)]
        request = replace(
            SEND, topic=TOPIC, queue_id=number % QUEUES, properties=f"UNIQ_KEY\x01{keys.next(BORN)}\x02WAIT\x01true\x02"
        )
        if batch > 1:
            fields = {name: getattr(request, name) for name in SendBatchMessage.__struct_fields__}
            asked, body = SendBatchMessage(**fields | {"batch": True}), encode_batch(sent)
            made.append(bytearray(frame(asked, 0, body)))
        else:
            made.append(bytearray(frame(request, 0, body)))
    return made


class Sender:
    """One connection, with so many sends under way."""

    def __init__(self, broker: str, requests: list[bytearray], in_flight: int) -> None:
        host, _, port = broker.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests, self._in_flight = requests, in_flight
        self._answers = Answers()
        self._sent = 0
        self.answered = self.refused = 0

    def send(self, sends: int) -> None:
        """Have as many under way as there may be, of so many in all."""
        fresh = []
        while self._sent < sends and self._sent - self.answered < self._in_flight:
            request = self._requests[self._sent % len(self._requests)]
            struct.pack_into(">i", request, OPAQUE_AT, self._sent)
            fresh.append(bytes(request))
            self._sent += 1
        self._socket.sendall(b"".join(fresh))

    def receive(self) -> None:
        """Wait for an answer, and take what came with it."""
        for code, _ in self._answers.feed(self._socket.recv(READ_AT_ONCE)):
            self.answered += 1
            self.refused += code != 0

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


def send_all(broker: str, requests: list[bytearray], sends: int, in_flight: int, connections: int = 1) -> int:
    """Send so many over some connections, never more than a few under way on each; return how many were refused."""
    senders = [Sender(broker, requests, in_flight) for _ in range(connections)]
    share = -(-sends // connections)
    while any(sender.answered < share for sender in senders):
        for sender in senders:
            sender.send(share)
        for sender in senders:
            if sender.answered < share:
                sender.receive()
    for sender in senders:
        sender.close()
    return sum(sender.refused for sender in senders)


def cpu_us(group: int) -> float:
    """CPU of every thread of a group of processes that runs, in microseconds: finer than the clock's ticks."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[2]) == group:
                threads = (stat.parent / "task").glob("*/schedstat")
                total += sum(int(thread.read_text().split()[0]) for thread in threads)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total / 1000


def measure(standing: Standing, row: Row, requests: list[bytearray]) -> float:
    """One turn: microseconds of CPU a message."""
    before = cpu_us(standing.pids[0])
    refused = send_all(standing.broker, requests, row.sends, row.in_flight, row.connections)
    if refused:
        print(f"{standing.name} refused {refused} sends", flush=True)
    return (cpu_us(standing.pids[0]) - before) / (row.sends * row.batch)


def turns(standings: dict[str, Standing], name: str, row: Row, count: int) -> dict[str, list[float]]:
    """Everybody in turns, after a turn that warms up."""
    requests = frames(row.batch, row.body)
    taken: dict[str, list[float]] = {name: [] for name in standings}
    for number in range(count + 1):
        for who, standing in standings.items():
            cpu = measure(standing, row, requests)
            if number:
                taken[who].append(cpu)
        print(f"\r{name}: turn {number} of {count}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return taken


def table_row(name: str, who: list[str], taken: dict[str, list[float]]) -> str:
    """Lower quartiles with medians, and how many times that of the others ours is."""
    quartiles = {one: statistics.quantiles(cpu, n=4) for one, cpu in taken.items()}
    ours = quartiles["ours"][0]
    cells = [f"{quartiles[one][0]:.1f} ({quartiles[one][1]:.1f})" if one in quartiles else "-" for one in who]
    ratios = [f"{ours / quartiles[one][0]:.2f}" if one in quartiles else "-" for one in who[1:]]
    return "| " + " | ".join([name, *cells, *ratios]) + " |"


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--before", help="a checkout of an older version, measured in turns with this one")
    parser.add_argument("--floor", action="store_true", help="measure the floor too; it takes no batches")
    options = parser.parse_args()
    with ExitStack() as stack:
        standings = {"ours": stack.enter_context(Contestant(OURS, ASYNC))}
        if options.before:
            standings[BEFORE] = stack.enter_context(Contestant(BEFORE, ASYNC, options.before))
        if options.floor:
            standings[FLOOR] = stack.enter_context(Contestant(FLOOR, ASYNC))
        others = list(standings)[1:]
        print("us of CPU a message: lower quartile (median)\n")
        print("| " + " | ".join(["row", *standings, *(f"ours / {who}" for who in others)]) + " |")
        print("|---" * (1 + len(standings) + len(others)) + "|")
        for name in options.rows:
            row = ROWS[name]
            fit = {who: standing for who, standing in standings.items() if who != FLOOR or row.batch == 1}
            print(table_row(name, list(standings), turns(fit, name, row, options.turns)), flush=True)


if __name__ == "__main__":
    main()
