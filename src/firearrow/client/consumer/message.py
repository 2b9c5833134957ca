"""A message in a consumer's hands.

Exactly one of three things settles it: it is done with (``ack``), it is to be delivered again later (``retry``), or it
is put back because nobody will look at it now (``release``). ``async with message.process():`` does the right one:

    async with message.process():       # leaving the block acknowledges
        handle(message.body)            # an error inside is logged, and the message is delivered again later

Until it is settled its queue's offset cannot move past it.
"""

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol

from firearrow.client.consumer.window import Window
from firearrow.errors import BadBody, ClientClosed
from firearrow.model import MessageQueue, StoredMessage, keys
from firearrow.model.names import is_retry_topic
from firearrow.record.hosts import host_bytes
from firearrow.record.message_id import offset_message_id

log: Final = logging.getLogger(__name__)


class Settler(Protocol):
    """The consumer, as its messages see it."""

    def ack(self, message: "ReceivedMessage") -> None:
        """The message is done with."""
        ...

    async def retry(self, message: "ReceivedMessage", delay_level: int) -> None:
        """The message is to be delivered again."""
        ...

    def release(self, message: "ReceivedMessage") -> None:
        """The message goes back to those that wait for a handler."""
        ...


class ReceivedMessage:
    """One delivery of one message."""

    __slots__ = ("_settler", "attempts", "handed_at", "holder", "is_settled", "queue", "stored", "window")

    def __init__(self, stored: StoredMessage, queue: MessageQueue, window: Window, settler: Settler) -> None:
        self.stored: Final = stored
        self.queue: Final = queue
        self.window: Final = window
        self._settler = settler
        self.is_settled = False
        self.attempts = 0
        """Deliveries on this consumer that failed, for ordered consumption."""
        self.handed_at: float | None = None
        self.holder = ""

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.message_id} of {self.topic}, {self.queue.broker_name}:{self.queue.queue_id}>"

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes by way of the retry topic."""
        stored = self.stored
        return stored.properties.get(keys.RETRY_TOPIC, stored.topic) if is_retry_topic(stored.topic) else stored.topic

    @property
    def body(self) -> bytes:
        """What was sent, decompressed; raise ``BadBody`` when there is a ``body_fault``."""
        stored = self.stored
        if stored.body_fault:
            raise BadBody(
                f"the body of {self.message_id} ({self.place}) cannot be read: {stored.body_fault}; "
                "stored.body has its bytes as they are stored"
            )
        return stored.body

    @property
    def body_fault(self) -> str:
        """Why the body cannot be read: damaged, or larger than ``max_body_bytes``; empty when it can."""
        return self.stored.body_fault

    @property
    def place(self) -> str:
        """Where it came from, for people: topic, broker, queue and offset."""
        queue = self.queue
        return f"{queue.topic}, {queue.broker_name}:{queue.queue_id}, offset {self.queue_offset}"

    @property
    def tag(self) -> str:
        """The tag, or empty."""
        return self.stored.tag

    @property
    def keys(self) -> list[str]:
        """The words by which it can be found."""
        return self.stored.keys

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties."""
        return self.stored.properties

    @property
    def message_id(self) -> str:
        """The id that its producer gave it; the place of its record if that gave none."""
        return self.stored.unique_key or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The place of its record."""
        return offset_message_id(host_bytes(self.stored.store_host), self.stored.physical_offset)

    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
        return self.stored.queue_offset

    @property
    def reconsume_times(self) -> int:
        """How often it was delivered before."""
        return self.stored.reconsume_times + self.attempts

    @property
    def born_timestamp(self) -> int:
        """When the producer made it, in milliseconds since 1970."""
        return self.stored.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """When the broker stored it, in milliseconds since 1970."""
        return self.stored.store_timestamp

    async def ack(self) -> None:
        """It is done with."""
        self.done()

    def done(self) -> None:
        """The same for those who cannot wait, and need not."""
        if not self.is_settled:
            self.is_settled = True
            self._settler.ack(self)

    async def fail(self, error: Exception) -> None:
        """Its handler raised: log that, and have it delivered again."""
        log.error(
            "handling %s (%s, delivery %d) failed, it comes again: %s: %s",
            self.message_id,
            self.place,
            self.reconsume_times + 1,
            type(error).__name__,
            error,
            exc_info=error,
            extra={
                "id": self.message_id,
                "queue": str(self.queue),
                "offset": self.queue_offset,
                "delivery": self.reconsume_times + 1,
            },
        )
        await self.retry()

    async def retry(self, delay_level: int = 0) -> None:
        """Deliver it again later: 0 lets the broker choose the delay, -1 sends it to the dead letters."""
        if self._settle():
            await self._settler.retry(self, delay_level)

    def release(self) -> None:
        """Give it back untouched: it is handed out again at once."""
        if self._settle():
            self._settler.release(self)

    def process(self) -> "Processing":
        """A block at whose end the message is settled."""
        if self.is_settled:
            raise ClientClosed(f"{self!r} has been settled already")
        return Processing(self)

    def _settle(self) -> bool:
        settled, self.is_settled = self.is_settled, True
        return not settled


class Processing:
    """The block of ``message.process()``."""

    def __init__(self, message: ReceivedMessage) -> None:
        self._message = message

    async def __aenter__(self) -> ReceivedMessage:
        """Begin."""
        return self._message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Settle the message. An error inside is logged and goes no further; a cancellation does."""
        if error is None:
            self._message.done()
            return False
        if not isinstance(error, Exception):
            self._message.release()
            return False
        await self._message.fail(error)
        return True
