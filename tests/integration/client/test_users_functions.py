"""What users give to consumers does what they meant, or they hear of it: whatever it returns and however it ends."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest

from firearrow import blocking
from firearrow.client import Consumer
from firearrow.testing import blocking as testing_blocking

pytestmark = pytest.mark.real

COUNT = 5
WAIT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[testing_blocking.Cluster]:
    """One for the tests of this module, each with a topic of its own."""
    with testing_blocking.Cluster() as ours:
        yield ours


def filled(cluster: testing_blocking.Cluster, topic: str) -> str:
    cluster.create_topic(topic, queues=1)
    with blocking.Producer(cluster.address) as producer:
        for number in range(COUNT):
            producer.send(blocking.Message(topic, b"%d" % number))
    return topic


def decorated(handler: Callable[[Any], object]) -> Callable[[Any], object]:
    @wraps(handler)
    def call(message: Any) -> object:
        return handler(message)

    return call


@pytest.mark.parametrize("way", ["lambda", "decorator"])
def test_a_plain_function_around_a_coroutine_function_is_run_to_its_end(
    cluster: testing_blocking.Cluster, way: str
) -> None:
    topic = filled(cluster, f"around-{way}")

    async def story() -> list[bytes]:
        seen: list[bytes] = []
        async with Consumer(cluster.address, group=topic, topics=topic, start="first") as consumer:

            async def handle(message: Any) -> None:
                await asyncio.sleep(0)
                seen.append(message.body)
                if len(seen) == COUNT:
                    consumer.stop()

            async with asyncio.timeout(WAIT_S):
                await consumer.run((lambda message: handle(message)) if way == "lambda" else decorated(handle))
        return seen

    assert len(asyncio.run(story())) == COUNT


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_coroutine_function_is_run_by_the_blocking_consumer(
    cluster: testing_blocking.Cluster, is_batch: bool
) -> None:
    topic = filled(cluster, f"blocking-{is_batch}")
    seen: list[bytes] = []
    is_done = threading.Event()

    async def handle(given: Any) -> None:
        await asyncio.sleep(0)
        seen.extend(each.body for each in (given if is_batch else [given]))
        if len(seen) == COUNT:
            is_done.set()

    with blocking.Consumer(cluster.address, group=topic, topics=topic, start="first") as consumer:
        run = consumer.run_batches if is_batch else consumer.run
        running = threading.Thread(target=run, args=(handle,), daemon=True)
        running.start()
        assert is_done.wait(WAIT_S)
        consumer.stop()
        running.join(WAIT_S)
    assert sorted(seen) == [b"%d" % number for number in range(COUNT)]


def test_a_handler_with_a_yield_is_told_and_its_message_is_not_acknowledged(
    cluster: testing_blocking.Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = filled(cluster, "yields")

    async def story() -> int:
        async with Consumer(cluster.address, group=topic, topics=topic, start="first") as consumer:

            def handle(message: Any) -> Iterator[None]:
                yield message.body

            running = asyncio.create_task(consumer.run(handle))
            async with asyncio.timeout(WAIT_S):
                while consumer.failures < COUNT:  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.02)
            consumer.stop()
            await running
            return consumer.failures

    assert asyncio.run(story()) == COUNT
    assert "has a yield, so nothing of it has run" in caplog.text
