"""Messages sent back, delayed, delivered and given up, on a simulated machine under virtual time."""

import asyncio

import pytest

from firearrow import fastjson
from firearrow.broker.delivery.schedule import BATCH
from firearrow.broker.send.incoming import destination_of
from firearrow.errors import RequestRefused
from firearrow.model import StoredMessage
from firearrow.model.names import SCHEDULE_TOPIC
from firearrow.protocol.bodies.group.offset import DelayOffsetTable
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack
from firearrow.record.decode import decode_all
from firearrow.store.placement import FLUSHED
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import LEVELS, SimBroker, SimClient, simulate, until


def put_delayed(broker: SimBroker, level: int, body: bytes = b"x") -> int:
    scheduled = destination_of("T", 3, {"DELAY": str(level), "TAGS": "A"}, 0, len(LEVELS))
    return broker.put(body, topic=scheduled.topic, queue_id=scheduled.queue_id, **scheduled.properties).store_timestamp


async def stored(broker: SimBroker, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    offset = 0
    while (pulled := await broker.store.read(topic, queue_id, ReadRequest(offset, 1000, 1 << 20))).buffers:
        found += [message for buffer in pulled.buffers for message in decode_all(bytes(buffer))]
        offset = pulled.next_offset
    return found


async def arrived(broker: SimBroker, topic: str, count: int, within_s: float) -> None:
    await until(lambda: broker.store.queues.tail_of(topic, 0).max_offset == count, within_s, every_s=0.1)


def back(offset: int, level: int = 0, most: int | None = None, group: str = "g") -> ConsumerSendMsgBack:
    return ConsumerSendMsgBack(offset=offset, group=group, delay_level=level, max_reconsume_times=most)


@pytest.mark.parametrize("sync", [False, True])
def test_delayed_messages_come_when_they_are_due(sync: bool) -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> None:
        due: dict[bytes, int] = {}
        for level in (3, 1, 2, 1, 4):
            await asyncio.sleep(0.3)
            body = f"{level}-{len(due)}".encode()
            due[body] = put_delayed(broker, level, body) + LEVELS[level - 1]
        await until(lambda: broker.store.queues.tail_of("T", 3).max_offset == 5, 60)
        delivered = await stored(broker, "T", 3)
        assert [message.body for message in delivered] == sorted(due, key=lambda body: due[body])
        for message in delivered:
            assert 0 <= message.store_timestamp - due[message.body] <= 100
            assert message.properties["REAL_TOPIC"] == "T"
            assert message.properties["DELAY"] == message.body.decode()[0]
            assert message.tag == "A"
        del world, client

    simulate(scenario, sync=sync)


def test_many_that_are_due_at_once() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(500):
            put_delayed(broker, 1, b"%d" % number)
        await until(lambda: broker.store.queues.tail_of("T", 3).max_offset == 500, 5)
        assert [message.body for message in await stored(broker, "T", 3)] == [b"%d" % n for n in range(500)]

    simulate(scenario)


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_no_delayed_message_is_lost_over_a_crash(seed: int, power: bool) -> None:
    async def scenario(world: World, broker: SimBroker, _client: SimClient) -> None:
        due = {}
        for number in range(40):
            body = b"%d" % number
            due[body] = put_delayed(broker, 1 + number % 3, body) + LEVELS[number % 3]
            await asyncio.sleep(0.05)
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        for _ in range(3):
            await asyncio.sleep(world.rng.uniform(0.2, 6))
            await broker.restart(power=power)
        delays = broker.consuming.delays
        await until(lambda: all(delays.offsets[level] == delays.end_of(level) for level in (1, 2, 3)), 60)
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        delivered = await stored(broker, "T", 3)
        assert {message.body for message in delivered} == set(due)
        assert all(message.store_timestamp >= due[message.body] for message in delivered)

    simulate(scenario, seed=seed, sync=True)


@pytest.mark.parametrize("count", [1, 3 * BATCH])
def test_a_clock_set_back_delays_no_longer_than_the_level(count: int) -> None:
    async def scenario(world: World, broker: SimBroker, _client: SimClient) -> None:
        for _ in range(count):
            put_delayed(broker, 2)
        await asyncio.sleep(0.1)
        broker.node.clock.jump(-3_600_000)
        start = world.loop.time()
        await until(lambda: broker.store.queues.tail_of("T", 3).max_offset > 0, 20)
        assert world.loop.time() - start >= 4.8
        await until(lambda: broker.store.queues.tail_of("T", 3).max_offset == count, 20)
        assert world.loop.time() - start <= 5.5

    simulate(scenario)


def test_delay_offsets_are_written_at_the_end_so_that_nothing_comes_twice() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        put_delayed(broker, 1)
        await until(lambda: broker.store.queues.tail_of("T", 3).max_offset == 1, 5)
        await broker.node.stop()
        stored_table = await broker.node.disk.read_whole("config/delayOffset.json")
        assert fastjson.decode(stored_table, DelayOffsetTable).offset_table == {1: 1}
        broker.ready.clear()
        broker.node.start(broker.run)
        await broker.ready.wait()
        await asyncio.sleep(5)
        assert broker.store.queues.tail_of("T", 3).max_offset == 1

    simulate(scenario)


def test_a_message_is_tried_again_until_it_is_given_up() -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> list[float]:
        await client.heartbeat()
        first = broker.put(b"poison", KEYS="k1", TAGS="A")
        place, waits = first.physical_offset, []
        for attempt in range(1, 17):
            start = world.loop.time()
            await client.ask(back(place))
            await arrived(broker, "%RETRY%g", attempt, 8000)
            waits.append(world.loop.time() - start)
            message = (await stored(broker, "%RETRY%g"))[-1]
            assert (message.body, message.reconsume_times) == (b"poison", attempt)
            assert message.properties["RETRY_TOPIC"] == "T"
            place = message.physical_offset
        await client.ask(back(place))
        (dead,) = await stored(broker, "%DLQ%g")
        assert (dead.body, dead.keys, dead.tag, dead.reconsume_times) == (b"poison", ["k1"], "A", 17)
        origin = dead.properties["ORIGIN_MESSAGE_ID"]
        assert int(origin[-16:], 16) == first.physical_offset
        assert broker.store.queues.tail_of("%RETRY%g", 0).max_offset == 16
        topic = broker.topics.get("%DLQ%g")
        assert topic is not None
        assert (topic.read_queue_nums, topic.perm) == (1, 6)
        return waits

    waits = simulate(scenario)
    for waited, level in zip(waits, LEVELS[2:], strict=True):
        assert level / 1000 <= waited <= level / 1000 + 0.2


def test_the_consumer_may_say_how_often_and_how_long() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        place = broker.put(b"a").physical_offset
        await client.ask(back(place, level=1))
        await until(lambda: broker.store.queues.tail_of("%RETRY%g", 0).max_offset == 1, 2)
        await client.ask(back(place, level=-1))
        await client.ask(back(place, most=0))
        assert len(await stored(broker, "%DLQ%g")) == 2
        levels = [number for number in range(18) if broker.store.queues.tail_of(SCHEDULE_TOPIC, number).max_offset]
        assert levels == [0]

    simulate(scenario)


def test_what_is_not_there_cannot_be_sent_back() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        place = broker.put()
        for offset in (place.physical_offset + 1, place.end, -5, 1 << 60):
            with pytest.raises(RequestRefused) as refused:
                await client.ask(back(offset))
            assert refused.value.code == ResponseCode.SYSTEM_ERROR

    simulate(scenario)
