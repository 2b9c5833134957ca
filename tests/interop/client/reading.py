"""Everything that a topic shows to consumers, as it comes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from firearrow.client import PullConsumer
from judges import fresh


class Reader:
    """The messages that were read, and their times."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.came_ms: list[int] = []

    async def run(self, consumer: PullConsumer) -> None:
        """Read until cancelled."""
        async for message in consumer:
            self.bodies.append(message.body)
            self.came_ms.append(int(time.time() * 1000))


@asynccontextmanager
async def reading(at: str, topic: str) -> AsyncIterator[Reader]:
    """Read a topic from its beginning while the block runs."""
    reader = Reader()
    async with PullConsumer(at, group=fresh("G"), start="first") as consumer:
        await consumer.assign(await consumer.queues(topic))
        task = asyncio.create_task(reader.run(consumer))
        try:
            yield reader
        finally:
            task.cancel()
            await asyncio.wait([task])
