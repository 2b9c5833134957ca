"""Load for ``firearrow bench``: sends, reads, and messages that are timed from their send to their arrival."""

import asyncio
import struct
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from firearrow.client import Message, MessageQueue, Producer, PullConsumer
from firearrow.errors import NoSuchName

MOST_MESSAGES: Final = 1024
MOST_BYTES: Final = 1 << 20
"""The limits of a pull; Apache's brokers return 32 messages or 256 KiB."""
WAIT_MS: Final = 1_000
MB: Final = 1e6

_stamp: Final = struct.Struct(">16sd")
STAMP_BYTES: Final = _stamp.size
"""A message of the bench of latencies begins with the mark of its run and the time of its send."""


class Figures(Struct, frozen=True, rename="camel"):
    """The results of a bench. The waits are those of requests, or of messages from send to arrival."""

    messages: int
    seconds: float
    messages_per_second: float
    megabytes_per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float


def figures(messages: int, size: int, seconds: float, waits_s: Sequence[float]) -> Figures:
    """Return the figures of a run that moved so many bytes."""
    taken = max(seconds, 1e-9)
    sorted_s = sorted(waits_s) or [0.0]

    def at(part: float) -> float:
        return round(sorted_s[min(int(part * len(sorted_s)), len(sorted_s) - 1)] * 1000, 3)

    return Figures(
        messages, round(seconds, 3), round(messages / taken, 1), round(size / taken / MB, 3), at(0.5), at(0.99), at(1.0)
    )


class Load(Struct, frozen=True):
    """The load to send: number and size of messages, messages in a request, requests at once."""

    topic: str
    count: int
    size: int
    batch: int = 1
    in_flight: int = 64


async def sent(producer: Producer[bytes], load: Load) -> Figures:
    """Send messages as fast as brokers take them; return the figures, with the waits of requests."""
    loop = asyncio.get_running_loop()
    body, left, waits = b"x" * load.size, load.count, list[float]()

    async def work() -> None:
        nonlocal left
        while left > 0:
            number = min(load.batch, left)
            left -= number
            began = loop.time()
            if number == 1:
                await producer.send(Message(load.topic, body))
            else:
                await producer.send_batch([Message(load.topic, body) for _ in range(number)])
            waits.append(loop.time() - began)

    began = loop.time()
    async with asyncio.TaskGroup() as group:
        for _ in range(load.in_flight):
            group.create_task(work())
    return figures(load.count, load.count * load.size, loop.time() - began, waits)


async def read(consumer: PullConsumer[bytes], topic: str, count: int) -> Figures:
    """Read stored messages of all queues at once, from the first on; return the figures, with the waits of pulls."""
    loop = asyncio.get_running_loop()
    bounds = await consumer.bounds(topic)
    found, size, waits = 0, 0, list[float]()

    async def work(queue: MessageQueue, offset: int, end: int) -> None:
        nonlocal found, size
        while offset < end and found < count:
            began = loop.time()
            pulled = await consumer.pull_bytes(queue, offset, max_messages=MOST_MESSAGES, max_bytes=MOST_BYTES)
            waits.append(loop.time() - began)
            messages = pulled.messages()
            found += len(messages)
            size += sum(len(message.body) for message in messages)
            if pulled.next_offset <= offset:
                return
            offset = pulled.next_offset

    began = loop.time()
    async with asyncio.TaskGroup() as group:
        for queue, each in bounds.items():
            group.create_task(work(queue, each.first, each.end))
    if not found:
        raise NoSuchName(f"topic {topic!r} holds no messages to read; firearrow bench produce {topic} sends some")
    return figures(found, size, loop.time() - began, waits)


async def travelled(
    producer: Producer[bytes], consumer: PullConsumer[bytes], load: Load, *, rate: float, mark: bytes, patience_s: float
) -> Figures:
    """Send messages at a rate and wait for them at the other end; return the figures, with waits from end to end."""
    loop = asyncio.get_running_loop()
    bounds = await consumer.bounds(load.topic)
    waits, all_came = list[float](), asyncio.Event()

    async def follow(queue: MessageQueue, offset: int) -> None:
        while True:
            pulled = await consumer.pull_bytes(queue, offset, wait_ms=WAIT_MS)
            now = loop.time()
            bodies = [message.body for message in pulled.messages() if message.body.startswith(mark)]
            waits.extend(now - _stamp.unpack_from(body)[1] for body in bodies)
            offset = pulled.next_offset
            if len(waits) >= load.count:
                all_came.set()

    async def send(number: int) -> None:
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        body = _stamp.pack(mark, loop.time()).ljust(load.size, b"x")
        await producer.send(Message(load.topic, body))

    followers = [asyncio.create_task(follow(queue, each.end)) for queue, each in bounds.items()]
    began = loop.time()
    try:
        for number in range(load.count):
            await send(number)
        try:
            async with asyncio.timeout(patience_s):
                await all_came.wait()
        except TimeoutError:
            raise NoSuchName(
                f"{len(waits)} of {load.count} messages came within {patience_s:.0f} s; look for queues without a "
                f"master with firearrow topic route {load.topic}"
            ) from None
    finally:
        for task in followers:
            task.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
    return figures(load.count, load.count * max(load.size, STAMP_BYTES), loop.time() - began, waits)
