"""A client works in the event loop that opened it; in another one every call says so at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from firearrow.client import Consumer, Message, MessageQueue, Producer, PullConsumer, ReceivedMessage
from firearrow.errors import ClientClosed, SendFailed

NOBODY = "127.0.0.1:1"
HANG_S = 5.0

Loops = tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop]
Call = Callable[[Any], Awaitable[object]]


async def handle(_message: ReceivedMessage) -> None:
    """Nothing comes."""


def message() -> Message:
    return Message("orders", b"x")


PRODUCER_CALLS: dict[str, Call] = {
    "send": lambda producer: producer.send(message()),
    "send_value": lambda producer: producer.send_value("orders", b"x"),
    "send_batch": lambda producer: producer.send_batch([message(), message()]),
    "send_oneway": lambda producer: producer.send_oneway(message()),
    "queues": lambda producer: producer.queues("orders"),
    "transaction": lambda producer: producer.transaction(message()).__aenter__(),
    "close": lambda producer: producer.close(),
}
CONSUMER_CALLS: dict[str, Call] = {
    "run": lambda consumer: consumer.run(handle),
    "run_batches": lambda consumer: consumer.run_batches(handle),
    "iteration": anext,
    "subscribe": lambda consumer: consumer.subscribe("more"),
    "commit": lambda consumer: consumer.commit(),
    "close": lambda consumer: consumer.close(),
}
PULL_CALLS: dict[str, Call] = {
    "queues": lambda consumer: consumer.queues("orders"),
    "assign": lambda consumer: consumer.assign([MessageQueue("orders", "b", 0)]),
    "poll": lambda consumer: consumer.poll(),
    "iteration": anext,
    "bounds": lambda consumer: consumer.bounds("orders"),
    "close": lambda consumer: consumer.close(),
}


@pytest.fixture
def loops() -> Iterator[Loops]:
    one, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    yield one, other
    one.close()
    other.close()


def refused(client: Any, call: Call, loops: Loops, what: str) -> None:
    one, other = loops

    async def elsewhere() -> None:
        async with asyncio.timeout(HANG_S):
            await call(client)

    one.run_until_complete(client.open())
    try:
        with pytest.raises(ClientClosed, match=f"the {what} was opened in another event loop"):
            other.run_until_complete(elsewhere())
    finally:
        one.run_until_complete(client.close())


@pytest.mark.parametrize("linger_ms", [0, 20])
@pytest.mark.parametrize("call", PRODUCER_CALLS)
def test_a_producer_of_another_loop_says_so(call: str, linger_ms: int, loops: Loops) -> None:
    refused(Producer(NOBODY, group="g", linger_ms=linger_ms), PRODUCER_CALLS[call], loops, "producer")


@pytest.mark.parametrize("call", CONSUMER_CALLS)
def test_a_consumer_of_another_loop_says_so(call: str, loops: Loops) -> None:
    refused(Consumer(NOBODY, group="g", topics="orders"), CONSUMER_CALLS[call], loops, "consumer")


@pytest.mark.parametrize("call", PULL_CALLS)
def test_a_pull_consumer_of_another_loop_says_so(call: str, loops: Loops) -> None:
    refused(PullConsumer(NOBODY, group="g"), PULL_CALLS[call], loops, "consumer")


def test_what_changes_nothing_can_be_read_in_any_loop(loops: Loops) -> None:
    one, other = loops
    consumer = Consumer(NOBODY, group="g", topics="orders")
    one.run_until_complete(consumer.open())

    async def look() -> tuple[str, int]:
        return consumer.client_id, consumer.failures

    assert other.run_until_complete(look()) == (consumer.client_id, 0)
    one.run_until_complete(consumer.close())


def test_a_client_can_be_opened_again_in_another_loop() -> None:
    async def one_send_waits(producer: Producer) -> None:
        async with producer:
            both = await asyncio.gather(*(producer.send(message()) for _ in range(2)), return_exceptions=True)
            assert {type(each) for each in both} == {SendFailed}

    producer = Producer(NOBODY, max_sends=1, send_timeout_ms=50)
    for _ in range(2):
        asyncio.run(one_send_waits(producer))
