"""50,000 queues: 6,250 topics of 8.

A process makes them, with two messages each, and closes. Another one starts on what is there, takes messages for queues
at random at a steady pace, beside a store with one queue in turn, and says what it holds. Descriptors and resident
memory are the most that were seen.
"""

import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import time
from typing import Any

from benchmarks.store.bench import Bench
from benchmarks.store.messages import drafts_of
from benchmarks.store.pacing import Latencies, paced
from benchmarks.store.report import Goal, Report, percentile
from benchmarks.store.stores import config_of, on_loop, running
from firearrow.record.encode import Draft
from firearrow.store.store import Store

TOPICS = 6_250
QUEUES = 8
EVERY = 0.0005
SLICE_SECONDS = 5.5
"""A little more than what lies between two flushes: every slice has one."""


def measure(bench: Bench) -> Report:
    """Made, opened, used."""
    topics = TOPICS // 10 if bench.quick else TOPICS
    report = Report(f"{topics * QUEUES:,} queues in {topics:,} topics")
    with bench.place() as root:
        made = _child("make", root, topics, 0)
        used = _child("use", root, topics, 1 if bench.quick else 5)
    report.say(
        f"made with {made['messages']:,} messages in {made['seconds']:.1f} s; closed in {made['closing_s']:.1f} s"
    )
    report.say(f"clean start {used['start_s']:.2f} s, of CPU {used['start_cpu_s']:.2f} s")
    report.say(f"descriptors {used['descriptors']:,}, resident {used['rss_mib']:,.0f} MiB")
    report.say(f"{'ms':30} {'p50':>8} {'p99':>8} {'p99.9':>8} {'maximum':>8}")
    for name in ("one queue", "all queues"):
        for what in ("held the loop", "held, by the clock", "due to written"):
            figures = used[name][what]
            report.say(f"{name + ', ' + what:30} " + " ".join(f"{value:8.3f}" for value in figures))
        times, *figures = used[name]["held by anything >= 1 ms"]
        values = " ".join(f"{value:8.3f}" for value in figures)
        report.say(f"{name + ', turns >= 1 ms':30} {values} in {times} turns")
    many, one = used["all queues"], used["one queue"]
    report.goals += [
        Goal("open descriptors", used["descriptors"], 2000, at_least=False),
        Goal("resident memory, MiB", used["rss_mib"], 1536, at_least=False),
        Goal("clean start, s", used["start_s"], 10, at_least=False),
        Goal("append p99, of one queue's", many["held the loop"][1] / one["held the loop"][1], 2, at_least=False),
        Goal(
            "due to written p99, of one queue's",
            many["due to written"][1] / one["due to written"][1],
            2,
            at_least=False,
        ),
    ]
    report.figures = {"topics": topics} | made | used
    return report


def _child(verb: str, root: str, topics: int, slices: int) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.store.manyqueues", verb, root, str(topics), str(slices)]
    answer = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout
    figures: dict[str, Any] = json.loads(answer)
    return figures


def _messages(topics: int) -> list[Draft]:
    return [
        draft
        for topic in range(topics)
        for draft in drafts_of(1024, QUEUES, topic=f"topic-{topic:05d}", queues=QUEUES, first=topic * QUEUES)
    ]


async def make(root: str, topics: int) -> dict[str, Any]:
    """Two messages for every queue."""
    began = time.perf_counter()
    async with running(f"{root}/many", config_of()) as store:
        for _ in range(2):
            for number, draft in enumerate(_messages(topics)):
                store.append(draft)
                if number % 32 == 0:
                    await asyncio.sleep(0)
        closing = time.perf_counter()
    ended = time.perf_counter()
    return {"messages": 2 * topics * QUEUES, "seconds": ended - began, "closing_s": ended - closing}


async def use(root: str, topics: int, slices: int) -> dict[str, Any]:
    """Start on it, and append to queues at random and to one, in turn."""
    began, cpu = time.perf_counter(), time.process_time()
    async with running(f"{root}/many", config_of()) as many:
        figures: dict[str, Any] = {
            "start_s": time.perf_counter() - began,
            "start_cpu_s": time.process_time() - cpu,
        }
        async with running(f"{root}/one", config_of()) as one:
            chance = random.Random(4)
            messages = _messages(topics)
            order = chance.choices(messages, k=100_000)
            gc.collect()
            gc.freeze()
            sides: dict[str, tuple[Store, list[Draft], Latencies]] = {
                "one queue": (one, messages[:1], Latencies()),
                "all queues": (many, order, Latencies()),
            }
            for _ in range(slices):
                for store, drafts, latencies in sides.values():
                    await _slice(store, drafts, latencies)
                figures["descriptors"] = max(figures.get("descriptors", 0), len(os.listdir("/proc/self/fd")))
            figures["rss_mib"] = _highest_rss_mib()
            for name, (_, _, latencies) in sides.items():
                figures[name] = {
                    "due to written": _summary(latencies.written),
                    "held the loop": _summary(latencies.held),
                    "held, by the clock": _summary(latencies.clock),
                    "held by anything >= 1 ms": [len(latencies.turns), *_summary(latencies.turns or [0.0])],
                }
    return figures


async def _slice(store: Store, drafts: list[Draft], latencies: Latencies) -> None:
    done = len(latencies.held)
    some = await paced(store, lambda number: [drafts[(done + number) % len(drafts)]], EVERY, SLICE_SECONDS)
    latencies.held += some.held
    latencies.clock += some.clock
    latencies.turns += some.turns
    latencies.written += some.written


def _summary(values: list[float]) -> list[float]:
    return [*(round(percentile(values, part), 4) for part in (0.5, 0.99, 0.999)), round(max(values), 2)]


def _highest_rss_mib() -> float:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    verb, root, topics, slices = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    print(json.dumps(on_loop(make(root, topics) if verb == "make" else use(root, topics, slices))))
