"""Messages that are delivered later: level 1 is one second, unless the broker's levels are set otherwise."""

import asyncio
import os

from firearrow import Consumer, Message, Producer
from firearrow.client import ReceivedMessage

ADDRESS = os.environ.get("FIREARROW_NAMESRV", "127.0.0.1:9876")


async def main() -> None:
    """Send two messages, the first of them delayed, and see the second before it."""
    come: list[tuple[int, str]] = []
    async with (
        Producer(ADDRESS, group="example") as producer,
        Consumer(ADDRESS, group="example-delayed", topics="delayed", start="first") as consumer,
    ):

        async def handle(message: ReceivedMessage) -> None:
            waited_ms = message.store_timestamp - message.born_timestamp
            print(f"{message.body.decode()} was stored for delivery {waited_ms} ms after it was made")
            come.append((message.store_timestamp, message.body.decode()))
            if len(come) == 2:
                consumer.stop()

        await producer.send(Message.of("delayed", b"the later one", delay_level=1))
        await producer.send(Message.of("delayed", b"the one at once"))
        await consumer.run(handle)
    print("in order:", ", ".join(text for _, text in sorted(come)))


asyncio.run(main())
