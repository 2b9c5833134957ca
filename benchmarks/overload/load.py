"""The generator's process: many connections, sends encoded beforehand, a rate that is held, latency to the answer.

`python -m benchmarks.overload.load PORT CONNECTIONS IN_FLIGHT`, then one JSON object a line on standard input:
``{"rate": R, "seconds": S, "window": W}`` holds a rate and is answered when its time is over; ``{"report": true}``
waits for the answers still owed and is answered with the results of all phases since the last report. So phases follow
each other without a break, and yet the latency of a send counts in the phase that sent it, however late its answer
came. Rates count what came back while the phase lasted, whoever sent it.

A rate of 0 means as fast as answers come. A connection never has more than IN_FLIGHT sends without an answer; what
cannot be sent for that reason is not sent later. Latency is from the write to the read of the answer, so it holds the
turns of this process too: ``turn_p99_ms`` is how long they took.
"""

import asyncio
import gc
import json
import sys
import time
from collections import deque
from typing import Any

from benchmarks.overload.frames import Answers, heartbeat_body, send
from benchmarks.overload.frames import frame as encoded
from benchmarks.store.report import percentile
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.runtime.loops import new_loop

TOPIC = "overload"
QUEUES = 8
BODY = b"x" * 128
TICK_S = 0.002
HEARTBEATS = 50
"""Connections that also keep themselves registered."""
HEARTBEAT_S = 1.0
HEARTBEAT_OPAQUE = 1_000_000
SETTLE_S = 5.0
"""Seconds of waiting for answers that are still owed."""


class Tally:
    """The sends of one phase and their answers."""

    def __init__(self) -> None:
        self.accepted: list[float] = []
        self.refused: list[float] = []
        """Latencies of what this phase sent."""
        self.sent = self.owed = 0
        self.stored = self.declined = 0
        """Answers that came while it lasted."""
        self.heartbeats: list[float] = []
        self.turns: list[float] = []
        self.began = self.seconds = self.last_refusal = 0.0
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
        self._sent_in = [self.tally] * in_flight
        self._heartbeat = encoded(HeartBeat(), HEARTBEAT_OPAQUE, heartbeat_body(f"127.0.0.1@{number}"))
        self._heartbeat_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def write(self, count: int) -> int:
        """Send up to ``count``; return how many could be."""
        free, tally = self._free, self.tally
        taken = [free.popleft() for _ in range(min(count, len(free)))]
        if taken:
            now = time.perf_counter()
            for slot in taken:
                self._sent_at[slot], self._sent_in[slot] = now, tally
            self._transport.write(b"".join([self._frames[slot] for slot in taken]))
            tally.sent += len(taken)
            tally.owed += len(taken)
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
            took, sent_in = now - self._sent_at[opaque], self._sent_in[opaque]
            self._free.append(opaque)
            sent_in.owed -= 1
            back += 1
            if code == 0:
                tally.stored += 1
                sent_in.accepted.append(took)
            else:
                tally.declined += 1
                tally.last_refusal = now
                tally.codes[code] = tally.codes.get(code, 0) + 1
                sent_in.refused.append(took)
        if self.is_full_speed and back:
            self.write(back)


async def phase(senders: list[Sender], rate: float, seconds: float, window: int) -> Tally:
    """Hold a rate for a while; with a rate of 0 keep ``window`` sends of each connection under way."""
    tally = Tally()
    for sender in senders:
        sender.tally, sender.is_full_speed = tally, rate == 0
    began = last = tally.began = time.perf_counter()
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
        tally.turns.append(now - last)
        last = now
        each = max(int(due) // len(senders), 1)
        for _ in range(len(senders)):
            if due < 1:
                break
            due -= each
            senders[place].write(each)
            place = (place + 1) % len(senders)
        await asyncio.sleep(TICK_S)
    tally.seconds = time.perf_counter() - began
    after = Tally()
    for sender in senders:
        sender.tally, sender.is_full_speed = after, False
    return tally


async def settled(tallies: list[Tally]) -> list[dict[str, Any]]:
    """Return the results of the phases, once their last answers have come."""
    deadline = time.perf_counter() + SETTLE_S
    while any(tally.owed for tally in tallies) and time.perf_counter() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(TICK_S)
    return [_result(tally) for tally in tallies]


def _result(tally: Tally) -> dict[str, Any]:
    accepted, refused, seconds = tally.accepted, tally.refused, tally.seconds
    return {
        "seconds": seconds,
        "offered": tally.sent / seconds,
        "goodput": tally.stored / seconds,
        "refusals": tally.declined / seconds,
        "unanswered": tally.owed,
        "codes": tally.codes,
        "p50_ms": percentile(accepted, 0.5) * 1000 if accepted else None,
        "p99_ms": percentile(accepted, 0.99) * 1000 if accepted else None,
        "worst_ms": max(accepted, default=0.0) * 1000,
        "refused_p99_ms": percentile(refused, 0.99) * 1000 if refused else None,
        "last_refusal_s": max(tally.last_refusal - tally.began, 0.0),
        "heartbeats": len(tally.heartbeats),
        "heartbeat_worst_ms": max(tally.heartbeats, default=0.0) * 1000,
        "turn_p99_ms": percentile(tally.turns, 0.99) * 1000,
    }


async def main(port: int, connections: int, in_flight: int) -> None:
    """Serve the lines of standard input."""
    loop = asyncio.get_running_loop()
    senders = []
    for number in range(connections):
        _, sender = await loop.create_connection(lambda number=number: Sender(number, in_flight), "127.0.0.1", port)  # type: ignore[misc]
        senders.append(sender)
    gc.collect()
    gc.freeze()
    gc.disable()
    print(json.dumps({"connections": len(senders)}), flush=True)
    tallies: list[Tally] = []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        if "report" in asked:
            print(json.dumps(await settled(tallies)), flush=True)
            tallies = []
        else:
            tallies.append(await phase(senders, asked["rate"], asked["seconds"], asked["window"]))
            print("{}", flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(*map(int, sys.argv[1:4])))
