"""A rebalance listener hears of queues before their first message, and after their last handler and commit."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Unpack

import pytest

from firearrow.client import Consumer, MessageQueue, PullConsumer, RebalanceListener, ReceivedMessage
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.errors import SettingsError
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until
from tests.simulation.client.test_consumer import fill


class Diary(RebalanceListener):
    """Writes down what it hears and what handlers do."""

    def __init__(self, seconds: float = 0.5) -> None:
        self.seconds = seconds
        self.lines: list[tuple[str, MessageQueue]] = []
        self.consumer: Consumer | None = None
        self.offsets: dict[MessageQueue, int | None] = {}
        self.commits = False

    def write(self, word: str, queues: Sequence[MessageQueue]) -> None:
        self.lines += [(word, queue) for queue in queues if queue.topic == "T"]

    async def on_assigned(self, queues: Sequence[MessageQueue]) -> None:
        self.write("comes", queues)
        await asyncio.sleep(self.seconds)
        self.write("is here", queues)

    async def on_revoked(self, queues: Sequence[MessageQueue]) -> None:
        assert self.consumer is not None
        if self.commits:
            await self.consumer.commit()
        self.write("goes", queues)
        for queue in queues:
            self.offsets[queue] = await self.consumer._member.receiver.offsets.read(queue)
        await asyncio.sleep(self.seconds)
        self.write("is gone", queues)

    async def handle(self, message: ReceivedMessage) -> None:
        self.write("begins", [message.queue])
        await asyncio.sleep(2)
        self.write("ends", [message.queue])

    def of(self, queue: MessageQueue) -> list[str]:
        return [word for word, each in self.lines if each == queue]


def member(
    world: World, names: str, name: str, listener: RebalanceListener | None, **options: Unpack[ConsumerOptions]
) -> Consumer:
    doors = doors_of(world.nodes.get(name) or world.node(name))
    options.setdefault("start", "first")
    consumer = Consumer(names, group="G", topics="T", rebalance_listener=listener, doors=doors, **options)
    if isinstance(listener, Diary):
        listener.consumer = consumer
    return consumer


def mine(consumer: Consumer) -> list[MessageQueue]:
    return [queue for queue in consumer.assignment if queue.topic == "T"]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("auto_commit", [True, False])
def test_it_hears_before_the_first_message_and_after_the_last(ordered: bool, auto_commit: bool) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        world.node("a")
        diary = Diary()
        diary.commits = not auto_commit
        options: ConsumerOptions = {"ordered": ordered, "auto_commit": auto_commit, "workers": 1}
        async with member(world, names, "b", diary, **options) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(diary.handle))
            await until(lambda: len(mine(consumer)) == 2)
            await fill(world, names, 2)
            await until(lambda: any(word == "begins" for word, _ in diary.lines))
            async with member(world, names, "a", None) as other:
                await until(lambda: any(word == "is gone" for word, _ in diary.lines))
                (gone,) = {queue for word, queue in diary.lines if word == "is gone"}
                words = diary.of(gone)
                assert words[:2] == ["comes", "is here"]
                assert words[-2:] == ["goes", "is gone"]
                # A handler that began has ended; what waited for one was not begun.
                assert words[2:-2] in ([], ["begins", "ends"])
                assert (diary.offsets[gone] or 0) == words.count("ends")
                await until(lambda: gone in mine(other))
            await until(lambda: len(mine(consumer)) == 2)
            consumer.stop()
            await running
        for queue in {queue for _, queue in diary.lines}:
            words = diary.of(queue)
            assert words.count("comes") == words.count("is here") == words.count("goes") == words.count("is gone")
            assert words[-1] == "is gone"

    ask(scenario, brokers=1, queues=2, seeds=3)


def test_closing_tells_of_all_queues_at_once() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        calls: list[tuple[str, list[MessageQueue]]] = []

        class Plain(RebalanceListener):
            async def on_assigned(self, queues: Sequence[MessageQueue]) -> None:
                calls.append(("assigned", [queue for queue in queues if queue.topic == "T"]))

            async def on_revoked(self, queues: Sequence[MessageQueue]) -> None:
                calls.append(("revoked", [queue for queue in queues if queue.topic == "T"]))

        async with member(world, names, "c", Plain()) as consumer:
            await until(lambda: len(mine(consumer)) == 2 and len(calls) == 2)  # T and the retry topic
            queues = mine(consumer)
        assert ("assigned", queues) in calls
        assert calls[-1] == ("revoked", queues)
        assert len(calls) == 3

    ask(scenario, brokers=1, queues=2, seeds=1)


def test_what_it_raises_and_what_takes_too_long_is_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        class Broken(RebalanceListener):
            async def on_assigned(self, _queues: Sequence[MessageQueue]) -> None:
                raise TimeoutError("no cache")

            async def on_revoked(self, _queues: Sequence[MessageQueue]) -> None:
                await asyncio.sleep(100)

        seen: list[bytes] = []

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)

        await fill(world, names, 1)
        async with member(world, names, "c", Broken(), rebalance_timeout_ms=1000) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: len(seen) == 1)
            consumer.stop()
            await running
            begun = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - begun < 2
        said = [record.getMessage() for record in caplog.records]
        failed = "Broken.on_assigned of group G failed for T broker0:0, the queues move nevertheless: "
        assert any(f"{failed}TimeoutError: no cache" in line for line in said), said
        assert any(
            "Broken.on_revoked of group G failed" in line and "longer than rebalance_timeout_ms (1000)" in line
            for line in said
        ), said
        caplog.clear()

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_cancellation_inside_a_listener_is_its_failure_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        class Cancelling(RebalanceListener):
            async def on_revoked(self, _queues: Sequence[MessageQueue]) -> None:
                inner = asyncio.get_running_loop().create_task(asyncio.sleep(3600))
                inner.cancel()
                await inner

        seen: list[MessageQueue] = []

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.queue)

        world.node("a")
        async with member(world, names, "b", Cancelling(), ordered=True) as consumer:
            await until(lambda: len(mine(consumer)) == 2)
            await until(lambda: all(flow.is_announced for flow in consumer._member.receiver.flows.values()))
            async with member(world, names, "a", None, ordered=True) as other:
                running = asyncio.get_running_loop().create_task(other.run(handle))
                await until(lambda: len(mine(other)) == 1)
                await fill(world, names, 10)
                assert await until(lambda: bool(seen), 120) < 30  # it was unlocked, not left to lapse
                await consumer.close()
                await until(lambda: len(mine(other)) == 2)
                other.stop()
                await running
        assert any("Cancelling.on_revoked of group G failed" in record.getMessage() for record in caplog.records)
        caplog.clear()

    ask(scenario, brokers=1, queues=2, seeds=1)


def test_handlers_that_take_too_long_do_not_keep_a_queue(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        world.node("a")
        diary, begun = Diary(0), asyncio.Event()

        async def handle(_message: ReceivedMessage) -> None:
            begun.set()
            await asyncio.sleep(100)

        async with member(world, names, "b", diary, rebalance_timeout_ms=5000) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await fill(world, names, 1)
            await begun.wait()
            async with member(world, names, "a", None):
                assert 4 < await until(lambda: any(word == "is gone" for word, _ in diary.lines)) < 30
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        said = [record.getMessage() for record in caplog.records]
        assert any("moves to another member while handlers still run" in line for line in said), said
        caplog.clear()

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_what_handlers_finish_late_takes_no_commit_of_another_member_back() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        world.node("a")
        diary, slow = Diary(0), asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            if message.queue_offset == 0:
                await slow.wait()

        async def handle_quickly(_message: ReceivedMessage) -> None:
            return

        async with member(world, names, "b", diary) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await fill(world, names, 5)
            await until(lambda: [len(flow.window) for flow in consumer._member.receiver.flows.values()].count(1) == 1)
            async with (
                member(world, names, "a", None) as other,
                PullConsumer(names, group="G", doors=doors_of(world.node("looker"))) as looker,
            ):
                others = asyncio.get_running_loop().create_task(other.run(handle_quickly))
                await until(lambda: len(mine(other)) == 1 and not mine(consumer))
                await asyncio.sleep(1)
                await fill(world, names, 5, "more")
                (queue,) = await looker.queues("T")
                await until(lambda: other._member.receiver.flows[queue].window.committable == 10)
                await other.commit()
                assert await looker.committed(queue) == 10
                slow.set()
                await until(lambda: any(word == "is gone" for word, _ in diary.lines))
                assert await looker.committed(queue) == 10
                await asyncio.sleep(20)
                assert await looker.committed(queue) == 10
                for each in (consumer, other):
                    each.stop()
                await asyncio.gather(running, others)

    ask(scenario, brokers=1, queues=1, seeds=2)


def test_what_is_no_listener_is_refused() -> None:
    with pytest.raises(SettingsError, match="give an object whose class is made from RebalanceListener"):
        Consumer("127.0.0.1:9876", group="G", rebalance_listener=print)  # type: ignore[call-overload]
