"""The producer when brokers and name servers fail."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from firearrow.client import Message, MessageQueue, Producer
from firearrow.errors import ClientClosed, NoRoute, RequestTimedOut, SendFailed, SettingsError
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until


def test_messages_go_round_all_queues_of_all_brokers() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            results = [await producer.send(Message.of("T", b"x")) for _ in range(8)]
        assert len({result.queue for result in results}) == 4

    ask(scenario)


def test_when_a_broker_is_dead_the_other_takes_the_message() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            await producer.send(Message.of("T", b"x"))
            await cluster.brokers[0].crash(power=False)
            results = [await producer.send(Message.of("T", b"x")) for _ in range(8)]
            assert {result.queue.broker_name for result in results} == {"broker1"}

    ask(scenario)


def test_when_no_broker_is_left_the_error_says_that_a_retry_is_worth_it_and_nothing_happened() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            await producer.send(Message.of("T", b"x"))
            for broker in cluster.brokers:
                await broker.crash(power=False)
            await asyncio.sleep(0.5)
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message.of("T", b"x"))
            assert caught.value.retryable
            assert not caught.value.may_have_happened
            for broker in cluster.brokers:
                await broker.start()
            loop = asyncio.get_running_loop()
            begun = loop.time()
            while True:
                try:
                    await producer.send(Message.of("T", b"x"))
                    break
                except SendFailed:
                    await asyncio.sleep(0.1)
            assert loop.time() - begun < 2.0

    ask(scenario)


def test_when_the_answer_does_not_come_the_message_may_be_stored() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p")), retries=0) as producer:
            await producer.send(Message.of("T", b"x"))
            world.network.partition(["p"], ["broker0"])
            begun = asyncio.get_running_loop().time()
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message.of("T", b"x"), timeout_ms=500)
            assert asyncio.get_running_loop().time() - begun < 0.7
            assert caught.value.may_have_happened
            assert isinstance(caught.value.__cause__, RequestTimedOut)
            world.network.heal()

    ask(scenario, brokers=1)


@pytest.mark.parametrize("retries", [0, 2])
def test_a_send_whose_broker_was_asked_may_be_stored_when_the_producer_is_closed(retries: int) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p")), retries=retries) as producer:
            await producer.send(Message.of("T", b"x"))
            world.network.partition(["p"], ["broker0"])
            sending = asyncio.get_running_loop().create_task(producer.send(Message.of("T", b"x")))
            await asyncio.sleep(0.1)
            await producer.close()
            with pytest.raises(SendFailed) as caught:
                await sending
            assert caught.value.may_have_happened
            world.network.heal()

    ask(scenario, brokers=1)


def test_an_ordered_message_fails_rather_than_moves() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            queue = next(q for q in await producer.queues("T") if q.broker_name == "broker0")
            assert (await producer.send(Message.of("T", b"x"), queue=queue)).queue == queue
            await cluster.brokers[0].crash(power=False)
            with pytest.raises(SendFailed):
                await producer.send(Message.of("T", b"x"), queue=queue)

    ask(scenario)


def test_one_name_server_is_enough_and_none_is_needed_for_what_is_known() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        await cluster.names[0].crash()
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            await producer.send(Message.of("T", b"x"))
            await cluster.names[1].crash()
            for _ in range(5):
                await producer.send(Message.of("T", b"x"))
                await asyncio.sleep(30)

    ask(scenario)


def test_a_topic_that_nobody_has_is_told_at_once() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message.of("Unknown", b"x"))
            assert isinstance(caught.value.__cause__, NoRoute)
        with pytest.raises(ClientClosed):
            await producer.send(Message.of("T", b"x"))

    ask(scenario, seeds=1)


def test_a_new_broker_is_found_by_the_next_poll() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            await producer.send(Message.of("T", b"x"))
            await cluster.add_broker("broker9")
            await asyncio.sleep(31)
            assert {queue.broker_name for queue in await producer.queues("T")} == {"broker0", "broker9"}

    ask(scenario, brokers=1)


def test_a_thousand_tasks_may_send_at_once() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            results = await asyncio.gather(*(producer.send(Message.of("T", b"x")) for _ in range(1000)))
        assert len({(result.queue, result.queue_offset) for result in results}) == 1000
        assert len({result.message_id for result in results}) == 1000

    ask(scenario, seeds=1)


def test_nothing_is_left_behind_after_closing() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        before = len(asyncio.all_tasks())
        for _ in range(3):
            async with Producer(names, group="P", doors=doors_of(world.nodes.get("p") or world.node("p"))) as producer:
                await producer.send(Message.of("T", b"x"))
        await until(lambda: len(asyncio.all_tasks()) <= before, 5)

    ask(scenario, seeds=1)


def test_sends_that_linger_travel_together_and_each_knows_its_own_place() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p")), linger_ms=5) as producer:
            results = await asyncio.gather(*(producer.send(Message.of("T", b"%d" % n)) for n in range(50)))
            assert len({result.queue for result in results}) == 1
            assert [result.queue_offset for result in results] == list(range(50))
            assert len({result.message_id for result in results}) == 50
            keyed = await asyncio.gather(
                *(producer.send(Message.of("T", b"x", sharding_key=f"k{n % 3}")) for n in range(30))
            )
            assert len({result.message_id for result in keyed}) == 30
            await producer.send(Message.of("T", b"later", delay_level=1))
            for broker in cluster.brokers:
                await broker.crash(power=False)
            outcomes = await asyncio.gather(
                *(producer.send(Message.of("T", b"x")) for _ in range(5)), return_exceptions=True
            )
            assert all(isinstance(outcome, SendFailed) for outcome in outcomes)

    ask(scenario, seeds=2)


def test_closing_sends_what_lingers() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p")), linger_ms=60_000) as producer:
            sending = [asyncio.get_running_loop().create_task(producer.send(Message.of("T", b"x"))) for _ in range(5)]
            await asyncio.sleep(0.1)
            assert not any(task.done() for task in sending)
        assert [task.result().is_ok for task in sending] == [True] * 5

    ask(scenario, seeds=1)


def test_an_attempt_may_have_a_limit_of_its_own_so_that_a_hanging_broker_leaves_time_for_another() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", attempt_timeout_ms=500, doors=doors_of(world.node("p"))) as producer:
            await asyncio.gather(*(producer.send(Message.of("T", b"x")) for _ in range(4)))
            world.nodes[cluster.brokers[0].name].freeze()
            results = [await producer.send(Message.of("T", b"x")) for _ in range(4)]
            assert {result.queue.broker_name for result in results} == {"broker1"}
            world.nodes[cluster.brokers[0].name].thaw()

    ask(scenario)


def test_sends_beyond_the_limit_wait_for_their_turn() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", max_sends=3, doors=doors_of(world.node("p"))) as producer:
            for _ in range(4):
                await producer.send(Message.of("T", b"x"))
            await asyncio.sleep(1)  # both brokers have had their first heartbeat
            most, ended = 0, False

            async def watch() -> None:
                nonlocal most
                while not ended:
                    assert producer._instance is not None
                    endpoint, _ = producer._instance.caller._made()
                    most = max(most, sum(each.outstanding for each in endpoint.connections))
                    await asyncio.sleep(0.0001)

            watching = asyncio.create_task(watch())
            results = await asyncio.gather(*(producer.send(Message.of("T", b"x")) for _ in range(30)))
            ended = True
            await watching
            assert len({result.message_id for result in results}) == 30
            assert 1 <= most <= 3

    ask(scenario)


async def later(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
    """No selector: it has to be awaited."""
    return queues[0]


@pytest.mark.parametrize("linger_ms", [0, 20])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"queue": 3}, "queue=3 is not a queue"),
        ({"queue": MessageQueue("other", "broker0", 0)}, "another topic than the message, 'T'"),
        ({"selector": lambda _queues, _message: 0}, "the selector returned 0"),
        ({"selector": lambda _queues, _message: None}, "the selector returned None"),
        ({"selector": lambda _queues, _message: MessageQueue("other", "broker0", 0)}, "the selector returned"),
        ({"selector": later}, "coroutine function"),
    ],
)
def test_only_a_queue_of_the_messages_topic_is_taken(given: dict[str, Any], told: str, linger_ms: int) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", linger_ms=linger_ms, doors=doors_of(world.node("p"))) as producer:
            message = Message.of("T", b"x")
            for sending in (
                producer.send(message, **given),
                producer.send_batch([message, message], **given),
                producer.send_oneway(message, **given),
            ):
                with pytest.raises(SettingsError, match=told):
                    await sending
            assert (await producer.send(message)).queue_offset == 0, "nothing was stored"

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_sends_that_wait_when_the_producer_closes_are_told() -> None:
    async def scenario(world: World, _cluster: SimCluster, _names: str) -> None:
        producer = Producer("10.9.9.9:9876", send_timeout_ms=8000, doors=doors_of(world.node("p")))
        await producer.open()
        sending = asyncio.create_task(producer.send(Message.of("T", b"x")))
        await asyncio.sleep(0.5)
        await producer.close()
        with pytest.raises(ClientClosed):
            await sending

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_timed_send_to_a_broker_that_hangs_keeps_its_deadline_and_says_that_nothing_was_sent() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        loop = asyncio.get_running_loop()
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            queue = next(queue for queue in await producer.queues("T") if queue.broker_name == "broker0")
            cluster.brokers[0].node.freeze()
            begun = loop.time()
            with pytest.raises(SendFailed) as failed:
                await producer.send(Message.of("T", b"x", delay=timedelta(seconds=9)), queue=queue, timeout_ms=300)
            assert loop.time() - begun < 0.4
            assert not failed.value.may_have_happened
            cluster.brokers[0].node.thaw()

    ask(scenario, seeds=3)
