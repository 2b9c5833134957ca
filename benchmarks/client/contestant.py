"""One client at work: ``python -m benchmarks.client.contestant WHO ROW NAME_SERVER TOPIC BYTES IN_FLIGHT BATCH``.

Prints how many messages were acknowledged or received so far, a line every 100 ms, until it is killed. Each client is
used as its own documentation says; nothing is tuned on one side that could be tuned on the other.
"""

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

done = 0
ROW, NAMES, TOPIC = "", "", ""
BODY = b""
IN_FLIGHT = BATCH = 1
TICK_S = 0.1
THREADS = 32


def count(number: int = 1) -> None:
    """Note progress."""
    global done
    done += number


def tell() -> None:
    """Print it for ever."""
    while True:
        print(done, flush=True)
        time.sleep(TICK_S)


# -- ours


async def ours() -> None:
    """Our client, on whichever loop runs."""
    from firearrow.client import Consumer, Message, Producer, ReceivedMessage

    if ROW == "receive":
        async with Consumer(NAMES, group=f"bench-{time.time_ns()}", topics=TOPIC, start="first") as consumer:

            async def handle(_message: ReceivedMessage) -> None:
                count()

            await consumer.run(handle)
        return
    async with Producer(NAMES, group="bench", linger_ms=1 if ROW == "linger" else 0) as producer:

        async def one() -> None:
            while True:
                await producer.send(Message.of(TOPIC, BODY))
                count()

        async def many() -> None:
            while True:
                await producer.send_batch([Message.of(TOPIC, BODY) for _ in range(BATCH)])
                count(BATCH)

        tasks = {"one": [one], "async": [one] * IN_FLIGHT, "linger": [one] * 1000, "batch": [many] * 4}[ROW]
        await asyncio.gather(*(task() for task in tasks))


def ours_blocking() -> None:
    """The twin without await."""
    from firearrow.blocking import Consumer, Message, Producer, ReceivedMessage

    if ROW == "receive":
        with Consumer(NAMES, group=f"bench-{time.time_ns()}", topics=TOPIC, start="first") as consumer:

            def handle(_message: ReceivedMessage) -> None:
                count()

            consumer.run(handle)
        return
    with Producer(NAMES, group="bench") as producer:
        while ROW == "one":
            producer.send(Message.of(TOPIC, BODY))
            count()
        while ROW == "batch":
            producer.send_batch([Message.of(TOPIC, BODY) for _ in range(BATCH)])
            count(BATCH)


# -- the wheel with the C++ library


def wheel(*, by_threads: bool = False) -> None:
    """PyPI's ``rocketmq``: its own asynchronous send, or threads that send one by one, which is faster."""
    from rocketmq.client import Message, Producer, PushConsumer  # type: ignore[import-not-found]

    if ROW == "receive":
        consumer = PushConsumer(f"bench-{time.time_ns()}")
        consumer.set_namesrv_addr(NAMES)
        consumer.subscribe(TOPIC, lambda _message: count())
        consumer.start()
        threading.Event().wait()
    producer = Producer("bench")
    producer.set_namesrv_addr(NAMES)
    producer.start()

    def message() -> Any:
        made = Message(TOPIC)
        made.set_body(BODY)
        return made

    def one_by_one() -> None:
        while True:
            producer.send_sync(message())
            count()

    if ROW == "one":
        one_by_one()
    if by_threads:
        for _ in range(THREADS):
            threading.Thread(target=one_by_one, daemon=True).start()
        threading.Event().wait()
    room = threading.Semaphore(IN_FLIGHT)

    def sent(_result: object) -> None:
        count()
        room.release()

    while True:
        room.acquire()
        producer.send_async(message(), sent, lambda _error: room.release())


# -- the client over gRPC


def grpc() -> None:
    """PyPI's ``rocketmq-python-client``; NAME_SERVER is a proxy."""
    from rocketmq import (  # type: ignore[import-not-found]
        ClientConfiguration,
        ConsumeResult,
        Credentials,
        FilterExpression,
        Message,
        MessageListener,
        Producer,
        PushConsumer,
    )

    configuration = ClientConfiguration(NAMES, Credentials())
    if ROW == "receive":

        class Listener(MessageListener):  # type: ignore[misc]
            def consume(self, _message: object) -> object:
                count()
                return ConsumeResult.SUCCESS

        consumer = PushConsumer(configuration, "bench-grpc", Listener(), {TOPIC: FilterExpression("*")})
        consumer.startup()
        threading.Event().wait()
    producer = Producer(configuration, (TOPIC,))
    producer.startup()

    def message() -> Any:
        made = Message()
        made.topic, made.body = TOPIC, BODY
        return made

    if ROW == "one":
        while True:
            producer.send(message())
            count()
    room = threading.Semaphore(IN_FLIGHT)

    def sent(future: Any) -> None:
        room.release()
        if future.exception() is None:
            count()

    while True:
        room.acquire()
        producer.send_async(message()).add_done_callback(sent)


def _on(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner, contextlib.suppress(KeyboardInterrupt):
        runner.run(ours())


def _on_uvloop() -> None:
    import uvloop

    _on(uvloop.new_event_loop)


WHO: dict[str, Callable[[], None]] = {
    "ours": lambda: _on(asyncio.new_event_loop),
    "ours-uvloop": _on_uvloop,
    "ours-blocking": ours_blocking,
    "wheel": wheel,
    "wheel-threads": lambda: wheel(by_threads=True),
    "grpc": grpc,
}


def main() -> None:
    """Read the words and begin."""
    global ROW, NAMES, TOPIC, BODY, IN_FLIGHT, BATCH
    who, ROW, NAMES, TOPIC = sys.argv[1:5]
    BODY, IN_FLIGHT, BATCH = b"x" * int(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7])
    threading.Thread(target=tell, daemon=True).start()
    WHO[who]()


if __name__ == "__main__":
    main()
