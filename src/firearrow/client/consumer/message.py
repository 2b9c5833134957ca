"""A message in a consumer's hands.

Exactly one of three things settles it: it is done with (``ack``), it is to be delivered again later (``retry``), or it
is put back because nobody will look at it now (``release``). ``async with message.process():`` does the right one:

    async with message.process():       # leaving the block acknowledges
        handle(message.body)            # an error inside is logged, and the message is delivered again later

Until it is settled its queue's offset cannot move past it. Names with an underscore are its consumer's.
"""

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Generic, Protocol

from firearrow.client.consumer.window import Window
from firearrow.client.tasks import cancellations, is_cancellation
from firearrow.errors import BadBody, ClientClosed
from firearrow.model import MessageQueue, StoredMessage, keys
from firearrow.model.names import is_retry_topic
from firearrow.record.hosts import host_bytes
from firearrow.record.message_id import offset_message_id
from firearrow.serializers import Deserializer, V

log: Final = logging.getLogger(__name__)


class Settler(Protocol):
    """The consumer, as its messages see it."""

    @property
    def deserializer(self) -> Deserializer[Any] | None:
        """Makes values of bodies; None: bodies are the values."""
        ...

    def ack(self, message: "ReceivedMessage[Any]") -> None:
        """The message is done with."""
        ...

    async def retry(self, message: "ReceivedMessage[Any]", delay_level: int) -> None:
        """The message is to be delivered again."""
        ...

    def release(self, message: "ReceivedMessage[Any]") -> None:
        """The message goes back to those that wait for a handler."""
        ...

    def check_loop(self) -> None:
        """Raise ``ClientClosed`` in another event loop than the consumer's."""
        ...

    def fate(self, message: "ReceivedMessage[Any]") -> str:
        """What becomes of the message when it fails now, as a sentence says it."""
        ...


class ReceivedMessage(Generic[V]):
    """One delivery of one message. Its type parameter is the type of its ``value``.

    ``queue`` is where it came from, ``stored`` everything that its record holds, ``is_settled`` whether ``ack``,
    ``retry`` or ``release`` was called.
    """

    __slots__ = ("_attempts", "_handed_at", "_holder", "_settler", "_value", "_window", "is_settled", "queue", "stored")

    _value: V

    def __init__(self, stored: StoredMessage, queue: MessageQueue, window: Window, settler: Settler) -> None:
        self.stored: Final = stored
        self.queue: Final = queue
        self._window: Final = window
        self._settler = settler
        self.is_settled = False
        self._attempts = 0  # deliveries on this consumer that failed, for ordered consumption
        self._handed_at: float | None = None
        self._holder = ""

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
    def value(self) -> V:
        """What the consumer's deserializer makes of the body, once; without one, the body.

        Raise ``BadBody`` when it cannot: a handler that lets that pass has the message delivered again, as after any
        error.
        """
        try:
            return self._value
        except AttributeError:
            pass
        self._value = self._deserialized()
        return self._value

    def _deserialized(self) -> Any:  # noqa: ANN401 - what the deserializer returns
        body, deserializer = self.body, self._settler.deserializer
        if deserializer is None:
            return body
        try:
            return deserializer(body)
        except (Exception, asyncio.CancelledError) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"  # pydantic's are of many lines
            raise BadBody(f"the body of {self.message_id} ({self.place}) cannot be deserialized: {reason}") from error

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
        return self.stored.reconsume_times + self._attempts

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
        self._done()

    def _done(self) -> None:
        if not self.is_settled:
            self.is_settled = True
            self._settler.ack(self)

    @property
    def _fate(self) -> str:
        return "it was settled before" if self.is_settled else self._settler.fate(self)

    @property
    def _told(self) -> dict[str, Any]:
        """What a line of the log has beside its text."""
        return {
            "id": self.message_id,
            "topic": self.topic,
            "queue": str(self.queue),
            "offset": self.queue_offset,
            "delivery": self.reconsume_times + 1,
        }

    async def _fail(self, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {error}"
        what = "handling %s (%s, delivery %d) failed, %s: %s"
        words = self.message_id, self.place, self.reconsume_times + 1, self._fate, reason
        log.error(what, *words, exc_info=error, extra={**self._told, "reason": reason})
        await self.retry()

    async def retry(self, delay_level: int = 0) -> None:
        """Deliver it again later: 0 lets the broker choose the delay, -1 sends it to the dead letters."""
        self._settler.check_loop()
        if self._settle():
            await self._settler.retry(self, delay_level)

    def release(self) -> None:
        """Give it back untouched: it is handed out again at once."""
        if self._settle():
            self._settler.release(self)

    def process(self) -> "Processing[V]":
        """A block at whose end the message is settled."""
        if self.is_settled:
            raise ClientClosed(f"{self!r} has been settled already")
        return Processing(self)

    def _settle(self) -> bool:
        settled, self.is_settled = self.is_settled, True
        return not settled


class Processing(Generic[V]):
    """The block of ``message.process()``."""

    def __init__(self, message: ReceivedMessage[V]) -> None:
        self._message = message
        self._cancelled = 0

    async def __aenter__(self) -> ReceivedMessage[V]:
        """Begin."""
        self._cancelled = cancellations()
        return self._message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Settle the message. An error inside is logged and goes no further; a cancellation of this task does."""
        if error is None:
            self._message._done()
            return False
        if is_cancellation(error, self._cancelled) or not isinstance(error, Exception | asyncio.CancelledError):
            self._message.release()
            return False
        await self._message._fail(error)
        return True
