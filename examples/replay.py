"""Read a topic again from a time, in order of its storing, without a group that moves."""

import asyncio
import os

from firearrow import Message, Producer, PullConsumer

ADDRESS = os.environ.get("FIREARROW_NAMESRV", "127.0.0.1:9876")


async def main() -> None:
    """Send some, remember a moment, send more, and read from that moment on."""
    async with Producer(ADDRESS, group="example") as producer:
        await producer.send_batch(Message.of("log", b"before %d" % number) for number in range(5))
        await asyncio.sleep(0.05)
        (first, *_) = await producer.send_batch(Message.of("log", b"after %d" % number) for number in range(5))
    async with PullConsumer(ADDRESS, group="example-replay", auto_commit=False) as consumer:
        pulled = await consumer.pull_bytes(first.queue, first.queue_offset, max_messages=1)
        moment_ms = pulled.messages()[0].store_timestamp
        queues = await consumer.queues("log")
        await consumer.assign(queues)
        await consumer.seek_to_time(moment_ms)
        ends = await consumer.bounds("log")
        found: list[str] = []
        while any((consumer.position(queue) or 0) < ends[queue].end for queue in queues):
            batch = await consumer.poll(timeout_ms=500)
            found += [message.body.decode() for message in batch if message.store_timestamp >= moment_ms]
    print("again:", ", ".join(sorted(found)))


asyncio.run(main())
