"""Messages with a time of their own: never early, never lost, on a simulated machine under virtual time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from firearrow.broker.send.incoming import Destination
from firearrow.broker.timer.admission import parked, slot_ms
from firearrow.broker.timer.records import TimedRecord, is_recalled, taken_back, value_of
from firearrow.broker.timer.timers import Timers
from firearrow.errors import NotNow
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset, keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.record.decode import peek
from firearrow.record.encode import Draft, encode
from firearrow.record.properties import decode_properties, encode_properties
from firearrow.store.placement import FLUSHED
from firearrow.store.timer.config import TimerConfig
from firearrow.store.timer.files import TimerFiles
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import HOST, SimBroker, SimClient, simulate, until
from tests.unit.broker.test_retry import stored

DAY_MS = 86_400_000


def put_timed(broker: SimBroker, body: bytes, **properties: str) -> int:
    """Park a message as a send does; return the time that it asked for."""
    now_ms = broker.node.clock.now_ms()
    asked = {keys.UNIQ_KEY: body.decode(), **properties}
    place = parked(Destination("T", 0, asked), 0, TimerConfig(timer_max_delay_sec=40 * 86_400), now_ms)
    broker.put(body, topic=place.topic, queue_id=place.queue_id, **place.properties)
    delay_ms = int(properties.get(keys.TIMER_DELAY_MS, "0"))
    return int(properties.get(keys.TIMER_DELIVER_MS, "0")) or now_ms + delay_ms


def timers_of(broker: SimBroker) -> Timers:
    return broker.consuming.timers


def is_done(broker: SimBroker) -> bool:
    """Whether every timed message is delivered."""
    files = timers_of(broker).files
    return files is not None and not files.wheel.used and files.queue_offset == count(broker, TIMER_TOPIC)


def count(broker: SimBroker, topic: str = "T") -> int:
    return broker.store.queues.tail_of(topic, 0).max_offset


def test_messages_come_at_the_end_of_their_slot() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due = {}
        for number, delay_ms in enumerate((10_500, 1, 999, 3_000, 2_999, 60_000, 3_001)):
            body = b"%d" % number
            due[body] = put_timed(broker, body, TIMER_DELAY_MS=str(delay_ms), TAGS="A")
            await asyncio.sleep(0.05)
        await until(lambda: count(broker) == len(due), 90)
        for message in await stored(broker, "T"):
            assert 0 <= message.store_timestamp - due[message.body] <= 1100
            assert message.tag == "A"
            assert message.properties["REAL_TOPIC"] == "T", "as at Apache's broker"
            assert int(message.properties[keys.TIMER_DEQUEUE_MS]) >= due[message.body]

    simulate(scenario)


EXACT = TimerConfig(timer_exact_delivery=True)


def test_exact_delivery_to_the_millisecond() -> None:
    """Messages for the second that is being delivered come among the others."""

    async def scenario(world: World, broker: SimBroker, _client: SimClient) -> None:
        due = {}
        for number in range(200):
            body = b"%d" % number
            due[body] = put_timed(broker, body, TIMER_DELAY_MS=str(world.rng.choice((40, 300, 999, 1000, 2_500))))
            await asyncio.sleep(world.rng.uniform(0, 0.05))
        due[b"at"] = put_timed(broker, b"at", TIMER_DELIVER_MS=str(broker.node.clock.now_ms() // 1000 * 1000 + 4000))
        await until(lambda: count(broker) == len(due), 10)
        messages = await stored(broker, "T")
        assert sorted(message.body for message in messages) == sorted(due)
        for message in messages:
            assert 0 <= message.store_timestamp - due[message.body] <= 20

    simulate(scenario, timers=EXACT)


@pytest.mark.parametrize("seed", range(6))
def test_none_is_lost_or_early_over_crashes_in_exact_delivery(seed: int) -> None:
    async def scenario(world: World, broker: SimBroker, _client: SimClient) -> None:
        due = {}
        for number in range(60):
            body = b"%d" % number
            due[body] = put_timed(broker, body, TIMER_DELAY_MS=str(world.rng.randrange(1, 8_000)))
            await asyncio.sleep(world.rng.choice((0, 0.001, 0.05, 0.1)))
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        for _ in range(4):
            await asyncio.sleep(world.rng.uniform(0.1, 3))
            await broker.restart(power=bool(seed % 2))
        await until(lambda: is_done(broker), 30)
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        delivered = await stored(broker, "T")
        assert {message.body for message in delivered} == set(due)
        assert all(message.store_timestamp >= due[message.body] for message in delivered)

    simulate(scenario, seed=seed, sync=True, timers=replace(EXACT, timer_flush_interval_ms=200))


def test_a_message_that_is_due_goes_straight_to_its_topic() -> None:
    place = parked(Destination("T", 3, {keys.TIMER_DELIVER_MS: "5000"}), 0, TimerConfig(), 5000)
    assert (place.topic, place.queue_id) == ("T", 3)


def test_many_in_one_second_come_in_order() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = broker.node.clock.now_ms() + 5_000
        for number in range(1500):
            put_timed(broker, b"%d" % number, TIMER_DELIVER_MS=str(due_ms))
        await until(lambda: count(broker) == 1500, 10)
        assert [message.body for message in await stored(broker, "T")] == [b"%d" % n for n in range(1500)]

    simulate(scenario)


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_none_is_lost_or_early_over_crashes(seed: int, power: bool) -> None:
    async def scenario(world: World, broker: SimBroker, _client: SimClient) -> None:
        due = {}
        for number in range(60):
            body = b"%d" % number
            due[body] = put_timed(broker, body, TIMER_DELAY_MS=str(world.rng.randrange(1, 15_000)))
            await asyncio.sleep(world.rng.choice((0, 0.001, 0.05, 0.1)))
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        for _ in range(4):
            await asyncio.sleep(world.rng.uniform(0.1, 5))
            await broker.restart(power=power)
        await until(lambda: is_done(broker), 60)
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        delivered = await stored(broker, "T")
        assert {message.body for message in delivered} == set(due)
        assert all(message.store_timestamp >= due[message.body] for message in delivered)

    small_files = TimerConfig(mapped_file_size_timer_log=4096, timer_flush_interval_ms=200)
    simulate(scenario, seed=seed, sync=True, timers=small_files)


@pytest.mark.parametrize("precision_ms", [100, 1000])
def test_precision(precision_ms: int) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = broker.node.clock.now_ms() + 2_345
        out_ms = slot_ms(due_ms, precision_ms)
        broker.put(b"x", topic=TIMER_TOPIC, TIMER_OUT_MS=str(out_ms), REAL_TOPIC="T", REAL_QID="0")
        await until(lambda: count(broker) == 1, 10)
        (message,) = await stored(broker, "T")
        assert 0 <= message.store_timestamp - due_ms <= precision_ms + 20

    simulate(scenario, timers=TimerConfig(timer_precision_ms=precision_ms))


def test_another_precision_is_refused_while_messages_wait() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"x", TIMER_DELAY_MS="60000")
        await asyncio.sleep(5)
        config = TimerConfig(timer_precision_ms=100)
        now_ms = broker.node.clock.now_ms()
        with pytest.raises(NotNow, match="start it with 1000"):
            await TimerFiles.open(
                broker.node.disk, config, now_ms, log_tail=1 << 40, entry_at=lambda _: PhysicalOffset(0)
            )

    simulate(scenario)


def test_none_comes_twice_after_an_orderly_stop() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(20):
            put_timed(broker, b"%d" % number, TIMER_DELAY_MS=str(500 * number))
        for _ in range(3):
            await asyncio.sleep(2)
            await broker.node.stop()
            broker.ready.clear()
            broker.node.start(broker.run)
            await broker.ready.wait()
        await until(lambda: count(broker) >= 20, 20)
        await asyncio.sleep(5)
        assert sorted(message.body for message in await stored(broker, "T")) == sorted(b"%d" % n for n in range(20))

    simulate(scenario)


@pytest.mark.parametrize("config", [TimerConfig(), EXACT], ids=["slots", "exact"])
@pytest.mark.parametrize("back_ms", [3_000, 3_600_000])
def test_none_is_early_after_the_clock_was_set_back(back_ms: int, config: TimerConfig) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due = {b"a": put_timed(broker, b"a", TIMER_DELAY_MS="2000")}
        await until(lambda: count(broker) == 1, 10)
        broker.node.clock.jump(-back_ms)
        for number in range(5):
            body = b"%d" % number
            due[body] = put_timed(broker, body, TIMER_DELAY_MS=str(700 * number + 300))
            await asyncio.sleep(0.1)
        await until(lambda: count(broker) == 6, 20)
        for message in await stored(broker, "T"):  # store times never go back, so they say nothing here
            assert 0 <= int(message.properties[keys.TIMER_DEQUEUE_MS]) - due[message.body] <= 1100
        await asyncio.sleep(back_ms / 1000 + 10)
        assert count(broker) == 6

    simulate(scenario, timers=config)


def test_a_clock_set_forward_by_weeks_passes_over_no_slot() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(5):
            put_timed(broker, b"%d" % number, TIMER_DELAY_MS=str(number * 3_600_000 + 5_000))
        await asyncio.sleep(2)
        broker.node.clock.jump(60 * DAY_MS)
        await until(lambda: count(broker) == 5, 20)

    simulate(scenario)


def test_a_long_delay_is_stored_again_on_its_way() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = put_timed(broker, b"late", TIMER_DELAY_MS=str(5 * DAY_MS))
        await asyncio.sleep(2)
        clock = broker.node.clock
        while not count(broker) and clock.now_ms() < due_ms + 10_000:
            clock.jump(min(DAY_MS // 4, max(due_ms - clock.now_ms() - 4_000, 0)))
            await asyncio.sleep(3)
        (message,) = await stored(broker, "T")
        assert 0 <= message.store_timestamp - due_ms <= 10_000
        assert int(message.properties[keys.TIMER_ROLL_TIMES]) >= 2

    simulate(scenario)


@pytest.mark.parametrize("form", ["{key}", "T+{key}"])
def test_a_message_is_taken_back(form: str) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        due_ms = broker.node.clock.now_ms() + 4_000
        for body in (b"kept", b"gone", b"too"):
            put_timed(broker, body, TIMER_DELIVER_MS=str(due_ms))
        deletes = {keys.TIMER_DELIVER_MS: str(due_ms), keys.TIMER_DEL_UNIQKEY: form.format(key="gone")}
        put_timed(broker, b"gone", **deletes)
        await asyncio.sleep(8)
        assert [message.body for message in await stored(broker, "T")] == [b"kept", b"too"]

    simulate(scenario)


def test_counts_by_topic_are_kept_for_operators() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(4):
            put_timed(broker, b"%d" % number, TIMER_DELAY_MS=str(2_000 if number % 2 else 600_000))
        await asyncio.sleep(1)
        assert timers_of(broker).counts.table().timing_count["T"].count == 4
        assert timers_of(broker).runtime()["timerCongestNum"] == "4"
        await until(lambda: count(broker) == 2, 10)
        await asyncio.sleep(15)
        await broker.restart()
        assert timers_of(broker).counts.table().timing_count["T"].count == 2
        check = timers_of(broker).check
        assert (check.queue_offset, check.master_offset) == (4, 4)
        assert check.read_ms <= broker.node.clock.now_ms()
        assert timers_of(broker).runtime()["timerOffsetBehind"] == "0"

    simulate(scenario)


def test_a_key_names_a_message_with_or_without_its_topic() -> None:
    head = peek(
        encode(
            Draft(TIMER_TOPIC, 0, b"x", encode_properties({}), EpochMs(0), HOST, HOST),
            QueueOffset(0),
            PhysicalOffset(0),
            EpochMs(0),
        )
    )
    record = TimedRecord(head, b"", encode_properties({keys.UNIQ_KEY: "k", keys.REAL_TOPIC: "T"}))

    def takes_back(topic: str, key: str) -> bool:
        recall = encode_properties({keys.TIMER_DEL_UNIQKEY: key, keys.REAL_TOPIC: topic})
        return is_recalled(record, taken_back(TimedRecord(head, b"", recall)))

    assert takes_back("T", "k")
    assert takes_back("T", "T+k")
    assert not takes_back("T", "kk")
    assert not takes_back("U", "k")
    assert not takes_back("U", "U+k")
    assert not is_recalled(record, ())


@pytest.mark.parametrize("stop", ["enqueue", "dequeue"])
def test_an_operator_stops_the_timers(stop: str) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_timed(broker, b"x", TIMER_DELAY_MS="2000")
        await asyncio.sleep(30)
        assert count(broker) == 0
        settings = broker.assembly.settings
        settings.replace(replace(settings.value, timers=TimerConfig()))
        await until(lambda: count(broker) == 1, 10)

    simulate(scenario, timers=TimerConfig(timer_stop_enqueue=stop == "enqueue", timer_stop_dequeue=stop == "dequeue"))


names = st.sampled_from(["REAL_TOPIC", "X_REAL_TOPIC", "REAL_TOPIC_", "k"])


@given(st.lists(st.tuples(names, st.text("aRE_", min_size=1, max_size=4))))
def test_a_property_is_found_as_the_decoder_finds_it(pairs: list[tuple[str, str]]) -> None:
    raw = "".join(f"{key}\x01{value}\x02" for key, value in pairs).encode()
    for key in ("REAL_TOPIC", "k"):
        assert value_of(raw, key) == value_of(raw[:-1], key) == decode_properties(raw).get(key)
