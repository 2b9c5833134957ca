"""Opening a store after its process died: megabytes of log a second.

Recovery: from the first byte on, because nothing was ever flushed: every record is checked, then written again and
synced. Checking: the same without writing, as a scrub does it. Rebuild: queues and index made anew from the log, on
disk at the end. The log is in the page cache.
"""

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from benchmarks.store.bench import Bench
from benchmarks.store.messages import SIZES, drafts_of
from benchmarks.store.report import Report, shown
from benchmarks.store.stores import CLOCK, config_of, on_loop, opened
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.machine import this_machine
from firearrow.store.recovery.open_log import OpenedLog, open_log
from firearrow.store.store import StoreConfig
from firearrow.store.views.views import Views

SEGMENT = 16 << 20
VIEWS = ("consumequeue", "index", "checkpoint")


@dataclass(slots=True)
class Rates:
    """Megabytes a second by CPU and by the clock, pass by pass."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    async def take(self, megabytes: float, work: Callable[[], Awaitable[None]]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        await work()
        self.cpu.append(megabytes / (time.process_time() - cpu))
        self.wall.append(megabytes / (time.perf_counter() - wall))


def measure(bench: Bench) -> Report:
    """Three sizes of message."""
    report = Report("megabytes of log a second of CPU, and by the clock")
    report.say(
        f"{'':24} {'recovery':>12} {'clock':>12} {'checking':>12} {'rebuild':>12} {'clock':>12} {'us a message':>13}"
    )
    for name, size in SIZES.items():
        log_bytes = (16 if bench.quick else 128) << 20
        with bench.place() as root:
            count = on_loop(_die(root, size, log_bytes))
            rates = on_loop(_measure(root, log_bytes / 1e6, passes=2 if bench.quick else 5))
        recovery, checking, rebuild = rates["recovery"], rates["checking"], rates["rebuild"]
        each = log_bytes / 1e6 / statistics.median(rebuild.cpu) / count * 1e6
        report.say(
            f"{name + f', {log_bytes >> 20} MiB':24} {shown(recovery.cpu, 0):>12} {shown(recovery.wall, 0):>12} "
            f"{shown(checking.cpu, 0):>12} {shown(rebuild.cpu, 0):>12} {shown(rebuild.wall, 0):>12} {each:13.2f}"
        )
        report.figures[name] = {
            f"{what}_mb_s{kind}": round(statistics.median(values))
            for what, figures in rates.items()
            for kind, values in (("_cpu", figures.cpu), ("", figures.wall))
        } | {"rebuild_us_a_message": round(each, 2)}
    return report


async def _die(root: str, size: int, log_bytes: int) -> int:
    """Leave what a killed process leaves: a log of which nothing is known to be flushed."""
    disk = RealDisk(root)
    store = await opened(disk, config_of(segment_bytes=SEGMENT))
    count = 0
    while store.log.tail < log_bytes:
        for draft in drafts_of(size, 256, first=count):
            store.append(draft)
        store.log.write_pending()
        count += 256
    shutil.copytree(root, f"{root}.dead", ignore=shutil.ignore_patterns(*VIEWS, "lock"))
    await asyncio.sleep(0)
    await disk.close()
    shutil.rmtree(root)
    os.rename(f"{root}.dead", root)
    return count


async def _measure(root: str, megabytes: float, passes: int) -> dict[str, Rates]:
    rates = {name: Rates() for name in ("recovery", "checking", "rebuild")}
    config = config_of(segment_bytes=SEGMENT)
    for number in range(passes):
        again = f"{root}/{number}"
        shutil.copytree(root, again, ignore=shutil.ignore_patterns(*map(str, range(passes))))
        disk = RealDisk(again)
        await _one(disk, config, rates, megabytes)
        await disk.close()
        shutil.rmtree(again)
    return rates


async def _one(disk: RealDisk, config: StoreConfig, rates: dict[str, Rates], megabytes: float) -> None:
    found: list[OpenedLog] = []

    async def recover() -> None:
        found.append(await open_log(disk, CLOCK, config.log, this_machine().boot_id))

    await rates["recovery"].take(megabytes, recover)
    log = found[0]

    async def check() -> None:
        at = 0
        while at < log.recovered.end:
            at = (await log.scanner.walk(at, log.recovered.end)).end

    async def rebuild() -> None:
        views = await Views.open(disk, CLOCK, config.views, log)
        await views.catch_up(log)
        await views.flush(_at_once)
        views.close()

    assert log.recovered.end > 0.9 * megabytes * 1e6, "recovery did not find the log"
    await rates["checking"].take(megabytes, check)
    await rates["rebuild"].take(megabytes, rebuild)
    log.segments.close()
    await log.presence.leave(in_order=False)


async def _at_once(_offset: int) -> None:
    """The log is durable already."""
