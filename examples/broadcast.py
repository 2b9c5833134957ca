"""Broadcasting: every member gets every message, as for a cache that all processes must drop."""

import asyncio
import os

from firearrow import Consumer, Message, Producer
from firearrow.client import ReceivedMessage

ADDRESS = os.environ.get("FIREARROW_NAMESRV", "127.0.0.1:9876")
MEMBERS = ("first", "second", "third")


async def member(name: str, heard: list[str], is_ready: asyncio.Event) -> None:
    """One process; its name keeps its place in a local file from one start to the next."""
    async with Consumer(
        ADDRESS, group="example-caches", topics="drops", start="first", broadcasting=True, instance_name=name
    ) as consumer:

        async def handle(message: ReceivedMessage) -> None:
            heard.append(f"{name} drops {message.body.decode()}")
            consumer.stop()

        is_ready.set()
        await consumer.run(handle)


async def main() -> None:
    """Tell three members at once."""
    heard: list[str] = []
    ready = [asyncio.Event() for _ in MEMBERS]
    async with Producer(ADDRESS, group="example") as producer, asyncio.TaskGroup() as tasks:
        for name, is_ready in zip(MEMBERS, ready, strict=True):
            tasks.create_task(member(name, heard, is_ready))
        await asyncio.gather(*(each.wait() for each in ready))
        await producer.send(Message.of("drops", b"price-list"))
    print("\n".join(sorted(heard)))


asyncio.run(main())
