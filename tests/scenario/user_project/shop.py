"""A project of a user, written against the package: every public shape once, and nothing private.

It is run by its own tests and held to ``mypy --strict`` against the installed wheel.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Self

from firearrow import Consumer, Message, Producer, PullConsumer, blocking
from firearrow.admin import Admin, GroupDescription, TopicDescription
from firearrow.client import Bounds, MessageQueue, ReceivedMessage, SendResult, SendStatus, Stall
from firearrow.errors import FireArrowError, NoRoute, SendFailed


@dataclass(frozen=True)
class Order:
    """An order of the shop."""

    number: str
    text: str
    table: str = ""

    def message(self, topic: str) -> Message:
        """The order as it travels."""
        return Message.of(
            topic, self.text.encode(), tag="new", keys=[self.number], sharding_key=self.table, properties={"shop": "7"}
        )


class Shop:
    """Takes orders."""

    def __init__(self, address: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(address, group="shop", send_timeout_ms=5000, retries=3, linger_ms=1)

    async def __aenter__(self) -> Self:
        await self._producer.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.close()

    async def order(self, order: Order) -> str:
        """Place one order; return its id."""
        try:
            result: SendResult = await self._producer.send(order.message(self._topic))
        except SendFailed as error:
            if error.retryable and not error.may_have_happened:
                return await self.order(order)
            raise
        assert result.is_ok is (result.status is SendStatus.OK)
        return result.message_id

    async def order_many(self, orders: Sequence[Order]) -> list[SendResult]:
        """Place many at once, all in one queue."""

        def first(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
            return queues[0]

        return await self._producer.send_batch((each.message(self._topic) for each in orders), selector=first)

    async def whisper(self, order: Order) -> None:
        """Place an order that may be lost."""
        (queue, *_) = await self._producer.queues(self._topic)
        await self._producer.send_oneway(order.message(self._topic), queue=queue)


@dataclass
class Kitchen:
    """Works on orders."""

    served: list[str] = field(default_factory=list)

    async def serve(self, message: ReceivedMessage) -> None:
        """Handle one."""
        self.served.append(f"{message.keys[0]}: {message.body.decode()} ({message.properties['shop']})")

    async def work(self, address: str, topic: str, count: int) -> list[Stall]:
        """Handle ``count`` orders by a handler."""
        async with Consumer(
            address, group="kitchen", topics={topic: "new || changed"}, start="first", workers=8, persist_ms=50
        ) as consumer:

            async def handle(message: ReceivedMessage) -> None:
                await self.serve(message)
                if len(self.served) == count:
                    consumer.stop()

            await consumer.run(handle)
            return consumer.stalls()


async def names(address: str, topic: str, group: str) -> AsyncGenerator[str, None]:
    """Order numbers, one after the other."""
    async with Consumer(address, group=group, topics=[topic], start="first") as consumer:
        async for message in consumer:
            async with message.process():
                yield message.keys[0]


async def history(address: str, topic: str) -> list[bytes]:
    """Everything that is there, read by a pull consumer."""
    async with PullConsumer(address, group="report", auto_commit=False) as consumer:
        bounds: dict[MessageQueue, Bounds] = await consumer.bounds(topic)
        await consumer.assign(await consumer.queues(topic))
        await consumer.seek_to_begin()
        bodies: list[bytes] = []
        while len(bodies) < sum(each.end - each.first for each in bounds.values()):
            bodies += [message.body for message in await consumer.poll(timeout_ms=1000)]
        return bodies


async def look(address: str, topic: str, group: str) -> tuple[TopicDescription, GroupDescription]:
    """Print the view of an administrator."""
    async with Admin(address) as admin:
        return await admin.topics.describe(topic), await admin.groups.describe(group)


def count_without_asyncio(address: str, topic: str, count: int) -> int:
    """The same without ``await``."""
    seen: list[blocking.ReceivedMessage] = []
    with blocking.Consumer(address, group="counter", topics=topic, start="first") as consumer:
        for message in consumer:
            with message.process():
                seen.append(message)
            if len(seen) == count:
                break
    return len(seen)


async def is_reachable(address: str, topic: str) -> bool:
    """Whether anybody would take an order."""
    try:
        async with asyncio.timeout(5), Producer(address, group="probe") as producer:
            return bool(await producer.queues(topic))
    except NoRoute:
        return False
    except FireArrowError as error:
        return error.retryable
