"""Appending messages, beside a loop that packs, sums and writes the same records, and beside bare writes.

One slice of each side after the other; CPU is the loop thread's own, the kernel's part included. "Log" is
`Store.append` with nothing behind it, which is what the reference does; "all" has queues and index behind it.
"""

import asyncio
import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.store.bench import Bench
from benchmarks.store.messages import SIZES, Reference, drafts_of
from benchmarks.store.report import Goal, Report, shown
from benchmarks.store.stores import config_of, on_loop, running
from campaigns.drafts import append_batch
from firearrow.record.encode import Draft
from firearrow.store.store import Store

GOAL = 0.7
SEGMENT = 1 << 30
BATCH = 32
SLICE_BYTES = 512 << 10

Turn = Callable[[Sequence[Draft]], None]
SIDES = ("log", "all", "reference", "pwrite")


@dataclass(slots=True)
class Side:
    """Microseconds a message of every slice."""

    cpu_us: list[float] = field(default_factory=list)
    wall_us: list[float] = field(default_factory=list)


def measure(bench: Bench) -> Report:
    """Three sizes; one a turn, 32 a turn, and batches of 32."""
    report = Report("microseconds of CPU a message, and rates as parts of the reference's")
    report.say(
        f"{'':28} {'log':>12} {'all':>12} {'reference':>12} {'pwrite':>12} {'cpu ratio':>9} {'wall':>5} {'all':>5}"
    )
    for kind, turn_of in (("one a turn", 1), ("32 a turn", BATCH), ("batches of 32", BATCH)):
        for name, size in SIZES.items():
            with bench.place() as root:
                sides = on_loop(_compare(root, size, turn_of, batched=kind.startswith("batch"), quick=bench.quick))
            _tell(report, f"{name}, {kind}", sides)
    return report


def _tell(report: Report, name: str, sides: dict[str, Side]) -> None:
    cpu = {side: statistics.median(figures.cpu_us) for side, figures in sides.items()}
    wall = {side: statistics.median(figures.wall_us) for side, figures in sides.items()}
    ratio, wall_ratio, with_views = (
        cpu["reference"] / cpu["log"],
        wall["reference"] / wall["log"],
        cpu["reference"] / cpu["all"],
    )
    columns = " ".join(f"{shown(sides[side].cpu_us):>12}" for side in SIDES)
    report.say(f"{name:28} {columns} {ratio:9.2f} {wall_ratio:5.2f} {with_views:5.2f}")
    report.goals.append(Goal(f"append {name}, of the reference's rate", ratio, GOAL))
    report.figures[name] = {
        "cpu_us": {side: round(value, 3) for side, value in cpu.items()},
        "wall_us": {side: round(value, 3) for side, value in wall.items()},
        "ratio": round(ratio, 3),
        "wall_ratio": round(wall_ratio, 3),
        "ratio_with_views": round(with_views, 3),
    }


async def _compare(root: str, size: int, turn_of: int, *, batched: bool, quick: bool) -> dict[str, Side]:
    record = size + 200
    turns = max(4, SLICE_BYTES // record // turn_of)
    slices = 15 if quick else 81
    sides = {side: Side() for side in SIDES}
    # A batch is of one queue; single messages come for all of them.
    messages = drafts_of(size, turn_of * turns, queues=1 if batched else 8)
    groups = [messages[at : at + turn_of] for at in range(0, len(messages), turn_of)]
    async with running(f"{root}/log", config_of()) as bare, running(f"{root}/all", config_of()) as whole:
        bare.log._sink = lambda rows: None  # noqa: ARG005
        reference = Reference(f"{root}/reference", SEGMENT)
        floor = Floor(f"{root}/floor", SEGMENT, groups)
        ways: dict[str, Turn] = {
            "log": _turn(bare, batched=batched),
            "all": _turn(whole, batched=batched),
            "reference": lambda drafts: reference.write(drafts, 1_700_000_000_001),
            "pwrite": floor.write,
        }
        gc.collect()
        gc.freeze()
        for number in range(slices + 3):
            for side, way in ways.items():
                cpu, wall = await _slice(way, groups)
                if number >= 3:
                    sides[side].cpu_us.append(cpu / len(messages))
                    sides[side].wall_us.append(wall / len(messages))
        reference.close()
        floor.close()
    return sides


def _turn(store: Store, *, batched: bool) -> Turn:
    """One turn of a broker's: what came is appended, and written at the turn's end."""
    append = store.append

    def singly(drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            append(draft)

    def whole(drafts: Sequence[Draft]) -> None:
        append_batch(store, drafts)

    return whole if batched else singly


class Floor:
    """The same number of bytes in the same number of writes, made beforehand."""

    def __init__(self, path: str, size: int, groups: list[list[Draft]]) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(self._descriptor, size)
        self._at = 0
        first = groups[0]
        self._piece = bytes(sum(91 + len(one.body) + len(one.topic) + len(one.properties) + 20 for one in first))

    def write(self, drafts: Sequence[Draft]) -> None:  # noqa: ARG002
        os.pwrite(self._descriptor, self._piece, self._at)
        self._at += len(self._piece)

    def close(self) -> None:
        os.close(self._descriptor)


async def _slice(way: Turn, groups: list[list[Draft]]) -> tuple[float, float]:
    """Microseconds of CPU and of time for one turn after the other, each a turn of the loop."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    waiting = iter(groups)

    def step() -> None:
        drafts = next(waiting, None)
        if drafts is None:
            done.set_result(None)
            return
        way(drafts)
        loop.call_soon(step)

    await asyncio.sleep(0)
    wall, cpu = time.perf_counter(), time.thread_time()
    loop.call_soon(step)
    await done
    return (time.thread_time() - cpu) * 1e6, (time.perf_counter() - wall) * 1e6
