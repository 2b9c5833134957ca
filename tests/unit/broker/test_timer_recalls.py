"""Recalls that were answered with success hold: over a power loss, a stopped queue, rolls; only for their own topic."""

import asyncio
from typing import Any

from msgspec.structs import replace

from firearrow.broker.timer.enqueue import PORTION
from firearrow.model.names import TIMER_TOPIC
from firearrow.store.placement import FLUSHED
from firearrow.store.timer.config import TimerConfig
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SimBroker, SimClient, simulate, until
from tests.unit.broker.test_retry import stored
from tests.unit.broker.test_timers import DAY_MS, count, put_timed, timers_of


async def start(broker: SimBroker) -> None:
    broker.ready.clear()
    broker.node.start(broker.run)
    await broker.ready.wait()


async def everything_delivered(broker: SimBroker) -> list[bytes]:
    """Wait until the queue is read and the wheel is empty; return the bodies that came."""
    files = timers_of(broker).files
    assert files is not None
    await until(lambda: files.queue_offset == count(broker, TIMER_TOPIC) and not files.wheel.used, 60)
    return [message.body for message in await stored(broker, "T")]


def put_recalled(broker: SimBroker, due_ms: int) -> None:
    put_timed(broker, b"gone", TIMER_DELIVER_MS=str(due_ms))
    put_timed(broker, b"gone", TIMER_DELIVER_MS=str(due_ms), TIMER_DEL_UNIQKEY="gone")


def test_a_recall_holds_over_a_power_loss_past_the_due_time() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_recalled(broker, broker.node.clock.now_ms() + 5_000)
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        await broker.node.power_loss()
        await asyncio.sleep(10)
        await start(broker)
        assert await everything_delivered(broker) == []

    simulate(scenario, sync=True)


def test_a_recall_far_behind_its_message_in_the_queue_holds_past_the_due_time() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = broker.node.clock.now_ms() + 5_000
        put_timed(broker, b"gone", TIMER_DELIVER_MS=str(due_ms))
        for _ in range(2 * PORTION):
            put_timed(broker, b"other", TIMER_DELIVER_MS=str(due_ms + 10_000))
        put_timed(broker, b"gone", TIMER_DELIVER_MS=str(due_ms), TIMER_DEL_UNIQKEY="gone")
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        await broker.node.power_loss()
        await asyncio.sleep(10)
        broker.node.disk.profile = DiskProfile(cold_chance=1.0)  # other tasks run between two reads
        await start(broker)
        await until(lambda: count(broker) > PORTION, 60)
        assert b"gone" not in await everything_delivered(broker)

    simulate(scenario, sync=True)


def test_a_recall_holds_when_the_queue_is_read_after_the_due_time() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_recalled(broker, broker.node.clock.now_ms() + 5_000)
        put_timed(broker, b"kept", TIMER_DELAY_MS="4000")
        await asyncio.sleep(10)
        settings = broker.assembly.settings
        settings.replace(replace(settings.value, timers=TimerConfig()))
        await until(lambda: count(broker) == 1, 10)
        assert await everything_delivered(broker) == [b"kept"]

    simulate(scenario, timers=TimerConfig(timer_stop_enqueue=True))


def test_a_recall_of_a_rolled_message_holds_when_the_broker_is_down_over_its_time() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        clock = broker.node.clock
        due_ms = clock.now_ms() + 2 * DAY_MS
        put_timed(broker, b"gone", TIMER_DELIVER_MS=str(due_ms))
        put_timed(broker, b"kept", TIMER_DELIVER_MS=str(due_ms))
        await asyncio.sleep(3)
        clock.jump(int(0.6 * DAY_MS))  # inside the window now, before the message is stored again
        put_timed(broker, b"gone", TIMER_DELIVER_MS=str(due_ms), TIMER_DEL_UNIQKEY="gone")
        await asyncio.sleep(10)
        await broker.node.stop()
        clock.jump(3 * DAY_MS)
        await start(broker)
        assert await everything_delivered(broker) == [b"kept"]

    simulate(scenario)


def test_a_recall_of_one_topic_takes_no_message_of_another() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        out = str(broker.node.clock.now_ms() // 1000 * 1000 + 4000)
        named: dict[str, Any] = {"TIMER_OUT_MS": out, "REAL_QID": "0", "UNIQ_KEY": "k"}
        broker.put(b"kept", topic=TIMER_TOPIC, REAL_TOPIC="T", **named)
        broker.put(b"0", topic=TIMER_TOPIC, REAL_TOPIC="U", TIMER_DEL_UNIQKEY="k", **named)
        await until(lambda: count(broker) == 1, 10)
        assert await everything_delivered(broker) == [b"kept"]

    simulate(scenario)


def test_a_message_that_was_taken_back_is_counted_once() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        now_ms = broker.node.clock.now_ms()
        for _ in range(5):
            put_timed(broker, b"stays", TIMER_DELIVER_MS=str(now_ms + DAY_MS))
            put_recalled(broker, now_ms + 3_000)
        await until(lambda: timers_of(broker).counts.waiting == 10, 5)
        await until(lambda: timers_of(broker).counts.waiting == 5, 10)
        await asyncio.sleep(5)
        assert timers_of(broker).counts.waiting == 5

    simulate(scenario)


def test_counts_go_on_after_a_kill() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        now_ms = broker.node.clock.now_ms()
        for _ in range(20):
            put_timed(broker, b"stays", TIMER_DELIVER_MS=str(now_ms + DAY_MS))
        await asyncio.sleep(3)
        for _ in range(7):  # perhaps not in the wheel's file when the broker dies
            put_timed(broker, b"stays too", TIMER_DELIVER_MS=str(now_ms + DAY_MS))
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        await broker.node.crash()
        await start(broker)
        await until(lambda: timers_of(broker).counts.waiting == 27, 10)

    simulate(scenario)
