"""Dead letters, the messages that a group gave up: look at them, mend them, send them again."""

import asyncio
import logging
import os

from firearrow import Consumer, Message, Producer, PullConsumer
from firearrow.client import ReceivedMessage

ADDRESS = os.environ.get("FIREARROW_NAMESRV", "127.0.0.1:9876")
GROUP = "example-parser"

logging.getLogger("firearrow").setLevel(logging.CRITICAL)  # failures are the point here


async def parse(numbers: list[int], count: int) -> None:
    """Handle ``count`` messages; what is no number goes to the dead letters at once, not after sixteen attempts."""
    left = count
    async with Consumer(ADDRESS, group=GROUP, topics="numbers", start="first") as consumer:

        async def handle(message: ReceivedMessage) -> None:
            nonlocal left
            try:
                numbers.append(int(message.body))
            except ValueError:
                await message.retry(delay_level=-1)  # trying again cannot help
            left -= 1
            if left == 0:
                consumer.stop()

        await consumer.run(handle)


async def dead_letters() -> list[ReceivedMessage]:
    """Everything that the group gave up, as soon as there is something."""
    async with PullConsumer(ADDRESS, group="example-undertaker", topics=f"%DLQ%{GROUP}", start="first") as consumer:
        while not (found := await consumer.poll()):
            pass
        return found


async def main() -> None:
    """Send three messages, one of them broken; mend it."""
    numbers: list[int] = []
    async with Producer(ADDRESS, group="example") as producer:
        for body in (b"1", b"two", b"3"):
            await producer.send(Message.of("numbers", body))
        await parse(numbers, 3)
        for dead in await dead_letters():
            print("given up:", dead.body.decode())
            await producer.send(Message.of("numbers", b"2"))
        await parse(numbers, 1)
    print("parsed:", sorted(numbers))


asyncio.run(main())
