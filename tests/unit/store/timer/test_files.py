"""The timer files on a real disk, as a killed 5.5.0 or a power loss leaves them."""

import asyncio
from pathlib import Path

import pytest

from firearrow.errors import DiskFull
from firearrow.model import PhysicalOffset
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.store.timer.config import TimerConfig
from firearrow.store.timer.files import TimedMessage, TimerFiles
from firearrow.store.timer.layout import SLOT, SLOT_BYTES, UNIT_BYTES, WHEEL_SLOTS, TimerCheck

NOW = 1_700_000_000_000


async def nothing() -> None:
    return None


async def opened(disk: RealDisk) -> TimerFiles:
    return await TimerFiles.open(disk, TimerConfig(), NOW, log_tail=1 << 40, entry_at=lambda _: PhysicalOffset(1 << 50))


async def pending(files: TimerFiles, times: list[int]) -> dict[int, list[int]]:
    found = {}
    for time in times:
        slot = files.wheel.get(time)
        found[time] = [] if slot is None else list((await files.chain(slot)).physicals)
    return found


def edit_slot(where: Path, time_ms: int, **change: int) -> None:
    path = where / "timerwheel"
    data = bytearray(path.read_bytes())
    at = time_ms // 1000 % WHEEL_SLOTS * SLOT_BYTES
    time, first, last, number, magic = SLOT.unpack_from(data, at)
    values = {"time": time, "first": first, "last": last, "number": number, "magic": magic} | change
    SLOT.pack_into(data, at, *values.values())
    path.write_bytes(data)


def test_a_slot_that_5_5_0_was_writing_when_killed(tmp_path: Path) -> None:
    """5.5.0 copies its wheel byte by byte; its recovery sets `last` from the replayed units whatever the slot says."""

    async def run() -> None:
        disk = RealDisk(str(tmp_path))
        files = await opened(disk)
        times = [NOW + 60_000, NOW + 90_000]
        files.add([TimedMessage(times[0], n * 100, 100, 0) for n in range(78)], NOW)  # positions up to 4004 = 0x0FA4
        await files.flush(nothing, NOW)
        files.add(
            [TimedMessage(times[0], n * 100, 100, 0) for n in (78, 79)], NOW
        )  # last 4108 = 0x100C, not in the check
        files.add([TimedMessage(times[1], n * 100, 100, 0) for n in range(80, 100)], NOW)
        await files.log.sync()
        files.close()
        # Big-endian 0x0FA4 -> 0x100C: the high byte is copied and the low byte not yet: 0x10A4, inside another unit.
        edit_slot(tmp_path, times[0], last=0x10A4)
        files = await opened(disk)
        found = await pending(files, times)
        assert found[times[1]] == [n * 100 for n in range(80, 100)]
        assert found[times[0]] == [n * 100 for n in range(80)], f"{len(found[times[0]])} of 80 left"

    asyncio.run(run())


def test_a_slot_that_names_a_unit_of_another_time_is_not_followed(tmp_path: Path) -> None:
    """5.5.0 after a power loss: the wheel names units that were lost, and their places were used again."""

    async def run() -> None:
        disk = RealDisk(str(tmp_path))
        files = await opened(disk)
        early, late = NOW + 60_000, NOW + 86_400_000
        files.add([TimedMessage(early, 0, 100, 0), TimedMessage(late, 100, 100, 0)], NOW)
        await files.flush(nothing, NOW)
        files.close()
        edit_slot(tmp_path, early, last=UNIT_BYTES)
        files = await opened(disk)
        found = await pending(files, [early])
        assert found[early] == [0], "and not the message of tomorrow"

    asyncio.run(run())


def test_units_of_a_wheel_that_has_no_checkpoint_are_counted_once(tmp_path: Path) -> None:
    """The disk had room for the wheel and none for the checkpoint behind it, and the broker was killed."""

    async def run() -> None:
        disk = RealDisk(str(tmp_path))
        files = await opened(disk)
        times = [NOW + 60_000, NOW + 90_000, NOW + 120_000]
        files.add([TimedMessage(times[0], 0, 100, 0)], NOW)
        await files.flush(nothing, NOW)
        files.add([TimedMessage(times[n % 3], 100 + n * 100, 100, 0) for n in range(30)], NOW)

        async def refused(check: TimerCheck) -> None:
            raise DiskFull(f"no room for {check}")

        files._write_check = refused  # type: ignore[method-assign]
        with pytest.raises(DiskFull):
            await files.flush(nothing, NOW)
        files.add(
            [TimedMessage(times[1], 9_000 + n * 100, 100, 0) for n in range(4)], NOW
        )  # these are in the log alone
        await files.log.sync()
        files.close()
        files = await opened(disk)
        found = await pending(files, times)
        assert [len(found[time]) for time in times] == [11, 14, 10]
        for time in times:
            slot = files.wheel.get(time)
            assert slot is not None
            assert slot.number == len(found[time]), f"{slot.number} counted of {len(found[time])}"
        files.close()

    asyncio.run(run())
