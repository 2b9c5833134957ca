"""Sends the messages of rows, in order within a queue, and retries refused requests.

A queue has one request in flight at a time; many queues are written at once. A request that is refused for now is
retried until a deadline, with the same unique keys. After the deadline the error is raised, and the task fails.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from firearrow.client import MessageQueue
from firearrow.client.producer.encoded import BatchProducer, DrawnKeys, EncodedBatch
from firearrow.errors import SendFailed
from firearrow.model.numbers import INT_MAX
from firearrow.spark.reach import client_tls
from firearrow.spark.sink.lanes import Queues
from firearrow.spark.sink.shipments import Parcel, QueueLane
from firearrow.spark.sink.sink_options import SinkOptions

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 3.0


class Sender:
    """The producer of one task. Use it on the loop that opened it, except ``most_bytes``."""

    def __init__(self, options: SinkOptions, queues: Queues) -> None:
        self.requests = 0
        self._options = options
        self._queues = dict(queues)
        self._producer = producer_for(options)
        self._due = 0.0

    @property
    def most_bytes(self) -> int:
        """The largest batch in bytes."""
        return min(self._options.batch_bytes, self._producer.settings.max_message_bytes)

    async def open(self) -> None:
        """Open the producer."""
        await self._producer.open()

    async def close(self) -> None:
        """Close the producer."""
        await self._producer.close()

    async def begin(self, topics: Sequence[str], count: int) -> tuple[Queues, DrawnKeys]:
        """Return the queues of the topics of some rows, and a unique key for each row."""
        for topic in topics:
            if topic not in self._queues:
                self._queues[topic] = await self._producer.queues(topic)
        return {topic: self._queues[topic] for topic in topics}, self._producer.draw_keys(count)

    async def send(self, lanes: Sequence[QueueLane]) -> None:
        """Send parcels; return when brokers have acknowledged all of them."""
        await self._hold_back(sum(parcel.rows for lane in lanes for parcel in lane.parcels))
        await _all(self._send_lane(lane) for lane in lanes)

    async def _hold_back(self, count: int) -> None:
        if self._options.rate_limit:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, self._due - now))
            self._due = max(self._due, now) + count / self._options.rate_limit

    async def _send_lane(self, lane: QueueLane) -> None:
        for parcel in lane.parcels:
            await self._send_parcel(parcel, lane.queue)

    async def _send_parcel(self, parcel: Parcel, queue: MessageQueue) -> None:
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._options.retry_timeout_ms / 1000, FIRST_PAUSE_S
        while True:
            self.requests += 1
            try:
                await self._attempt(parcel, queue)
            except SendFailed as failure:
                if not failure.retryable or loop.time() + pause > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
            else:
                return

    async def _attempt(self, parcel: Parcel, queue: MessageQueue) -> None:
        if isinstance(parcel.content, EncodedBatch):
            await self._producer.send_encoded(parcel.content, queue)
        else:
            await self._producer.send(parcel.content, queue=queue)


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all tasks, also if one fails, so that none runs on after the call."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def producer_for(options: SinkOptions) -> BatchProducer:
    """A producer that is not open yet.

    It compresses nothing: a row may travel alone in one attempt and in a batch, which is never compressed, in another;
    our broker takes them for one row only if their bodies are the same bytes.
    """
    reach = options.connection
    return BatchProducer(
        reach.name_server,
        group=options.group,
        send_timeout_ms=options.send_timeout_ms,
        compress_over_bytes=INT_MAX,
        tls=client_tls(reach),
        access_key=reach.access_key,
        secret_key=reach.secret_key,
        security_token=reach.security_token,
        signature_method=reach.signature_method,
    )
