"""Pending timed messages outlive their log file: in short turns, once, and as long as the disk has room."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from firearrow.broker.send.incoming import Destination
from firearrow.broker.timer.admission import parked
from firearrow.broker.timer.enqueue import Enqueue
from firearrow.broker.timer.renewal import Renewal
from firearrow.errors import DiskFull, NotNow, ResourceShortage
from firearrow.model import PhysicalOffset, StoredMessage
from firearrow.model.names import TIMER_TOPIC
from firearrow.record.decode import decode_all
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.store.keepers import SHORTAGES, Keepers
from firearrow.store.placement import FLUSHED, WRITTEN
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.timer.config import TimerConfig
from firearrow.store.timer.files import TimedMessage, TimerFiles
from firearrow.store.timer.layout import UNIT_BYTES
from firearrow.store.timer.pending import pending_units
from firearrow.testing.sim.world import World
from tests.simulation.store.kit import draft
from tests.unit.broker.sim import SimBroker, SimClient, simulate, until
from tests.unit.broker.test_retry import stored
from tests.unit.broker.test_timers import EXACT, count, is_done, put_timed, timers_of
from tests.unit.store.timer.test_timer_turns import LONGEST_S, longest_turn

NOW_MS = 1_700_000_000_000
RECORD_BYTES = 250
TOPICS = ("T", "U", "V")


def fill(files: TimerFiles, slots: int, each: int, pending: frozenset[int]) -> None:
    """Add units to slots one after the other, and deliver those slots that are not pending."""
    for slot in range(slots):
        due_ms, first = NOW_MS + 1000 * slot, slot * each
        files.add([TimedMessage(due_ms, RECORD_BYTES * (first + n), RECORD_BYTES, 1) for n in range(each)], NOW_MS)
        if slot not in pending:
            files.wheel.clear(due_ms)


async def opened(directory: Path, file_bytes: int = 1 << 20) -> TimerFiles:
    return await TimerFiles.open(
        RealDisk(str(directory)),
        TimerConfig(mapped_file_size_timer_log=file_bytes),
        NOW_MS,
        log_tail=1 << 50,
        entry_at=lambda _: PhysicalOffset(0),
    )


def renewal_of(files: TimerFiles) -> Renewal:
    """Return a renewal without a broker; the log begins at the second slot, and no later one may be pending."""
    log = SimpleNamespace(min_offset=5_000 * RECORD_BYTES)
    store = SimpleNamespace(log=log, opened=SimpleNamespace(segments=SimpleNamespace(size=1 << 30)))
    dequeue = SimpleNamespace(current_ms=None, is_held=False)
    given = cast("Any", {"store": store, "clock": None, "settings": None})
    return Renewal(files, cast("Any", dequeue), cast("Any", None), lambda _: PhysicalOffset(2**62), **given)


@pytest.mark.parametrize("pending", [frozenset[int](), frozenset({59}), frozenset({0, 59})])
def test_units_that_were_delivered_are_passed_in_short_turns(tmp_path: Path, pending: frozenset[int]) -> None:
    """300,000 of them; one look at all of them in one turn took seconds of CPU time.

    Without a pending slot nothing is looked at; a slot that is pending since before makes the search look at all.
    """

    async def main() -> None:
        files = await opened(tmp_path)
        fill(files, 60, 5_000, pending)
        renewal = renewal_of(files)
        assert await longest_turn(lambda: renewal.renew_below(59 * 5_000 * RECORD_BYTES)) < LONGEST_S
        files.close()

    asyncio.run(main())


def test_a_slot_that_waits_for_long_does_not_make_the_search_long(tmp_path: Path) -> None:
    """The first slot of all is pending, so the search cannot begin at the first pending unit."""

    async def main() -> None:
        files = await opened(tmp_path)
        fill(files, 60, 5_000, frozenset({0, 30}))
        looked = 0
        read = files.log.read

        async def counting(position: int, length: int) -> bytes:
            nonlocal looked
            looked += length
            return await read(position, length)

        files.log.read = counting  # type: ignore[method-assign]
        start, end = 29 * 5_000 * RECORD_BYTES, 31 * 5_000 * RECORD_BYTES
        found = [placed async for some in pending_units(files.log, files.wheel, start, end) for placed in some]
        assert [one.unit.physical for one in found] == list(range(start + 5_000 * RECORD_BYTES, end, RECORD_BYTES))
        assert looked < 12_000 * UNIT_BYTES
        files.close()

    asyncio.run(main())


def test_a_damaged_unit_hides_no_pending_one(tmp_path: Path) -> None:
    async def main() -> None:
        files = await opened(tmp_path, 4096)
        fill(files, 10, 20, frozenset(range(10)))
        for position in (0, 10 * UNIT_BYTES, 4096):
            start = files.log.file_start(position)
            assert start is not None
            files.log._files[start].write_at(position - start, [bytes(UNIT_BYTES)])
        found = [placed async for some in pending_units(files.log, files.wheel, 0, 1 << 50) for placed in some]
        assert len(found) == 200 - 3
        files.close()

    asyncio.run(main())


async def some_timed(broker: SimBroker, number: int, delay_ms: int) -> int:
    """Park messages that are due in the same slot; return the end of their records when they are in the wheel."""
    due = str(broker.node.clock.now_ms() + delay_ms)
    for each in range(number):
        put_timed(broker, b"%d" % each, TIMER_DELIVER_MS=due)
    end = broker.store.log.tail
    await broker.store.reached(end, FLUSHED)
    files = timers_of(broker).files
    assert files is not None
    await until(lambda: files.queue_offset == number, 5)
    return end


async def comes_once(broker: SimBroker, number: int, seconds: float = 60) -> None:
    """Wait until nothing is pending, and see that every message came once."""
    await until(lambda: is_done(broker), seconds)
    await broker.store.reached(broker.store.log.tail, FLUSHED)
    bodies = sorted(message.body for message in await stored(broker, "T"))
    assert bodies == sorted(b"%d" % each for each in range(number)), f"{len(bodies)} came of {number}"


@pytest.mark.parametrize("seed", range(3))
def test_a_message_comes_once_however_often_the_deletion_of_its_file_fails(seed: int) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        end = await some_timed(broker, 100, 20_000)
        for _ in range(3):
            await broker.store.retention.keepers.renew_below(end)
            await asyncio.sleep(1)
        assert count(broker, TIMER_TOPIC) == 200
        assert timers_of(broker).counts.waiting == 100
        await comes_once(broker, 100)

    simulate(scenario, seed=seed, sync=True)


def keepers_of(broker: SimBroker) -> Keepers:
    """Return the keepers of a broker, with a count of shortages that the rounds of its retention do not begin anew."""
    keepers = Keepers()
    keepers.all += broker.store.retention.keepers.all
    return keepers


def fall_behind() -> None:
    """Retention is due for files whose timers are not in the wheel yet, on a disk with room."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        go_on, take, keepers = asyncio.Event(), Enqueue._take_portion, keepers_of(broker)

        async def behind(self: Enqueue) -> bool:
            await go_on.wait()
            return await take(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Enqueue, "_take_portion", behind)
            due = str(broker.node.clock.now_ms() + 300_000)
            for each in range(100):
                put_timed(broker, b"%d" % each, TIMER_DELIVER_MS=due)
            end = broker.store.log.tail
            await broker.store.reached(end, FLUSHED)
            for _ in range(SHORTAGES + 1):
                with pytest.raises(NotNow, match="not in the timer wheel yet"):
                    await keepers.renew_below(end)
            go_on.set()
            await comes_once(broker, 100, 400)

    simulate(scenario, sync=True)


def test_timers_that_are_behind_are_not_given_up() -> None:
    fall_behind()


def test_timers_for_which_the_wheel_has_no_room_are_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Else a disk without room would keep the files whose deletion makes room."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        async def find_no_room(_self: Enqueue) -> bool:
            raise DiskFull("no space left")

        keepers = keepers_of(broker)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Enqueue, "_take_portion", find_no_room)
            put_timed(broker, b"lost", TIMER_DELIVER_MS=str(broker.node.clock.now_ms() + 300_000))
            end = broker.store.log.tail
            await broker.store.reached(end, FLUSHED)
            for _ in range(SHORTAGES - 1):
                with pytest.raises(DiskFull, match="not in the timer wheel yet"):
                    await keepers.renew_below(end)
            await keepers.renew_below(end)
        assert told(caplog, "are LOST")

    simulate(scenario, sync=True)


@pytest.mark.parametrize("seed", range(10))
def test_a_message_comes_once_after_renewals_that_the_disk_refused(seed: int) -> None:
    """Some of the new records are written, others not; slots become due meanwhile."""

    async def scenario(world: World, broker: SimBroker, _client: SimClient) -> None:
        end = await some_timed(broker, 300, 3_000)
        (renewal,) = broker.store.retention.keepers.all
        for _ in range(4):
            broker.node.image.fail("write", number=28, after=world.rng.randrange(4), below="commitlog/")
            try:
                await renewal.renew_below(end)
            except ResourceShortage:
                await asyncio.sleep(world.rng.uniform(0, 1))
            await asyncio.sleep(world.rng.uniform(0, 0.5))
        broker.node.image.mend()
        await comes_once(broker, 300)
        assert timers_of(broker).counts.waiting == 0

    simulate(scenario, seed=seed, sync=True)


@pytest.mark.parametrize("config", [TimerConfig(), EXACT], ids=["slots", "exact"])
@pytest.mark.parametrize("seed", range(8))
def test_a_message_comes_once_however_often_its_slot_finds_no_room(seed: int, config: TimerConfig) -> None:
    """Some of a portion is written, the rest not; what waits is stored again for the timers meanwhile."""

    async def scenario(world: World, broker: SimBroker, _client: SimClient) -> None:
        rng, number = world.rng, 400
        due_ms = broker.node.clock.now_ms() + 20_000
        for each in range(number):
            asked = {"UNIQ_KEY": str(each), "TIMER_DELIVER_MS": str(due_ms // 1000 * 1000 + rng.randrange(1, 1000))}
            place = parked(Destination(rng.choice(TOPICS), 0, asked), 0, config, broker.node.clock.now_ms())
            body = b"%d:" % each + bytes(rng.choice((10, 6_000)))
            broker.put(body, topic=place.topic, queue_id=place.queue_id, **place.properties)
        end = broker.store.log.tail
        await broker.store.reached(end, FLUSHED)
        timers, (renewal,) = timers_of(broker), broker.store.retention.keepers.all
        await asyncio.sleep((due_ms // 1000 * 1000 - broker.node.clock.now_ms()) / 1000 - 0.1)
        for _ in range(12):
            broker.node.image.fail("write", number=28, after=rng.randrange(4), below="commitlog/")
            await asyncio.sleep(rng.uniform(0, 0.7))
            with suppress(ResourceShortage):
                await renewal.renew_below(rng.randrange(end))
        broker.node.image.mend()
        await until(lambda: is_done(broker), 60)
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        came = [number_of(message) for topic in TOPICS for message in await stored(broker, topic)]
        assert sorted(came) == list(range(number)), f"{len(came)} came of {number}"
        assert (timers.counts.waiting, timers.counts.delivered) == (0, number)

    simulate(scenario, seed=seed, sync=True, timers=config)


# ---- a disk that is too full

BODY_BYTES = 20_000


async def fill_disk(broker: SimBroker, number: int, used: float) -> int:
    """Park large messages for one slot in ten minutes, and make the disk so full; return when they are due."""
    due_ms = broker.node.clock.now_ms() + 600_000
    for each in range(number):
        put_timed(broker, b"%d:" % each + bytes(BODY_BYTES), UNIQ_KEY=str(each), TIMER_DELIVER_MS=str(due_ms))
        if each % 20 == 0:
            await asyncio.sleep(0.01)
    await broker.store.reached(broker.store.log.tail, FLUSHED)
    await asyncio.sleep(10)
    image = broker.node.image
    image.capacity_bytes = int(image.used_bytes / used)
    return due_ms


def number_of(message: StoredMessage) -> int:
    return int(message.body.partition(b":")[0])


async def follow(broker: SimBroker, came: list[int]) -> None:
    """Read messages as they come: their files may be deleted soon."""
    offset = 0
    while True:
        pulled = await broker.store.read("T", 0, ReadRequest(offset, 1000, 1 << 20))
        came += [number_of(message) for buffer in pulled.buffers for message in decode_all(bytes(buffer))]
        if pulled.buffers:
            offset = pulled.next_offset
        await asyncio.sleep(0.01)


def told(caplog: pytest.LogCaptureFixture, text: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if text in record.getMessage()]


def test_a_disk_full_of_pending_messages_is_not_rewritten_and_recovers_when_they_are_due(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = await fill_disk(broker, 900, 0.92)
        retention, log = broker.store.retention, broker.store.log
        await until(lambda: retention.refusal is not None, 30)
        before = log.tail
        await asyncio.sleep(120)
        assert log.tail - before < 100_000, "nothing is written again"
        assert len(told(caplog, "MiB of timed messages are pending")) == 1, "said once"
        assert not told(caplog, "LOST")
        with pytest.raises(DiskFull):
            broker.put(b"plain", topic="U")
        await asyncio.sleep((due_ms - broker.node.clock.now_ms()) / 1000)
        came: list[int] = []
        following = asyncio.create_task(follow(broker, came))
        await until(lambda: is_done(broker), 30, "every message comes, although sends are refused", 0.5)
        await until(lambda: len(came) == count(broker), 5)
        following.cancel()
        assert sorted(came) == list(range(900)), "each once"
        await until(lambda: retention.refusal is None, 120, "sends are accepted again")
        broker.put(b"plain", topic="U")
        assert not told(caplog, "LOST")

    simulate(scenario, sync=True)


async def take_the_last_room(broker: SimBroker, *, sends: bool) -> None:
    """Write until there is no room, also in the files that are in use and prepared."""
    store = broker.store
    broker.node.image.leave_free(0)
    with suppress(DiskFull):
        for _ in range(200):
            one = draft(b"x" * BODY_BYTES, "U", 0)
            end = store.append(one).end if sends else store.log.append(store.queues.tail_of("U", 0), one).end
            await store.reached(end, WRITTEN)
        pytest.fail("there is always room")


def test_no_messages_are_given_up_for_sends_that_fill_the_disk(caplog: pytest.LogCaptureFixture) -> None:
    """Sends take the last room between two rounds of retention; from then on one write needs more, and no other."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = await fill_disk(broker, 100, 0.5)
        await take_the_last_room(broker, sends=True)
        image = broker.node.image
        await until(lambda: broker.store.retention.refusal is not None, 30)
        await take_the_last_room(broker, sends=False)
        await asyncio.sleep(300)
        assert not told(caplog, "LOST"), "timers are given up although nobody needs their room"
        image.capacity_bytes += 16 << 20
        await asyncio.sleep((due_ms - broker.node.clock.now_ms()) / 1000)
        await until(lambda: is_done(broker), 60)
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        assert sorted(map(number_of, await stored(broker, "T"))) == list(range(100))

    simulate(scenario, sync=True)


def test_on_a_disk_without_room_the_oldest_messages_are_given_up_with_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Sends are refused, and what the broker must write itself finds no room: as other messages that are due."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = await fill_disk(broker, 500, 0.92)
        store = broker.store
        await until(lambda: store.retention.refusal is not None, 30)

        async def is_deleted() -> bool:
            if not store.log.min_offset:
                await take_the_last_room(broker, sends=False)
            return store.log.min_offset > 0

        await until(is_deleted, 60, "a file is deleted", 1)
        (lost,) = told(caplog, "LOST")
        assert "timed messages of topic T, due from" in lost.getMessage()
        number = lost.__dict__["messages"]
        assert 40 < number < 60, "those of one file"
        broker.node.image.mend()
        await asyncio.sleep((due_ms - broker.node.clock.now_ms()) / 1000)
        await until(lambda: is_done(broker), 60)
        await store.reached(store.log.tail, FLUSHED)
        assert sorted(map(number_of, await stored(broker, "T"))) == list(range(number, 500))
        assert timers_of(broker).counts.waiting == 0

    simulate(scenario, sync=True)
