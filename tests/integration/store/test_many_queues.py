"""Many queues in one store on the real disk: descriptors, memory, starts and appends stay within bounds.

2,000 queues here; the full number by ``FIREARROW_QUEUES=50000 pytest tests/integration/store/test_many_queues.py -s``,
which also holds the append's p99 to twice that of a single queue and prints the figures.
"""

import asyncio
import os
import random
from pathlib import Path
from time import perf_counter

from firearrow.record.encode import Draft
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.store.config import LogConfig
from firearrow.store.placement import FLUSHED
from firearrow.store.read.queue_reader import ReadRequest, ReadStatus
from firearrow.store.store import Store, StoreConfig
from tests.simulation.store.kit import draft

QUEUES = int(os.environ.get("FIREARROW_QUEUES", "2000"))
FULL = QUEUES >= 50_000
PER_TOPIC = 8
CONFIG = StoreConfig(log=LogConfig(mapped_file_size_commit_log=64 << 20))
MAX_DESCRIPTORS = 2_000
MAX_RESIDENT_MIB = 1_536
MAX_START_SECONDS = 10.0


def _drafts(queues: list[int], count: int, rng: random.Random) -> list[Draft]:
    return [
        draft(
            b"x" * 100, f"Topic-{queue // PER_TOPIC}", queue % PER_TOPIC, f"UNIQ_KEY\x01{rng.getrandbits(128):032X}\x02"
        )
        for queue in (queues[number % len(queues)] for number in range(count))
    ]


async def _append(store: Store, drafts: list[Draft]) -> float:
    """Append all, some at a time; return the p99 of one append in microseconds."""
    times = []
    for number, one in enumerate(drafts):
        before = perf_counter()
        store.append(one)
        times.append(perf_counter() - before)
        if number % 32 == 0:
            await asyncio.sleep(0)
    await store.reached(store.log.tail, FLUSHED)
    return sorted(times)[len(times) * 99 // 100] * 1e6


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _resident_mib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20


async def _fill(root: Path) -> tuple[float, float]:
    rng = random.Random(1)
    disk = RealDisk(str(root))
    store = await Store.open(disk, SystemClock(), CONFIG, "boot")
    running = asyncio.create_task(store.run())
    queues = list(range(QUEUES))
    rng.shuffle(queues)
    await _append(store, _drafts(queues, QUEUES, rng))
    one = await _append(store, _drafts([0], 2 * QUEUES, rng))
    many = await _append(store, _drafts(queues, 2 * QUEUES, rng))
    assert _descriptors() <= MAX_DESCRIPTORS
    await store.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await disk.close()
    return one, many


async def _open_again(root: Path) -> float:
    disk = RealDisk(str(root))
    before = perf_counter()
    store = await Store.open(disk, SystemClock(), CONFIG, "boot")
    took = perf_counter() - before
    assert len(store.queues) == QUEUES
    assert _descriptors() <= MAX_DESCRIPTORS
    for queue in random.Random(2).sample(range(1, QUEUES), 50):
        pulled = await store.read(f"Topic-{queue // PER_TOPIC}", queue % PER_TOPIC, ReadRequest(0, 32, 1 << 20))
        assert (pulled.status, pulled.messages, pulled.next_offset) == (ReadStatus.FOUND, 3, 3)
    await store.close()
    await disk.close()
    return took


def test_many_queues_stay_within_bounds(tmp_path: Path) -> None:
    one, many = asyncio.run(_fill(tmp_path))
    start = asyncio.run(_open_again(tmp_path))
    resident = _resident_mib()
    print(f"{QUEUES} queues: p99 {many:.1f} us, one queue {one:.1f} us; start {start:.2f} s; {resident} MiB resident")
    assert start <= MAX_START_SECONDS, f"the store started within {start:.1f} s"
    assert resident <= MAX_RESIDENT_MIB
    if FULL:
        assert many <= 2 * one
