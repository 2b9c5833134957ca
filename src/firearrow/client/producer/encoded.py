"""A producer for whoever encodes batches himself: the Spark sink, which makes them by columns.

The caller draws unique keys, puts one into each message, encodes them as `record.batch.encode_batch` does, and sends
the bytes to a queue, and to no other if it has to be tried again; the messages keep their keys.
"""

from msgspec import Struct

from firearrow.client.producer.outgoing import encoded_batch
from firearrow.client.producer.producer import Producer
from firearrow.client.producer.result import STATUS_BY_CODE, SendStatus
from firearrow.model import EpochMs, MessageQueue
from firearrow.record.message_id import DRAWN_DIGITS


class DrawnKeys(Struct, frozen=True):
    """Unique keys for messages that are about to be encoded, and the time at which that is."""

    born_timestamp: int
    head: str
    """What all keys begin with."""
    ends: bytes
    """The last `DRAWN_DIGITS` digits of each, in a row."""

    def key(self, number: int) -> str:
        """One of them."""
        return self.head + self.ends[number * DRAWN_DIGITS : (number + 1) * DRAWN_DIGITS].decode()


class EncodedBatch(Struct, frozen=True):
    """Encoded messages of one topic."""

    topic: str
    body: bytes
    born_timestamp: int
    wait: str | None = None
    """The WAIT that all of them have; None when they have none."""


class BatchProducer(Producer):
    """A producer that also sends batches which were encoded before."""

    def draw_keys(self, count: int) -> DrawnKeys:
        """Unique keys, 65,536 at most."""
        now = EpochMs(self._opened().doors.clock.now_ms())
        assert self._unique_keys is not None
        return DrawnKeys(now, *self._unique_keys.draw(now, count))

    async def send_encoded(
        self, batch: EncodedBatch, queue: MessageQueue, *, timeout_ms: float | None = None
    ) -> SendStatus:
        """Send a batch to a queue and return how well it is stored; raise ``SendFailed`` when it is not."""
        outgoing = encoded_batch(batch.topic, batch.body, batch.wait, batch.born_timestamp, self.settings)
        code, _, _ = await self._attempts(outgoing, lambda _: queue, timeout_ms)
        return STATUS_BY_CODE[code]
