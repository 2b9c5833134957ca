"""The consumer when members, brokers and handlers fail."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest

from firearrow.client import Consumer, Message, MessageQueue, Producer, PullConsumer, ReceivedMessage
from firearrow.client.consumer.division.strategies import average
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.errors import FireArrowError, NoRoute
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until


async def fill(world: World, names: str, count: int, prefix: str = "m") -> None:
    node = world.nodes.get("filler") or world.node("filler")
    async with Producer(names, group="P", doors=doors_of(node)) as producer:
        for number in range(count):
            await producer.send(Message.of("T", f"{prefix}{number}".encode()))


def test_members_share_the_queues_and_take_over_from_one_that_leaves_or_dies() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        seen: Counter[bytes] = Counter()

        async def handle(message: ReceivedMessage) -> None:
            seen[message.body] += 1

        consumers: dict[str, Consumer] = {}

        async def member(name: str) -> None:
            consumer = Consumer(names, group="G", topics="T", start="first", doors=doors_of(world.nodes[name]))
            async with consumer:
                consumers[name] = consumer
                await consumer.run(handle)

        def queues(name: str) -> int:
            return sum(queue.topic == "T" for queue in consumers[name].assignment) if name in consumers else 0

        for name in ("c0", "c1", "c2"):
            world.node(name).start(lambda node: member(node.name))
        await until(lambda: sorted(map(queues, ("c0", "c1", "c2"))) == [2, 3, 3], 30)
        await fill(world, names, 20, "a")
        await until(lambda: len(seen) == 20)
        await world.nodes["c0"].stop()
        del consumers["c0"]
        assert await until(lambda: queues("c1") + queues("c2") == 8) < 5
        await world.nodes["c1"].crash()
        del consumers["c1"]
        assert await until(lambda: queues("c2") == 8) < 5
        await fill(world, names, 20, "b")
        await until(lambda: len(seen) == 40)
        # At least once: what a member had not committed when its queue moved comes again.
        assert sum(seen.values()) < 40 + 20

    ask(scenario, queues=4)


def test_a_queue_has_many_handlers_and_the_offset_is_the_lowest_unfinished() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 100)
        held, seen = asyncio.Event(), 0

        async def handle(message: ReceivedMessage) -> None:
            nonlocal seen
            if message.queue_offset == 3:
                await held.wait()
            await asyncio.sleep(1)
            seen += 1

        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", start="first", workers=100, doors=doors) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            assert await until(lambda: seen == 99) < 4
            await consumer.commit()
            async with PullConsumer(names, group="G", doors=doors_of(world.node("other"))) as other:
                (queue,) = await other.queues("T")
                assert await other.committed(queue) == 3
                held.set()
                await until(lambda: seen == 100)
                await consumer.commit()
                assert await other.committed(queue) == 100
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1)


def test_an_ordered_queue_keeps_its_order_through_failures_and_a_change_of_members() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        orders: dict[object, list[int]] = {}
        failed: set[bytes] = set()

        async def handle(message: ReceivedMessage) -> None:
            await asyncio.sleep(0.05)
            if message.queue_offset % 5 == 2 and message.body not in failed:
                failed.add(message.body)
                raise ValueError("once")
            orders.setdefault(message.queue, []).append(message.queue_offset)

        async def member(name: str) -> None:
            doors = doors_of(world.nodes[name])
            async with Consumer(
                names, group="G", topics="T", start="first", ordered=True, suspend_ms=100, doors=doors
            ) as consumer:
                await consumer.run(handle)

        world.node("c0").start(lambda node: member(node.name))
        await fill(world, names, 60)
        world.node("c1").start(lambda node: member(node.name))
        await fill(world, names, 60)
        await until(lambda: sum(len(set(offsets)) for offsets in orders.values()) == 120, 120)
        for offsets in orders.values():
            firsts = list(dict.fromkeys(offsets))
            assert firsts == sorted(firsts)

    ask(scenario, queues=2)


def test_a_consumer_goes_on_within_two_seconds_after_its_broker_is_back() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        seen: set[bytes] = set()

        async def handle(message: ReceivedMessage) -> None:
            seen.add(message.body)

        async with Consumer(names, group="G", topics="T", start="first", doors=doors_of(world.node("c"))) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await fill(world, names, 5, "a")
            await until(lambda: len(seen) == 5)
            await cluster.brokers[0].crash(power=True)
            await asyncio.sleep(20)
            await cluster.brokers[0].start()
            await asyncio.sleep(2)
            await fill(world, names, 5, "b")
            assert await until(lambda: len(seen) == 10) < 1
            consumer.stop()
            await running

    ask(scenario, brokers=1)


def test_a_queue_that_does_not_move_says_why() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        stuck = asyncio.Event()

        async def slow_handler(_message: ReceivedMessage) -> None:
            await stuck.wait()

        await fill(world, names, 3)
        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", start="first", workers=1, doors=doors) as consumer:
            await asyncio.sleep(70)
            (stall,) = consumer.stalls()
            assert "no task takes messages" in stall.reason
            running = asyncio.get_running_loop().create_task(consumer.run(slow_handler))
            await asyncio.sleep(70)
            (stall,) = consumer.stalls()
            assert "slow_handler" in stall.reason
            assert "offset 0" in stall.reason
            stuck.set()
            await asyncio.sleep(1)
            assert consumer.stalls() == []
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_handler_that_takes_too_long_loses_its_message() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        times: list[int] = []

        async def handle(message: ReceivedMessage) -> None:
            times.append(message.reconsume_times)
            await asyncio.sleep(1000 if message.reconsume_times == 0 else 0)

        await fill(world, names, 1)
        async with Consumer(
            names, group="G", topics="T", start="first", consume_timeout_ms=60_000, doors=doors_of(world.node("c"))
        ) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: times == [0, 1], 120)
            consumer.stop()
            running.cancel()
            await asyncio.wait([running])

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_broadcasting_gives_everybody_everything_and_remembers_where_each_was() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        seen: dict[str, list[bytes]] = {"c0": [], "c1": []}

        async def member(name: str) -> None:
            async def handle(message: ReceivedMessage) -> None:
                seen[name].append(message.body)
                if message.body == b"a0":
                    raise ValueError("broadcast messages do not come again")

            doors = doors_of(world.nodes[name])
            async with Consumer(
                names, group="G", topics="T", start="first", broadcasting=True, doors=doors
            ) as consumer:
                await consumer.run(handle)

        for name in seen:
            world.node(name).start(lambda node: member(node.name))
        await fill(world, names, 10, "a")
        await until(lambda: all(len(bodies) == 10 for bodies in seen.values()))
        await world.nodes["c0"].stop()
        await fill(world, names, 5, "b")
        await world.nodes["c0"].restart()
        await until(lambda: all(len(bodies) == 15 for bodies in seen.values()))
        assert all(len(set(bodies)) == 15 for bodies in seen.values())

    ask(scenario)


def test_nothing_is_left_behind_after_closing() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 3)
        before = len(asyncio.all_tasks())
        node = world.node("c")
        for _ in range(3):
            async with Consumer(names, group="G", topics="T", start="first", doors=doors_of(node)) as consumer:
                async for message in consumer:
                    await message.ack()
                    break
        await until(lambda: len(asyncio.all_tasks()) <= before, 5)

    ask(scenario, seeds=1)


@pytest.mark.parametrize("known", [5, 6])
def test_a_message_whose_broker_is_gone_comes_again_by_way_of_another(known: int) -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        deliveries: list[tuple[str, str, int]] = []
        gone = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            deliveries.append((message.queue.broker_name, message.topic, message.reconsume_times))
            if len(deliveries) == 1:
                await gone.wait()
                raise ValueError("failed while its broker was gone")

        async with (
            Producer(names, group="P", doors=doors_of(world.node("p"))) as producer,
            Consumer(names, group="G", topics="T", start="first", doors=doors_of(world.node("c"))) as consumer,
        ):
            running = asyncio.create_task(consumer.run(handle))
            await until(lambda: len(consumer.assignment) >= known)  # the retry topic of a broker, or of both
            queue = next(queue for queue in await producer.queues("T") if queue.broker_name == "broker0")
            sent = await producer.send(Message.of("T", b"x"), queue=queue)
            assert sent.is_ok
            await until(lambda: len(deliveries) == 1)
            await cluster.brokers[0].crash(power=False)
            gone.set()
            await until(lambda: len(deliveries) == 2, 60)
            assert deliveries == [("broker0", "T", 0), ("broker1", "T", 1)]
            await cluster.brokers[0].start()
            consumer.stop()
            await running

    ask(scenario)


def test_what_fails_beyond_its_limit_reaches_the_dead_letters_of_another_broker() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        dead: list[bytes] = []
        gone = asyncio.Event()
        options = ConsumerOptions(start="first", max_reconsume_times=0)

        async def handle(_message: ReceivedMessage) -> None:
            await gone.wait()
            raise ValueError("it never works")

        async def bury(message: ReceivedMessage) -> None:
            dead.append(message.body)

        async with (
            Producer(names, group="P", doors=doors_of(world.node("p"))) as producer,
            Consumer(names, group="G", topics="T", doors=doors_of(world.node("c")), **options) as consumer,
            Consumer(names, group="D", topics="%DLQ%G", start="first", doors=doors_of(world.node("d"))) as graveyard,
        ):
            running = [asyncio.create_task(consumer.run(handle)), asyncio.create_task(graveyard.run(bury))]
            await until(lambda: len(consumer.assignment) >= 6)
            queue = next(queue for queue in await producer.queues("T") if queue.broker_name == "broker0")
            await producer.send(Message.of("T", b"hopeless"), queue=queue)
            await asyncio.sleep(1)
            await cluster.brokers[0].crash(power=False)
            gone.set()
            await until(lambda: dead == [b"hopeless"], 120)
            await cluster.brokers[0].start()
            for each in (consumer, graveyard):
                each.stop()
            await asyncio.gather(*running)

    ask(scenario)


@pytest.mark.parametrize("wrong", [None, [0], "raise"])
def test_a_strategy_that_fails_once_is_asked_again_and_named_meanwhile(wrong: Any) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        is_broken = True

        def mine(me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
            if not is_broken:
                return average(me, queues, members)
            if wrong == "raise":
                raise OSError("the rules are away")
            return cast("list[MessageQueue]", wrong)

        await fill(world, names, 1)
        doors, seen = doors_of(world.node("c")), []
        options = ConsumerOptions(start="first", stall_ms=1000)

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)

        with pytest.raises(NoRoute, match=r"strategy .*mine (failed: OSError: the rules|returned)"):
            await Consumer(names, group="G", topics="T", strategy=mine, wait_ready_ms=3000, doors=doors).open()
        async with Consumer(names, group="G", topics="T", strategy=mine, doors=doors, **options) as consumer:
            running = asyncio.create_task(consumer.run(handle))
            await until(lambda: any("mine" in stall.reason for stall in consumer.stalls()))
            is_broken = False
            await until(lambda: seen == [b"m0"], 10)
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_commit_by_hand_that_fails_says_so_and_is_made_up_for() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Consumer(names, group="G", topics="T", start="first", doors=doors_of(world.node("c"))) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(_nothing))
            await fill(world, names, 5)
            await until(lambda: not consumer.stalls() and len(consumer.assignment) == 3)
            await until(lambda: sum(flow.window.next_offset or 0 for flow in _flows(consumer)) == 5)
            await cluster.brokers[0].crash(power=False)
            with pytest.raises(FireArrowError):
                await consumer.commit()
            await cluster.brokers[0].start()
            await until(lambda: not consumer._member.receiver.offsets.table.unkept())
            consumer.stop()
            await running

    ask(scenario, brokers=1)


async def _nothing(_message: ReceivedMessage) -> None:
    return


def _flows(consumer: Consumer) -> list[OwnedQueue]:
    return list(consumer._member.receiver.flows.values())
