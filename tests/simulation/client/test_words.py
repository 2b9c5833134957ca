"""Failures are logged at once, at WARNING, with the thing and the reason in the text of the line."""

import asyncio
import logging
from typing import Any

import pytest

from firearrow.client import Consumer, Filter, Producer, PullConsumer, ReceivedMessage
from firearrow.client.consumer.queue.acceptance import Accept
from firearrow.errors import NoRoute, SettingsError
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until
from tests.simulation.client.test_consumer import fill

NOBODY = "10.9.9.9:9876"


def words(caplog: pytest.LogCaptureFixture, name: str = "firearrow.client") -> list[str]:
    return [
        each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING and each.name.startswith(name)
    ]


@pytest.mark.parametrize(
    ("address", "topics", "said"),
    [
        (NOBODY, {"T": "*"}, ["T", NOBODY]),
        ("", {"not-there": "*"}, ["not-there", "no name server knows"]),
    ],
)
def test_a_consumer_that_gets_nothing_says_why_within_two_seconds(
    address: str, topics: dict[str, str], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Consumer(address or names, group="G", topics=topics, doors=doors_of(world.node("c"))):
            await asyncio.sleep(2.1)
            assert any(all(part in word for part in said) for word in words(caplog)), words(caplog)
            before = len(words(caplog))
            await asyncio.sleep(9)
            assert len(words(caplog)) - before < 8  # repeats are damped
        caplog.clear()

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_name_servers_that_hear_and_do_not_answer_are_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        doors = doors_of(world.node("c"))
        world.network.partition(["c"], [node.name for node in cluster.names])
        async with Consumer(names, group="G", topics="T", doors=doors):
            await asyncio.sleep(2.1)
            assert any(names in word for word in words(caplog)), words(caplog)

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_filter_that_a_broker_does_not_take_is_told_with_the_brokers_words() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Consumer(names, group="G", doors=doors_of(world.node("c"))) as consumer:
            with pytest.raises(SettingsError, match="does not compile"):
                await consumer.subscribe("T", Filter("a >>> 1"))
        bad = Consumer(names, group="G", topics={"T": Filter("a >>> 1")}, doors=doors_of(world.node("d")))
        with pytest.raises(SettingsError, match="'a >>> 1' of topic T"):
            await bad.open()

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_handler_that_fails_is_logged_with_everything_that_finds_the_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 1)
        failed: list[ReceivedMessage] = []

        async def handle(message: ReceivedMessage) -> None:
            failed.append(message)
            raise ValueError("no such order")

        async with Consumer(names, group="G", topics="T", start="first", doors=doors_of(world.node("c"))) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: consumer.failures == 1)
            (word,) = [each for each in words(caplog) if "no such order" in each]
            for part in (
                failed[0].message_id,
                "T, broker0:0, offset 0",
                "delivery 1",
                "it is delivered again",
                "ValueError",
            ):
                assert part in word
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1, seeds=1)


@pytest.mark.parametrize("way", ["run", "run_batches", "accept"])
def test_what_failed_stands_beside_the_text_too(way: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_given: object) -> bool:
        raise KeyError("colour")

    async def handle(given: object) -> None:
        fail(given)

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 1)
        doors = doors_of(world.node("c"))
        accept: Accept[bytes] | None = fail if way == "accept" else None
        async with Consumer(names, group="G", topics="T", start="first", accept=accept, doors=doors) as consumer:
            call = consumer.run_batches if way == "run_batches" else consumer.run
            running = asyncio.get_running_loop().create_task(call(handle))
            await until(lambda: bool(consumer.failures))
            consumer.stop()
            await running
        (record, *_) = [each for each in caplog.records if each.levelno == logging.ERROR]
        told = {name: getattr(record, name) for name in ("topic", "offset", "delivery", "reason")}
        assert told == {"topic": "T", "offset": 0, "delivery": 1, "reason": "KeyError: 'colour'"}
        assert "broker0" in vars(record)["queue"]
        assert vars(record)["id"] in record.getMessage()

    ask(scenario, brokers=1, queues=1, seeds=1)


@pytest.mark.parametrize("level", [None, -1])
def test_a_failure_after_a_message_was_settled_says_that(level: int | None, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 1)
        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", start="first", doors=doors) as consumer:

            async def handle(message: ReceivedMessage) -> None:
                await (message.ack() if level is None else message.retry(level))
                consumer.stop()
                raise ValueError("too late")

            await consumer.run(handle)
        assert "failed, it was settled before: ValueError" in words(caplog)[0]

    ask(scenario, brokers=1, queues=1, seeds=1)


@pytest.mark.parametrize(
    ("options", "fate"),
    [
        ({"broadcasting": True}, "it is given up, as it is broadcast"),
        ({"max_reconsume_times": 0}, "it goes to the dead letters"),
        ({"max_reconsume_times": 0, "ordered": True}, "it goes to the dead letters"),
        ({"ordered": True}, "it is delivered again"),
    ],
)
def test_a_failure_tells_what_becomes_of_the_message(
    options: dict[str, Any], fate: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(_message: ReceivedMessage) -> None:
        raise ValueError("no such order")

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 1)
        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", start="first", doors=doors, **options) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: bool(consumer.failures))
            consumer.stop()
            await running
        assert f"failed, {fate}: ValueError" in words(caplog)[0]

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_opening_can_wait_until_it_is_known_to_work() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", wait_ready_ms=5000, doors=doors) as consumer:
            assert [queue.topic for queue in consumer.assignment if queue.topic == "T"]
        with pytest.raises(NoRoute, match="topic not-there"):
            await Consumer(names, group="G", topics="not-there", wait_ready_ms=2000, doors=doors).open()
        with pytest.raises(NoRoute, match=NOBODY):
            await Consumer(NOBODY, group="G", topics="T", wait_ready_ms=2000, doors=doors).open()
        async with (
            Producer(names, wait_ready_ms=2000, doors=doors),
            Consumer(names, group="new", wait_ready_ms=2000, doors=doors),
        ):
            pass
        with pytest.raises(NoRoute, match=NOBODY):
            await Consumer(NOBODY, group="new", wait_ready_ms=2000, doors=doors).open()
        with pytest.raises(NoRoute, match=NOBODY):
            await Producer(NOBODY, wait_ready_ms=500, doors=doors).open()

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_consumer_that_is_opened_again_waits_again() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        doors = doors_of(world.node("c"))
        both = [
            kind(names, group="G", topics="T", wait_ready_ms=5000, doors=doors) for kind in (Consumer, PullConsumer)
        ]
        for consumer in both * 2:
            async with consumer:
                assert [queue.topic for queue in consumer.assignment if queue.topic == "T"]
        for node in cluster.names:
            await node.crash()
        for consumer in both:
            with pytest.raises(NoRoute, match="not ready after 5000 ms"):
                await consumer.open()

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_pull_consumer_without_topics_waits_for_a_name_server() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        doors = doors_of(world.node("c"))
        with pytest.raises(NoRoute, match=f"group G is not ready after 500 ms: .*{NOBODY}"):
            await PullConsumer(NOBODY, group="G", wait_ready_ms=500, doors=doors).open()
        async with PullConsumer(names, group="G", wait_ready_ms=5000, doors=doors) as consumer:
            assert consumer.assignment == []

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_comma_between_tags_is_pointed_out(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        topics = {"T": "new, changed"}
        async with Consumer(names, group="G", topics=topics, doors=doors_of(world.node("c"))) as consumer:
            (word,) = words(caplog)
            assert "topic T: 'new, changed' is one tag, , included; write ||" in word
            await consumer.subscribe("T", "new && changed")
            assert "'new && changed' is one tag" in words(caplog)[-1]

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_consumer_without_a_topic_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Consumer(names, group="G", doors=doors_of(world.node("c"))):
            assert any("no topic" in word for word in words(caplog))

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_consumer_that_works_has_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 5)
        seen = 0

        async def handle(_message: ReceivedMessage) -> None:
            nonlocal seen
            seen += 1

        async with Consumer(names, group="G", topics="T", start="first", doors=doors_of(world.node("c"))) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: seen == 5)
            await asyncio.sleep(60)
            assert words(caplog) == []
            consumer.stop()
            await running

    ask(scenario, brokers=2, queues=2)
