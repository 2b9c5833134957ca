"""Every byte of a small store flipped in turn: found, kept in quarantine, gone round; nothing after it is lost."""

import asyncio
import random

import pytest

from firearrow.store.placement import QueueTail
from firearrow.store.recovery.open_log import OpenedLog, open_log
from firearrow.store.recovery.recover import Recovery
from firearrow.store.running_log import RunningLog
from firearrow.testing.sim.disk_image import DiskImage
from firearrow.testing.sim.world import Node, World
from tests.simulation.store.crashes import History
from tests.simulation.store.kit import FrozenClock, InstantDisk, clone, config, draft, no_sink, now, one_tail

SETTINGS = config(segment=4096, zero_fill_ahead=False)
MESSAGES = 12

_stores: dict[bool, tuple[DiskImage, History]] = {}


def _store(*, closed: bool) -> tuple[DiskImage, History]:
    """A flushed log of a few segments, closed in order or not."""
    if closed not in _stores:
        history = History()
        world = World(3)

        async def scenario(world: World) -> DiskImage:
            node = world.node("disk")
            node.start(lambda node: _fill(node, history, closed=closed))
            await node.finished()
            return node.image

        _stores[closed] = (world.run(scenario), history)
    return _stores[closed]


async def _fill(node: Node, history: History, *, closed: bool) -> None:
    running = await RunningLog.open(node.disk, node.clock, SETTINGS, history.boot_id, no_sink)
    rng = random.Random(1)
    tail = QueueTail("T", 0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.run())
        for _ in range(MESSAGES):
            body = rng.randbytes(rng.randrange(700))
            place = running.log.append(tail, draft(body, properties="TAGS\x01a\x02KEYS\x01k\x02"))
            history.placed.append((place.physical_offset, place.end, place.queue_offset, body))
        await running.flush()
        history.flushed = running.log.flushed
        await asyncio.sleep(1.5)
        if closed:
            await running.close()
        task.cancel()


def _opened(image: DiskImage, boot: str) -> OpenedLog:
    return now(open_log(InstantDisk(image), FrozenClock(), SETTINGS, boot))


async def _survivors(opened: OpenedLog) -> list[int]:
    """Physical offsets of the records that readers get."""
    rows = opened.scanner.rows(0, opened.recovered.end, one_tail, opened.damage.next_good)
    return [row[1] async for batch in rows for row in batch]


def _flip(image: DiskImage, path: str, position: int) -> DiskImage:
    flipped = clone(image, 1)
    flipped.process_died()
    flipped.file(path).rot(position, position % 8)
    return flipped


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("boot", ["boot-1", "boot-2"], ids=["same boot", "other boot"])
def test_every_byte_of_every_record(boot: str, *, closed: bool) -> None:
    image, history = _store(closed=closed)
    everything = [place[0] for place in history.placed]
    for physical, end, _, _ in history.placed:
        for at in range(physical, end):
            flipped = _flip(image, f"commitlog/{at - at % 4096:020d}", at % 4096)
            opened = _opened(flipped, boot)
            assert opened.recovered.end == history.flushed
            assert now(_survivors(opened)) == [place for place in everything if place != physical], f"byte {at}"
            (bad,) = opened.damage.as_list()
            assert bad.start == physical
            kept = flipped.file(f"quarantine/commitlog.{bad.start:020d}.{bad.end:020d}")
            assert kept.size >= end - physical - 1


def test_recovery_that_cuts_at_the_first_bad_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(self: Recovery, bad: int) -> None:
        del self, bad

    monkeypatch.setattr(Recovery, "_after_bad", none)
    with pytest.raises(AssertionError):
        test_every_byte_of_every_record("boot-1", closed=True)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_every_byte_of_the_fillers(*, closed: bool) -> None:
    image, history = _store(closed=closed)
    everything = [place[0] for place in history.placed]
    ends = {end for _, end, _, _ in history.placed}
    fillers = [end for end in ends if end not in everything and end < history.flushed]
    assert fillers
    for filler in fillers:
        for at in range(filler, filler + 8):
            opened = _opened(_flip(image, f"commitlog/{at - at % 4096:020d}", at % 4096), "boot-2")
            assert opened.recovered.end == history.flushed
            assert now(_survivors(opened)) == everything, f"byte {at}"


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("name", ["flushed", "ranges.json", "ranges.json.bak"])
def test_every_byte_of_our_own_files(name: str, *, closed: bool) -> None:
    image, history = _store(closed=closed)
    everything = [place[0] for place in history.placed]
    for at in range(min(image.file(f"firearrow/{name}").size, 4300)):
        opened = _opened(_flip(image, f"firearrow/{name}", at), "boot-1")
        assert opened.recovered.end == history.flushed, f"byte {at}"
        assert now(_survivors(opened)) == everything
        assert not opened.damage.as_list()


def test_a_lost_segment_is_damage_and_what_follows_stays() -> None:
    image, history = _store(closed=True)
    without = clone(image, 1)
    without.process_died()
    without.unlink("commitlog/00000000000000004096")
    opened = _opened(without, "boot-1")
    expected = [place[0] for place in history.placed if not 4096 <= place[0] < 8192]
    assert now(_survivors(opened)) == expected
    assert opened.recovered.end == history.flushed
