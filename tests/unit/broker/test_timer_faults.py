"""Faults of the timers that random clusters and reviews found: each once, on its own."""

import asyncio
import logging

import pytest
from msgspec.structs import replace

from firearrow.broker.send.incoming import Destination
from firearrow.broker.timer.admission import parked
from firearrow.errors import NotNow, ResourceShortage
from firearrow.model import keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.store.placement import FLUSHED
from firearrow.store.timer.config import TimerConfig
from firearrow.store.timer.layout import UNIT_BYTES
from firearrow.store.timer.timer_log import TimerLog
from firearrow.store.views.pressure import Pressure
from firearrow.testing.sim.disk_image import STANDING
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SimBroker, SimClient, simulate, until
from tests.unit.broker.test_retry import stored
from tests.unit.broker.test_timers import count, is_done, put_timed, timers_of

FINE = TimerConfig(timer_precision_ms=100, timer_roll_window_slot=60, mapped_file_size_timer_log=4096)
SELDOM = TimerConfig(timer_precision_ms=100, timer_flush_interval_ms=60_000)


async def bodies(broker: SimBroker) -> list[bytes]:
    await broker.store.reached(broker.store.log.tail, FLUSHED)
    return [message.body for message in await stored(broker, "T")]


async def stopped_and_started(broker: SimBroker) -> None:
    await broker.node.stop()
    await broker.restart()


def pressure_of(broker: SimBroker) -> Pressure:
    """Return what lets deliveries wait; it is set by the test only, and by no flush."""
    dequeue = timers_of(broker)._dequeue
    assert dequeue is not None
    pressure = dequeue._slots._pressure = Pressure(lambda: 0, 0, [])
    return pressure


def put_fine(broker: SimBroker, body: bytes, delay_ms: int) -> int:
    """Park a message as a send to a broker with `FINE` settings does; return when it is due."""
    now_ms = broker.node.clock.now_ms()
    asked = Destination("T", 0, {keys.UNIQ_KEY: body.decode(), keys.TIMER_DELAY_MS: str(delay_ms)})
    place = parked(asked, 0, FINE, now_ms)
    broker.put(body, topic=place.topic, queue_id=place.queue_id, **place.properties)
    return now_ms + delay_ms


def test_a_wheel_whose_log_cannot_be_written_stays_as_it_was() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        # The first file of the timer log gets full; those beyond the window go to another slot at each attempt.
        due = {b"%d" % number: put_fine(broker, b"%d" % number, 3_000) for number in range(78)}
        await asyncio.sleep(0.5)
        broker.node.image.fail("open", times=STANDING, below="timerlog/")
        for number in range(78, 90):
            due[b"%d" % number] = put_fine(broker, b"%d" % number, 10_000 + 400 * number)
            await asyncio.sleep(0.2)
        broker.node.image.mend()
        await until(lambda: count(broker) == len(due), 60)
        delivered = await stored(broker, "T")
        assert all(message.store_timestamp >= due[message.body] for message in delivered)
        assert sorted(message.body for message in delivered) == sorted(due)

    simulate(scenario, sync=True, timers=FINE)


def test_a_kill_before_the_first_checkpoint_loses_none() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"early", TIMER_DELAY_MS="2000")
        await asyncio.sleep(0.5)
        await broker.node.crash()
        await asyncio.sleep(5.0)
        await broker.restart()
        await until(lambda: count(broker) == 1, 10)
        assert await bodies(broker) == [b"early"]

    simulate(scenario, sync=True, timers=SELDOM)


def test_a_wheel_without_a_checkpoint_is_delivered_from_its_first_slot() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"early", TIMER_DELAY_MS="2000")
        await asyncio.sleep(0.5)
        files = timers_of(broker).files
        assert files is not None
        await files.wheel.write(files.wheel.take_changed())  # killed before the checkpoint is written
        await broker.node.crash()
        await asyncio.sleep(5.0)
        await broker.restart()
        await until(lambda: count(broker) == 1, 10)

    simulate(scenario, sync=True, timers=SELDOM)


def test_a_file_that_power_left_short_does_not_set_the_size_of_files() -> None:
    async def scenario(world: World, _broker: SimBroker, _client: SimClient) -> None:
        disk = world.node("other").disk
        disk.make_directory("timerlog")
        disk.open("timerlog/00000000000000000000", create=True).write_at(0, [bytes(260)])
        for synced, size in ((0, 4096), (260, 260), (None, 260)):
            log = TimerLog(disk, 4096)
            await log.load(synced)
            assert log.file_bytes == size

    simulate(scenario)


def test_a_kill_after_the_clock_was_set_back_loses_none() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"first", TIMER_DELAY_MS="100")
        await until(lambda: count(broker) == 1, 10)
        await stopped_and_started(broker)  # the checkpoint has the time of the clock
        broker.node.clock.jump(-20_000)
        put_timed(broker, b"second", TIMER_DELAY_MS="2000")
        await asyncio.sleep(0.5)
        await broker.restart()
        await until(lambda: count(broker) == 2, 10)
        assert await bodies(broker) == [b"first", b"second"]

    simulate(scenario, sync=True, timers=SELDOM)


def test_a_message_beyond_the_window_comes_after_the_clock_was_set_back() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"first", TIMER_DELAY_MS="100")
        await until(lambda: count(broker) == 1, 10)
        broker.node.clock.jump(-20_000)
        put_timed(broker, b"second", TIMER_DELAY_MS="9000")
        await until(lambda: count(broker) == 2, 15)

    simulate(scenario, sync=True, timers=FINE)


def test_files_of_a_process_that_was_killed_are_synced_before_they_are_relied_on() -> None:
    async def scenario(world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"x", TIMER_DELAY_MS="8000")
        await asyncio.sleep(0.5)
        await broker.restart()
        files = timers_of(broker).files
        assert files is not None
        await files.flush(lambda: broker.store.reached(broker.store.log.tail, FLUSHED), broker.node.clock.now_ms())
        synced = [event.split(" synced broker ")[-1] for event in world.trace.tail(1_000) if " synced " in event]
        assert synced.index("timerlog/00000000000000000000") < synced.index("config/timercheck.tmp")
        assert "timerlog/" in synced[: synced.index("config/timercheck.tmp")]

    simulate(scenario, sync=True, timers=SELDOM)


def test_a_read_that_fails_delays_a_slot_and_stops_nothing() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"late", TIMER_DELAY_MS="2000")
        await asyncio.sleep(0.5)
        broker.node.image.fail("read", times=2, below="timerlog/")
        await until(lambda: count(broker) == 1, 15)

    simulate(scenario, sync=True, timers=FINE)


def test_pending_messages_are_stored_again_before_their_file_is_deleted() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number, delay_ms in enumerate((100, 5_000, 20_000)):
            put_fine(broker, b"%d" % number, delay_ms)
        await until(lambda: count(broker) == 1, 10)
        await broker.store.retention.keepers.renew_below(broker.store.log.tail)
        assert count(broker, TIMER_TOPIC) == 5
        assert broker.store.log.flushed == broker.store.log.tail

    simulate(scenario, sync=True, timers=FINE)


def test_files_stay_while_their_messages_are_not_in_the_wheel() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_fine(broker, b"x", 5_000)
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        await until(lambda: count(broker, TIMER_TOPIC) == 1, 10)
        with pytest.raises(NotNow, match="timerStopEnqueue"):
            await broker.store.retention.keepers.renew_below(broker.store.log.tail)

    simulate(scenario, sync=True, timers=replace(FINE, timer_stop_enqueue=True))


def test_a_slot_that_waits_for_room_is_stored_again_before_its_file_is_deleted() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(5):
            put_timed(broker, b"%d" % number, TIMER_DELAY_MS="3000")
        await asyncio.sleep(1)
        files, pressure = timers_of(broker).files, pressure_of(broker)
        assert files is not None
        pressure.refusal = ResourceShortage("queues and index cannot be written")
        await asyncio.sleep(5)
        assert count(broker) == 0
        assert files.wheel.used == 1
        end = broker.store.log.tail
        async with asyncio.timeout(5):
            await broker.store.retention.keepers.renew_below(end)
        assert count(broker, TIMER_TOPIC) == 10
        # Files that are deleted next wait until the new records are in the wheel.
        await until(lambda: files.queue_offset == 10, 5)
        pressure.refusal = None
        await until(lambda: is_done(broker), 10)
        assert set(await bodies(broker)) == {b"%d" % number for number in range(5)}

    simulate(scenario, sync=True)


def test_counts_are_right_after_deliveries_had_to_wait() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due = broker.node.clock.now_ms() + 3_000
        for number in range(100):
            put_timed(broker, b"%d" % number, TIMER_DELIVER_MS=str(due))
        for number in range(5):  # too few to be made by columns
            put_timed(broker, b"next%d" % number, TIMER_DELIVER_MS=str(due + 1_000))
        for number in range(50):
            put_timed(broker, b"later%d" % number, TIMER_DELIVER_MS=str(due + 60_000))
        await asyncio.sleep(1.5)
        counts, pressure = timers_of(broker).counts, pressure_of(broker)
        for seconds, delivered in ((6, 0), (2, 105)):
            pressure.refusal = None if delivered else ResourceShortage("queues and index cannot be written")
            await asyncio.sleep(seconds)
            assert count(broker) == counts.delivered == delivered
            assert counts.waiting == 155 - delivered

    simulate(scenario)


@pytest.mark.parametrize("damaged", [0, 1, 4])
def test_a_damaged_unit_is_told(damaged: int, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        now_ms = broker.node.clock.now_ms()
        for number in range(5):
            put_timed(broker, b"%d" % number, TIMER_DELIVER_MS=str(now_ms + 3_000))
        await asyncio.sleep(1)
        file = broker.node.disk.open("timerlog/00000000000000000000")
        file.write_at(damaged * UNIT_BYTES, [bytes(UNIT_BYTES)])
        with caplog.at_level(logging.WARNING):
            await until(lambda: count(broker) == 4, 10)
        slot_ms = (now_ms + 2_999) // 1000 * 1000
        (told,) = [text for text in caplog.messages if "timer log is damaged" in text]
        assert f"4 of the 5 messages of the slot {slot_ms}" in told

    simulate(scenario)


def test_slots_with_recalls_and_rolls_are_not_called_damaged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(20):
            due = str(broker.node.clock.now_ms() + 9_000)
            put_timed(broker, b"%d" % number, TIMER_DELIVER_MS=due)
            if number % 3 == 0:
                put_timed(broker, b"recall", TIMER_DELIVER_MS=due, **{keys.TIMER_DEL_UNIQKEY: f"T+{number}"})
            await asyncio.sleep(0.05)
        await until(lambda: is_done(broker), 30)
        assert count(broker) == 13
        assert not [text for text in caplog.messages if "damaged" in text]

    simulate(scenario, timers=FINE)
