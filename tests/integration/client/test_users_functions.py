"""Users' functions do what users meant, or users hear of it: whatever it returns and however it ends."""

import asyncio
import subprocess
import sys
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
    assert "is a generator, so its code has not run" in caplog.text


BEGINNING = "import asyncio, os, signal, sys, threading; from firearrow.blocking import *; at, topic = sys.argv[1:]"
EXIT_STATUS = 3
ENDINGS = {
    "sys.exit in a handler": """
with Consumer(at, group=topic, topics=topic, start="first") as consumer:
    consumer.run(lambda message: sys.exit(3))
""",
    "sys.exit in a handler of batches": """
with Consumer(at, group=topic, topics=topic, start="first") as consumer:
    consumer.run_batches(lambda messages: sys.exit(3))
""",
    "sys.exit while messages are iterated": """
with Consumer(at, group=topic, topics=topic, start="first") as consumer:
    for message in consumer:
        with message.process():
            sys.exit(3)
""",
    "an interrupt in a handler": """
def handle(message):
    raise KeyboardInterrupt
try:
    with Consumer(at, group=topic, topics=topic, start="first") as consumer:
        consumer.run(handle)
except KeyboardInterrupt:
    sys.exit(3)
""",
    "sys.exit in a listener": """
class Listener(RebalanceListener):
    def on_assigned(self, queues):
        sys.exit(4)
with Consumer(at, group=topic, topics=topic, start="first", rebalance_listener=Listener()) as consumer:
    next(consumer).ack()
sys.exit(3)
""",
    "sys.exit in accept, iterated": """
def accept(message):
    sys.exit(3)
with Consumer(at, group=topic, topics=topic, start="first", accept=accept) as consumer:
    next(consumer).ack()
""",
    "sys.exit in accept, with a handler": """
def accept(message):
    sys.exit(3)
with Consumer(at, group=topic, topics=topic, start="first", accept=accept) as consumer:
    consumer.run(print)
""",
    "close in a handler": """
said = []
consumer = Consumer(at, group=topic, topics=topic, start="first")
consumer.open()
def handle(message):
    try:
        consumer.close()
    except Exception as error:
        said.append(str(error))
        consumer.stop()
consumer.run(handle)
consumer.close()
assert "call stop there" in said[0], said
sys.exit(3)
""",
    "close in a coroutine and in accept": """
said = []
consumer = None
def accept(message):
    try:
        consumer.close()
    except Exception as error:
        said.append(str(error))
    return True
async def handle(message):
    accept(message)
    consumer.stop()
consumer = Consumer(at, group=topic, topics=topic, start="first", accept=accept)
consumer.open()
consumer.run(handle)
consumer.close()
assert all("call stop there" in each for each in said) and len(said) > 1, said
sys.exit(3)
""",
    "an iterator that is empty": """
with Consumer(at, group=topic, topics=topic, start="first", workers=1) as consumer:
    def handle(message):
        if consumer.failures:
            consumer.stop()
        else:
            next(iter(()))
    consumer.run(handle)
    assert consumer.failures == 1
sys.exit(3)
""",
    "close in another thread": """
consumer = Consumer(at, group=topic, topics=topic, start="first")
consumer.open()
taken = threading.Event()
threading.Thread(target=lambda: (taken.wait(), consumer.close())).start()
consumer.run(lambda message: taken.set())
sys.exit(3)
""",
    "close in another thread while messages are iterated": """
consumer = Consumer(at, group=topic, topics=topic, start="first")
consumer.open()
taken = threading.Event()
threading.Thread(target=lambda: (taken.wait(), consumer.close())).start()
try:
    for message in consumer:
        taken.set()
except Exception as error:  # the consumer was closed before this asked for another message
    assert type(error).__name__ == "ClientClosed", repr(error)
sys.exit(3)
""",
    "close at a signal": """
consumer = Consumer(at, group=topic, topics=topic, start="first")
consumer.open()
signal.signal(signal.SIGTERM, lambda *_: consumer.close())
is_sent = threading.Event()
def handle(message):
    if not is_sent.is_set():
        is_sent.set()
        os.kill(os.getpid(), signal.SIGTERM)
consumer.run(handle)
sys.exit(3)
""",
    "a producer closed in another thread": """
producer = Producer("127.0.0.1:1", send_timeout_ms=60_000)
producer.open()
threading.Timer(0.5, producer.close).start()
try:
    producer.send(Message(topic, b"x"))
except Exception as error:
    assert type(error).__name__ == "ClientClosed", repr(error)
    sys.exit(3)
""",
    "a pull that waits when the consumer is closed": """
consumer = PullConsumer(at, group=topic)
consumer.open()
queue = consumer.queues(topic)[0]
threading.Timer(0.5, consumer.close).start()
try:
    consumer.pull_bytes(queue, 5, wait_ms=15_000)
except Exception as error:
    assert type(error).__name__ == "ClientClosed", repr(error)
    sys.exit(3)
""",
    "a message settled in another loop": """
import firearrow
said = []
async def main():
    async with firearrow.Consumer(at, group=topic, topics=topic, start="first", workers=1) as consumer:
        def handle(message):
            try:
                asyncio.run(message.retry(1))
            except Exception as error:
                said.append(str(error))
            consumer._member.parts[0].loop.call_soon_threadsafe(consumer.stop)
        await consumer.run(handle)
        assert consumer.failures == 0, consumer.failures
asyncio.run(main())
assert "opened in another event loop" in said[0], said
sys.exit(3)
""",
    "a listener that never returns": """
class Listener(RebalanceListener):
    def on_assigned(self, queues):
        threading.Event().wait()
    on_revoked = on_assigned
with Consumer(
    at, group=topic, topics=topic, start="first", rebalance_listener=Listener(), rebalance_timeout_ms=300
) as consumer:
    next(consumer).ack()
sys.exit(3)
""",
}


@pytest.mark.parametrize("way", ENDINGS)
def test_a_program_ends_however_users_functions_end(cluster: testing_blocking.Cluster, way: str) -> None:
    topic = filled(cluster, "".join(letter if letter.isalnum() else "-" for letter in way))
    ran = subprocess.run(
        [sys.executable, "-c", BEGINNING + ENDINGS[way], cluster.address, topic],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert ran.returncode == EXIT_STATUS, ran.stderr
