"""Timer files of any bytes open, their slots are read to the end, and a new message is found again."""

import gc
from itertools import count

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.errors import NotNow
    from firearrow.model import PhysicalOffset
    from firearrow.runtime.disk.door import Disk
    from firearrow.store.timer.config import TimerConfig
    from firearrow.store.timer.files import TimedMessage, TimerFiles
    from firearrow.store.timer.layout import CHECK, SLOT_BYTES, UNIT, WHEEL_BYTES, TimerCheck
    from firearrow.store.timer.layout import SLOT as SLOT_LAYOUT
    from firearrow.store.timer.wheel import PATH
    from firearrow.testing.sim.world import World

NOW_MS = 1_700_000_000_000
CONFIG = TimerConfig(mapped_file_size_timer_log=4096)
LOG_BYTES = 4096
COLLECT_EVERY = 100
"""A simulated world is a cycle that holds its disk: collected seldom, garbage looks like a leak."""
executions = count(1)


async def write(disk: Disk, data: bytes) -> None:
    """The checkpoint from the first bytes, then slots of the wheel by pairs of an index and a slot, then the log."""
    disk.make_directory("config")
    disk.make_directory("timerlog")
    check, rest = data[: CHECK.size], data[CHECK.size :]
    await disk.replace("config/timercheck", check.ljust(4096, b"\0"))
    wheel = disk.open(PATH, create=True)
    wheel.truncate(WHEEL_BYTES)
    slots = rest[:1][0] % 4 if rest else 0
    for number in range(slots):
        slot = rest[1 + number * SLOT_BYTES :][:SLOT_BYTES]
        if len(slot) == SLOT_BYTES:
            index = SLOT_LAYOUT.unpack(slot)[0] % (WHEEL_BYTES // SLOT_BYTES)
            wheel.write_at(index * SLOT_BYTES, [slot])
    wheel.close()
    log = rest[1 + slots * SLOT_BYTES :]
    for start in range(0, len(log), LOG_BYTES):
        await disk.replace(f"timerlog/{start:020d}", log[start : start + LOG_BYTES].ljust(LOG_BYTES, b"\0"))


async def scenario(world: World, data: bytes) -> None:
    disk = world.node("n").disk
    await write(disk, data)
    try:
        files = await TimerFiles.open(
            disk, CONFIG, NOW_MS, log_tail=1 << 40, entry_at=lambda offset: PhysicalOffset(max(offset, 0))
        )
    except NotNow:
        return
    for number in await files.wheel.used_pages():
        for slot in files.wheel.slots_of_page(number):
            await files.chain(slot)
    due_ms = files.floor(NOW_MS) + 7_000
    if files.wheel.occupant_ms(due_ms) in (None, due_ms):
        files.add([TimedMessage(due_ms, 12_345, 99, 7)], NOW_MS)
        slot_now = files.wheel.get(due_ms)
        assert slot_now is not None
        assert (await files.chain(slot_now)).physicals[-1] == 12_345


def target(data: bytes) -> None:
    async def body(world: World) -> None:
        await scenario(world, data)

    World(1).run(body)
    if next(executions) % COLLECT_EVERY == 0:
        gc.collect()


UNITS = b"".join(UNIT.pack(52, -1 if n == 0 else (n - 1) * 52, 1, NOW_MS, 7000, n * 100, 99, 5, 0) for n in range(90))
SLOT_SEED = SLOT_LAYOUT.pack((NOW_MS + 7000) // 1000, 0, 52, 2, 0)
SEED = TimerCheck(NOW_MS - 5000, 104, 2, 2).encode() + b"\x01" + SLOT_SEED + UNITS

if __name__ == "__main__":
    run(target, seeds=[SEED, SEED[:200], SEED[:57], b"", TimerCheck().encode() + b"\x00" + UNITS[:4096]])
