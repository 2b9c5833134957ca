"""Our client in the role of a judge: the same reports as the stock clients give, so the same checks apply."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from firearrow import blocking
from firearrow.client import Consumer, Message, Producer, ReceivedMessage
from judges import Delivery, Payload, ReceiveReport, SendReport, fresh

PATIENCE_S = 40.0


def bodies(payload: Payload, count: int, topic: str, tags: Sequence[str] = (), **more: Any) -> list[Message]:
    """The messages that a judge would send."""
    return [
        Message.of(topic, payload.body(i), tag=tags[i % len(tags)] if tags else "", keys=[payload.key(i)], **more)
        for i in range(count)
    ]


def report(payload: Payload, count: int, tags: Sequence[str] = ()) -> SendReport:
    """The report that a judge would give had it sent them."""
    return SendReport(
        payload=payload,
        indexes=tuple(range(count)),
        failed=(),
        statuses={"SEND_OK": count},
        queues={},
        errors=(),
        tags=tuple(tags),
        elapsed_ms=0,
    )


def delivery(message: ReceivedMessage | blocking.ReceivedMessage, *, failed: bool = False) -> Delivery:
    """One message as a judge would report it."""
    return Delivery(
        digest=hashlib.sha256(message.body).hexdigest(),
        size=len(message.body),
        queue=message.queue.queue_id,
        offset=message.queue_offset,
        times=message.reconsume_times,
        born_ms=message.born_timestamp,
        stored_ms=message.store_timestamp,
        seen_ms=int(time.time() * 1000),
        failed=failed,
        broker=message.queue.broker_name,
        tag=message.tag,
        keys=" ".join(message.keys),
    )


class Collector:
    """A handler that remembers what it saw, and may refuse the first deliveries of each message."""

    def __init__(self, failures: int = 0) -> None:
        self.deliveries: list[Delivery] = []
        self._failures = failures

    async def __call__(self, message: ReceivedMessage) -> None:
        failed = message.reconsume_times < self._failures
        self.deliveries.append(delivery(message, failed=failed))
        if failed:
            raise ValueError("refused on purpose")

    @property
    def accepted(self) -> int:
        return sum(not each.failed for each in self.deliveries)

    def report(self) -> ReceiveReport:
        return ReceiveReport(tuple(self.deliveries))


async def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition."""
    try:
        async with asyncio.timeout(patience_s):
            while not condition():  # noqa: ASYNC110 - the condition is another process's
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what} has not come within {patience_s} s") from None


async def receive(
    name_server: str, topic: str, count: int, *, expression: str = "*", failures: int = 0, **options: Any
) -> ReceiveReport:
    """Consume with a consumer of ours until ``count`` messages were accepted."""
    collector = Collector(failures)
    group = options.pop("group", None) or fresh("G")
    options.setdefault("start", "first")
    async with Consumer(name_server, group=group, topics={topic: expression}, **options) as consumer:
        running = asyncio.create_task(consumer.run(collector))
        await until(lambda: collector.accepted >= count, f"{count} messages ({collector.accepted} came)")
        await asyncio.sleep(0.1)
        consumer.stop()
        await running
    return collector.report()


async def send(name_server: str, messages: Sequence[Message]) -> None:
    """Send all at once."""
    async with Producer(name_server, group=fresh("P")) as producer:
        results = await asyncio.gather(*(producer.send(message) for message in messages))
    statuses = Counter(result.status.value for result in results)
    assert statuses == {"SEND_OK": len(messages)}
    assert len({result.message_id for result in results}) == len(messages)
