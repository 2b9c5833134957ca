"""A producer for callers that encode batches themselves, as the Spark sink does by columns and a mirror does.

The caller draws unique keys, puts one into each message, encodes the messages as `record.batch.encode_batch` does, and
sends the bytes to a queue. A retry goes to the same queue with the same keys.
"""

from msgspec import Struct

from firearrow.client.producer.outgoing import OutgoingBatch, OutgoingMessage, encoded_batch
from firearrow.client.producer.producer import Producer
from firearrow.client.producer.result import STATUS_BY_CODE, SendStatus
from firearrow.model import EpochMs, MessageQueue
from firearrow.record.message_id import DRAWN_DIGITS


class DrawnKeys(Struct, frozen=True):
    """Unique keys for messages that are about to be encoded, and the time in them."""

    born_timestamp: int
    head: str
    """The common beginning of all keys."""
    ends: bytes
    """The last `DRAWN_DIGITS` digits of each key, joined."""

    def key(self, number: int) -> str:
        """Return one key."""
        return self.head + self.ends[number * DRAWN_DIGITS : (number + 1) * DRAWN_DIGITS].decode()


class EncodedBatch(Struct, frozen=True):
    """Encoded messages of one topic."""

    topic: str
    body: bytes
    born_timestamp: int
    wait: str | None = None
    """The WAIT property of all messages; None if they have none."""
    sys_flag: int = 0
    """The compression of all bodies, as in the sysFlag of a record; 0: none."""


class EncodedMessage(Struct, frozen=True):
    """A single message whose properties and body are as they will be stored."""

    topic: str
    properties: str
    body: bytes
    sys_flag: int
    flag: int
    born_timestamp: int


class BatchProducer(Producer):
    """A producer that also sends encoded batches."""

    def draw_keys(self, count: int) -> DrawnKeys:
        """Return unique keys, at most 65,536."""
        now = EpochMs(self._opened().doors.clock.now_ms())
        assert self._unique_keys is not None
        return DrawnKeys(now, *self._unique_keys.draw(now, count))

    async def send_encoded(
        self, batch: EncodedBatch, queue: MessageQueue, *, timeout_ms: float | None = None
    ) -> SendStatus:
        """Send a batch to a queue and return its status; raise ``SendFailed`` if it is not acknowledged."""
        return (await self.store(batch, queue, timeout_ms=timeout_ms))[0]

    async def store(
        self, content: EncodedBatch | EncodedMessage, queue: MessageQueue, *, timeout_ms: float | None = None
    ) -> tuple[SendStatus, int]:
        """Send a batch or a message to a queue; return its status and the queue offset of the first message.

        Further messages of a batch have no smaller offsets than those that follow the first. Raise ``SendFailed`` if
        it is not acknowledged.
        """
        self._opened_here()
        code, answer, _ = await self._delivery.send(self._outgoing(content), lambda _: queue, timeout_ms)
        return STATUS_BY_CODE[code], answer.queue_offset

    def _outgoing(self, content: EncodedBatch | EncodedMessage) -> OutgoingMessage | OutgoingBatch:
        if isinstance(content, EncodedMessage):
            return OutgoingMessage(
                content.topic, "", content.properties, content.body, content.sys_flag, content.flag,
                content.born_timestamp,
            )  # fmt: skip
        return encoded_batch(
            content.topic, content.body, content.wait, content.born_timestamp, self.settings, content.sys_flag
        )
