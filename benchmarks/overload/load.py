"""The generator's process: many connections, sends encoded beforehand, a rate that is held, latency to the answer.

`python -m benchmarks.overload.load PORT CONNECTIONS IN_FLIGHT`, then one JSON object a line on standard input
(``{"rate": R, "seconds": S}``), one back for each. A rate of 0 means as fast as answers come. A connection never has
more than IN_FLIGHT sends without an answer; what cannot be sent for that reason is not sent later.
"""

import asyncio
import json
import sys
import time
from collections import deque
from typing import Any

from benchmarks.overload.frames import Answers, heartbeat_body, send
from benchmarks.overload.frames import frame as encoded
from benchmarks.store.report import percentile
from firearrow.protocol.requests.heartbeat import HeartBeat
from firearrow.runtime.loops import new_loop

TOPIC = "overload"
QUEUES = 8
BODY = b"x" * 128
TICK_S = 0.002
HEARTBEATS = 50
"""Connections that also keep themselves registered."""
HEARTBEAT_S = 1.0
HEARTBEAT_OPAQUE = 1_000_000
CODES_OK = frozenset({0})


class Tally:
    """What came back in one phase."""

    def __init__(self) -> None:
        self.accepted: list[float] = []
        self.refused: list[float] = []
        self.sent = 0
        self.heartbeats: list[float] = []
        self.last_refusal = 0.0
        self.codes: dict[int, int] = {}


class Sender(asyncio.Protocol):
    """One connection."""

    def __init__(self, number: int, in_flight: int) -> None:
        self.tally = Tally()
        self.is_full_speed = False
        self._answers = Answers()
        self._frames = [send(TOPIC, (number + slot) % QUEUES, slot, BODY) for slot in range(in_flight)]
        self._free = deque(range(in_flight))
        self._sent_at = [0.0] * in_flight
        self._heartbeat = encoded(HeartBeat(), HEARTBEAT_OPAQUE, heartbeat_body(f"127.0.0.1@{number}"))
        self._heartbeat_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def write(self, count: int) -> int:
        """Send up to ``count``; return how many could be."""
        free, now = self._free, time.perf_counter()
        taken = [free.popleft() for _ in range(min(count, len(free)))]
        for slot in taken:
            self._sent_at[slot] = now
        if taken:
            self._transport.write(b"".join([self._frames[slot] for slot in taken]))
            self.tally.sent += len(taken)
        return len(taken)

    def beat(self) -> None:
        """Say that we are there."""
        self._heartbeat_at = time.perf_counter()
        self._transport.write(self._heartbeat)

    def data_received(self, data: bytes) -> None:
        now, tally = time.perf_counter(), self.tally
        back = 0
        for code, opaque in self._answers.feed(data):
            if opaque == HEARTBEAT_OPAQUE:
                tally.heartbeats.append(now - self._heartbeat_at)
                continue
            took = now - self._sent_at[opaque]
            self._free.append(opaque)
            back += 1
            if code == 0:
                tally.accepted.append(took)
            else:
                tally.refused.append(took)
                tally.last_refusal = now
                tally.codes[code] = tally.codes.get(code, 0) + 1
        if self.is_full_speed and back:
            self.write(back)


async def phase(senders: list[Sender], rate: float, seconds: float, window: int) -> dict[str, Any]:
    """Hold a rate for a while; with a rate of 0 keep ``window`` sends of each connection under way."""
    tally = Tally()
    for sender in senders:
        sender.tally, sender.is_full_speed = tally, rate == 0
    began = last = time.perf_counter()
    beat_at, due, place = 0.0, 0.0, 0
    if rate == 0:
        for sender in senders:
            sender.write(window)
    while (now := time.perf_counter()) - began < seconds:
        if now - beat_at > HEARTBEAT_S:
            beat_at = now
            for sender in senders[:HEARTBEATS]:
                sender.beat()
        due += (now - last) * rate
        last = now
        each = max(int(due) // len(senders), 1)
        for _ in range(len(senders)):
            if due < 1:
                break
            due -= each
            senders[place].write(each)
            place = (place + 1) % len(senders)
        await asyncio.sleep(TICK_S)
    for sender in senders:
        sender.is_full_speed = False
    return _result(tally, time.perf_counter() - began, began)


def _result(tally: Tally, seconds: float, began: float) -> dict[str, Any]:
    accepted, refused = tally.accepted, tally.refused
    return {
        "seconds": seconds,
        "offered": tally.sent / seconds,
        "goodput": len(accepted) / seconds,
        "refusals": len(refused) / seconds,
        "codes": tally.codes,
        "p50_ms": percentile(accepted, 0.5) * 1000 if accepted else None,
        "p99_ms": percentile(accepted, 0.99) * 1000 if accepted else None,
        "refused_p99_ms": percentile(refused, 0.99) * 1000 if refused else None,
        "last_refusal_s": max(tally.last_refusal - began, 0.0),
        "heartbeats": len(tally.heartbeats),
        "heartbeat_worst_ms": max(tally.heartbeats, default=0.0) * 1000,
    }


async def main(port: int, connections: int, in_flight: int) -> None:
    """Serve the lines of standard input."""
    loop = asyncio.get_running_loop()
    senders = []
    for number in range(connections):
        _, sender = await loop.create_connection(lambda number=number: Sender(number, in_flight), "127.0.0.1", port)  # type: ignore[misc]
        senders.append(sender)
    print(json.dumps({"connections": len(senders)}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        result = await phase(senders, asked["rate"], asked["seconds"], asked.get("window", 1))
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(*map(int, sys.argv[1:4])))
