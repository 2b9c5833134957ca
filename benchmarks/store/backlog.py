"""A backlog of 10^8 messages: appends and reads cost the same at its head, its middle and its tail.

``python -m benchmarks.store.backlog --directory DIR --messages 100000000`` appends batches of 32 small messages over 8
queues until so many are there, showing how far it is, and goes on where it was stopped: by ``--seconds``, or by
anything else, a kill included. Every part of a twentieth is noted in ``DIR/backlog.jsonl``. Then a fresh start reads a
stretch of every queue at the head, the middle and the tail, three times in turn. Rates are of CPU, because a shared
machine's clock shows its other users; those by the clock stand beside. About 20 GB for 10^8.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.store.bench import Bench
from benchmarks.store.machine import machine_line
from benchmarks.store.messages import TOPIC, drafts_of, properties_of
from benchmarks.store.report import Goal, Report
from benchmarks.store.stores import config_of, on_loop, running
from campaigns.drafts import append_batch
from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from firearrow.record.encode import Draft
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.store import Store

BODY = 24
BATCH = 32
QUEUES = 8
PARTS = 20
LEAST_PART = 50_000
ROUND = BATCH * QUEUES
READ = 25_600
"""Messages read of every queue at each place."""
FLAT = 0.2
SHOWN_SECONDS = 5.0

Part = dict[str, Any]


def measure(bench: Bench) -> Report:
    """A small one, for the table of all benchmarks."""
    with bench.place() as root:
        return run(root, 200_000 if bench.quick else 2_000_000)


def run(root: str, messages: int, seconds: float = float("inf")) -> Report:
    """Append what is missing, for so long at most, then read if nothing is missing any more."""
    report = Report(f"{messages:,} messages of {BODY} bytes: thousands a second of CPU, and by the clock")
    notes = f"{root}/backlog.jsonl"
    have = on_loop(_append(f"{root}/store", messages, seconds, lambda part: _note(notes, part)))
    if have < messages:
        report.say(f"{have:,} messages are there; the same command goes on")
        report.figures = {"messages": messages, "have": have}
        return report
    with open(notes, encoding="utf-8") as lines:
        parts: list[Part] = [json.loads(line) for line in lines]
    appended = {place: _near(parts, place) for place in ("head", "middle", "tail")}
    read = on_loop(_read(f"{root}/store"))
    for what, rates in (("append", appended), ("read", read)):
        for kind in ("cpu", "clock"):
            shown = "  ".join(f"{place} {rates[place][kind] / 1e3:7.1f}" for place in rates)
            report.say(f"{what + ', ' + kind:14} {shown}")
        flat = _unevenness([rates[place]["cpu"] for place in rates])
        report.goals.append(Goal(f"{what} rate, head to tail, most differ by", flat, FLAT, at_least=False))
    size = sum(os.path.getsize(f"{root}/store/commitlog/{name}") for name in os.listdir(f"{root}/store/commitlog"))
    report.say(f"log {size / 1e9:.1f} GB, resident {_rss_mib():.0f} MiB, noted in {len(parts)} parts")
    report.figures = {"messages": messages, "append": appended, "read": read, "log_bytes": size}
    return report


def _note(path: str, part: Part) -> None:
    with open(path, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(part) + "\n")
    print(f"  {part['from']:>12,} {part['cpu']:10,.0f} a second of CPU {part['clock']:10,.0f}", file=sys.stderr)


def _near(parts: list[Part], place: str) -> dict[str, float]:
    """The median rates of the parts at a place: a fifth of all, and at least three."""
    ordered = sorted(parts, key=lambda part: part["from"])
    count = min(len(ordered), max(3, len(ordered) // 5))
    first = {"head": 0, "middle": (len(ordered) - count) // 2, "tail": len(ordered) - count}[place]
    some = ordered[first : first + count]
    return {kind: statistics.median(part[kind] for part in some) for kind in ("cpu", "clock")}


def _unevenness(rates: list[float]) -> float:
    return (max(rates) - min(rates)) / max(rates)


async def _append(root: str, messages: int, seconds: float, note: Callable[[Part], None]) -> int:
    """Append until so many are there or the time is over; return how many there are."""
    part = max(LEAST_PART, messages // PARTS) // ROUND * ROUND
    async with running(root, config_of()) as store:
        ends = time.perf_counter() + seconds
        have = sum(queue.max_offset for queue in store.queues.of_topic(TOPIC))
        while have < messages and time.perf_counter() < ends:
            wall, cpu, first = time.perf_counter(), time.process_time(), have
            have = await _part(store, have, part, messages, ends)
            await store.views.flush(store._log_flushed)
            took, wall_took = time.process_time() - cpu, time.perf_counter() - wall
            if have - first >= LEAST_PART // 2:
                count = have - first
                note({"from": first, "count": count, "cpu": count / took, "clock": count / wall_took})
    return have


async def _part(store: Store, have: int, part: int, messages: int, ends: float) -> int:
    until, shown_at, shown = have + part, time.perf_counter(), have
    while have < until:
        for _ in range(QUEUES):
            append_batch(store, _batch(have))
            have += BATCH
            await asyncio.sleep(0)
        now = time.perf_counter()
        if now - shown_at >= SHOWN_SECONDS:
            rate = (have - shown) / (now - shown_at)
            left = max(0, messages - have) / rate
            print(f"  {have:,} of {messages:,}, {rate:,.0f} a second, {left:,.0f} s left", file=sys.stderr, flush=True)
            shown_at, shown = now, have
        if now >= ends:
            break
    return have


_models = [drafts_of(BODY, 1, first=queue_id)[0] for queue_id in range(QUEUES)]


def _batch(first: int) -> list[Draft]:
    """Messages of one queue; the queues take turns."""
    model = _models[first // BATCH % QUEUES]
    return [
        Draft(
            model.topic, model.queue_id, model.body, properties_of(first + number), model.born_timestamp,
            model.born_host, model.store_host,
        )
        for number in range(BATCH)
    ]  # fmt: skip


async def _read(root: str) -> dict[str, dict[str, float]]:
    async with running(root, config_of()) as store:
        each = min(queue.max_offset for queue in store.queues.of_topic(TOPIC))
        count = min(READ, each // 4)
        places = {"head": 0, "middle": (each - count) // 2, "tail": each - count}
        taken: dict[str, list[tuple[float, float]]] = {place: [] for place in places}
        for _ in range(3):
            for place, offset in places.items():
                taken[place].append(await _stretch(store, offset, count))
    return {
        place: {
            "cpu": statistics.median(cpu for cpu, _ in rates),
            "clock": statistics.median(clock for _, clock in rates),
        }
        for place, rates in taken.items()
    }


async def _stretch(store: Store, first: int, count: int) -> tuple[float, float]:
    """Messages a second of CPU and by the clock, every queue in turn."""
    wall, cpu = time.perf_counter(), time.process_time()
    got, offsets = 0, [first] * QUEUES
    while min(offsets) < first + count:
        for queue_id in range(QUEUES):
            pulled = await store.read(TOPIC, queue_id, ReadRequest(offsets[queue_id], BATCH, 256 << 10))
            assert pulled.messages, f"queue {queue_id} at {offsets[queue_id]}: {pulled.status}"
            offsets[queue_id] = pulled.next_offset
            got += pulled.messages
    return got / (time.process_time() - cpu), got / (time.perf_counter() - wall)


def _rss_mib() -> float:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.store.backlog", description=__doc__)
    arguments.add_argument("--directory", default="build/backlog", help="kept, so that a second run goes on")
    arguments.add_argument("--messages", type=int, default=100_000_000)
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="append for so long at most")
    arguments.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append the figures to this file")
    options = arguments.parse_args()
    os.makedirs(options.directory, exist_ok=True)
    print(machine_line(options.directory), flush=True)
    report = run(options.directory, options.messages, options.seconds)
    print(report.title)
    for line in [*report.lines, *map(str, report.goals)]:
        print(f"  {line}")
    if report.goals:
        Ledger("bench-store backlog", options.ledger).add(report.figures)
    return 0 if all(goal.reached for goal in report.goals) else 1


if __name__ == "__main__":
    raise SystemExit(main())
