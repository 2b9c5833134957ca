"""Cancelling ``run`` leaves no message in nobody's hands."""

import asyncio
from contextlib import suppress

import pytest

from firearrow.client import Consumer, PullConsumer, ReceivedMessage
from firearrow.client.consumer.queue.send_back import SendBack
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until
from tests.simulation.client.test_consumer import fill


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_cancellation_while_messages_are_sent_back_orphans_none(
    is_batch: bool, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_back = SendBack.send_back

    async def slowly(self: SendBack, message: ReceivedMessage, level: int) -> bool:
        await asyncio.sleep(1)
        return is_taken and await send_back(self, message, level)

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 5)
        seen: set[bytes] = set()

        async def fail(_given: object) -> None:
            raise ValueError("no")

        async def handle(message: ReceivedMessage) -> None:
            seen.add(message.body)

        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", start="first", doors=doors) as consumer:
            loop = asyncio.get_running_loop()
            with monkeypatch.context() as patch:
                patch.setattr(SendBack, "send_back", slowly)
                failing = consumer.run_batches(fail, size=5) if is_batch else consumer.run(fail, workers=5)
                running = loop.create_task(failing)
                await until(lambda: consumer.failures >= (1 if is_batch else 5))
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await asyncio.sleep(2)
            running = loop.create_task(consumer.run(handle))
            await until(lambda: len(seen) == 5, 60)
            await consumer.commit()
            async with PullConsumer(names, group="G", doors=doors_of(world.node("other"))) as other:
                (queue,) = await other.queues("T")
                assert await other.committed(queue) == 5
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1)


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("is_silent", [False, True])
def test_a_handler_that_swallows_its_cancellation_does_not_keep_run_going(is_batch: bool, is_silent: bool) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 5)
        begun = 0

        async def handle(_given: object) -> None:
            nonlocal begun
            begun += 1
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not is_silent:
                    raise ValueError("tidying up failed") from None

        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", start="first", doors=doors) as consumer:
            work = consumer.run_batches(handle, size=1, workers=2) if is_batch else consumer.run(handle, workers=2)
            running = asyncio.get_running_loop().create_task(work)
            await until(lambda: begun == 2)
            running.cancel()
            await asyncio.wait([running], timeout=10)
            assert running.cancelled()
            assert begun == 2

    ask(scenario, brokers=1, queues=1, seeds=1)


async def cancelled_inside() -> None:
    """Await what somebody else cancels."""
    inner = asyncio.get_running_loop().create_task(asyncio.sleep(3600))
    inner.cancel()
    await inner


@pytest.mark.parametrize("way", ["run", "run_batches", "process"])
def test_a_cancellation_inside_a_handler_fails_its_message_alone(way: str) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 5)
        handled: list[int] = []

        async def handle(message: ReceivedMessage) -> None:
            if message.reconsume_times == 0:
                await cancelled_inside()
            handled.append(message.reconsume_times)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # as timers of some libraries do, which never take it back
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

        async def handle_some(messages: list[ReceivedMessage]) -> None:
            for message in messages:
                await handle(message)

        async def iterate(consumer: Consumer) -> None:
            async for message in consumer:
                async with message.process():
                    await handle(message)

        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", start="first", doors=doors) as consumer:
            ways = {
                "run": lambda: consumer.run(handle, workers=2),
                "run_batches": lambda: consumer.run_batches(handle_some, size=1, workers=2),
                "process": lambda: iterate(consumer),
            }
            running = asyncio.get_running_loop().create_task(ways[way]())
            await until(lambda: len(handled) == 5 or running.done(), 120)
            assert not running.done()
            assert consumer.failures == 5
            assert handled == [1] * 5
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1, seeds=1)
