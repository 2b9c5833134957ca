"""Timed messages that no usual client sends, and times at which the store refuses: the timers go on."""

import asyncio
import errno
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.errors import IllegalMessage
from firearrow.model import keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.record.recall_handle import handle_of
from firearrow.store.placement import FLUSHED
from firearrow.store.timer.config import TimerConfig
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SimBroker, SimClient, simulate, until
from tests.unit.broker.test_retry import stored
from tests.unit.broker.test_timers import DAY_MS, count, put_timed, timers_of


async def good_one_comes(broker: SimBroker) -> None:
    before = count(broker)
    put_timed(broker, b"good", TIMER_DELAY_MS="3000")
    await until(lambda: count(broker) > before, 10)
    assert b"good" in [message.body for message in await stored(broker, "T")]


@pytest.mark.parametrize("text", ["\u00b2", "9" * 5000])
def test_a_strange_roll_count_stops_no_timers(text: str) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"strange", TIMER_DELAY_MS=str(3 * DAY_MS), TIMER_ROLL_TIMES=text)
        await asyncio.sleep(3)
        before = count(broker, TIMER_TOPIC)
        broker.node.clock.jump(2 * DAY_MS)
        await until(lambda: count(broker, TIMER_TOPIC) > before, 10)
        await good_one_comes(broker)

    simulate(scenario)


@pytest.mark.parametrize(
    "named",
    [
        {"TIMER_OUT_MS": "\u00b2", "REAL_TOPIC": "T", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "9" * 5000, "REAL_TOPIC": "T", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "OUT", "REAL_TOPIC": "T", "REAL_QID": "\u00b2"},
        {"TIMER_OUT_MS": "OUT", "REAL_TOPIC": "T", "REAL_QID": "99999999999"},
        {"TIMER_OUT_MS": "OUT", "REAL_TOPIC": "x" * 300, "REAL_QID": "0"},
    ],
)
def test_a_strange_message_of_the_timers_queue_stops_no_timers(named: dict[str, str]) -> None:
    """Clients may send to rmq_sys_wheel_timer, here as at Apache's broker."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        out = str(broker.node.clock.now_ms() // 1000 * 1000 + 2000)
        properties: dict[str, Any] = {key: out if value == "OUT" else value for key, value in named.items()}
        broker.put(b"strange", topic=TIMER_TOPIC, **properties)
        await asyncio.sleep(6)
        await good_one_comes(broker)

    simulate(scenario)


@pytest.mark.parametrize("text", ["\u00b2", "9" * 4500, "-1", "1_0", ""])
def test_a_strange_time_has_no_recall_handle(text: str) -> None:
    assert handle_of({keys.TIMER_OUT_MS: text, keys.REAL_TOPIC: "T"}, "b", "k") is None


def test_a_change_of_precision_makes_no_message_early() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = broker.node.clock.now_ms() // 1000 * 1000 + 10_950
        put_timed(broker, b"x", TIMER_DELIVER_MS=str(due_ms))
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        await asyncio.sleep(0.2)  # killed before the wheel is written for the first time
        broker.settings = replace(broker.settings, timers=TimerConfig(timer_precision_ms=100))
        await broker.restart()
        await until(lambda: count(broker) == 1, 30)
        (message,) = await stored(broker, "T")
        assert 0 <= message.store_timestamp - due_ms < 300

    simulate(scenario, sync=True)


def test_refused_writes_of_the_commit_log_put_no_message_into_the_wheel_twice() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = broker.node.clock.now_ms() + 40_000
        put_timed(broker, b"over", TIMER_DELAY_MS="1500")
        put_timed(broker, b"later", TIMER_DELIVER_MS=str(due_ms))
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        await asyncio.sleep(5)
        settings = broker.assembly.settings
        broker.node.image.fail("write", number=errno.ENOSPC, times=10, below="commitlog")
        settings.replace(replace(settings.value, timers=TimerConfig()))
        await asyncio.sleep(25)
        broker.node.image.mend()
        await until(lambda: count(broker) >= 2, 60)
        await asyncio.sleep(5)
        assert [message.body for message in await stored(broker, "T")] == [b"over", b"later"]

    simulate(scenario, timers=TimerConfig(timer_stop_enqueue=True))


def test_a_place_of_the_wheel_that_another_time_has_holds_up_no_timers() -> None:
    """A message of a wrong clock, two weeks ahead, has the place of another."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        clock = broker.node.clock
        slot_ms = clock.now_ms() // 1000 * 1000 + 20_000
        clock.jump(14 * DAY_MS)
        put_timed(broker, b"wrong", TIMER_DELIVER_MS=str(slot_ms + 14 * DAY_MS + 500))
        await asyncio.sleep(1)
        clock.jump(-14 * DAY_MS)
        put_timed(broker, b"taken", TIMER_DELIVER_MS=str(slot_ms + 500))
        put_timed(broker, b"soon", TIMER_DELAY_MS="5000")
        await until(lambda: count(broker) == 2, 30)
        soon, taken = await stored(broker, "T")
        assert (soon.body, taken.body) == (b"soon", b"taken")
        assert slot_ms + 500 <= int(taken.properties[keys.TIMER_DEQUEUE_MS]) <= slot_ms + 5_000
        clock.jump(14 * DAY_MS)
        await until(lambda: count(broker) == 3, 30)

    simulate(scenario)


def test_a_stop_does_not_wait_for_a_log_that_nobody_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed task ends the task that writes the log, and then the broker is closed."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"x", TIMER_DELAY_MS="5000")
        await asyncio.sleep(0.1)

        async def never(_end: int, _level: object) -> None:
            await asyncio.get_running_loop().create_future()

        with monkeypatch.context() as patch:
            patch.setattr(broker.store, "reached", never)
            async with asyncio.timeout(60):
                await broker.node.stop()
        await broker.restart()
        await until(lambda: count(broker) == 1, 10)

    simulate(scenario)


@pytest.mark.parametrize("delay_ms", [5_000, 2 * DAY_MS])
def test_a_message_with_as_many_properties_as_fit_comes(delay_ms: int) -> None:
    """A delivery adds properties; without room for them the message comes as it was sent."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        length = 32_767 - 100
        while True:
            try:
                put_timed(broker, b"x", TIMER_DELAY_MS=str(delay_ms), P="p" * length)
            except IllegalMessage:
                length -= 1
                continue
            break
        files = timers_of(broker).files
        assert files is not None
        for _ in range(20):
            await until(lambda: files.queue_offset == count(broker, TIMER_TOPIC), 10)
            await asyncio.sleep(2)
            broker.node.clock.jump(delay_ms // 10)
        await until(lambda: count(broker) == 1, 10)

    simulate(scenario)
