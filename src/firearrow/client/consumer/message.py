"""A message that a consumer has received.

A message is settled once, by ``ack`` (it is handled), ``retry`` (it is to be delivered again later) or ``release`` (it
is put back unhandled). ``async with message.process():`` calls the right one:

    async with message.process():       # leaving the block acknowledges
        handle(message.body)            # an error inside is logged, and the message is delivered again later

Until a message is settled, the committed offset of its queue cannot move past it. Attributes with an underscore belong
to the consumer.
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
        """Turns bodies into values; None: bodies are the values."""
        ...

    def ack(self, message: "ReceivedMessage[Any]") -> None:
        """Settle a message that is handled."""
        ...

    async def retry(self, message: "ReceivedMessage[Any]", delay_level: int) -> None:
        """Settle a message that is to be delivered again."""
        ...

    def release(self, message: "ReceivedMessage[Any]") -> None:
        """Put a message back, to wait for a handler."""
        ...

    def check_loop(self) -> None:
        """Raise ``ClientClosed`` in another event loop than the consumer's."""
        ...

    def fate(self, message: "ReceivedMessage[Any]") -> str:
        """Return what happens to the message if it fails now, as part of a log line."""
        ...


class ReceivedMessage(Generic[V]):
    """One delivery of one message. Its type parameter is the type of its ``value``.

    ``queue`` is its queue, ``stored`` holds every field of its record, ``is_settled`` says whether ``ack``,
    ``retry`` or ``release`` was called.
    """

    __slots__ = (
        "_attempts", "_handed_at", "_holder", "_settler", "_since_ns", "_value", "_window", "is_settled", "queue",
        "stored",
    )  # fmt: skip

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
        self._since_ns = 0  # when it arrived, then since when a handler has it; for metrics

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.message_id} of {self.topic}, {self.queue.broker_name}:{self.queue.queue_id}>"

    @property
    def topic(self) -> str:
        """The topic it was sent to, also if it was delivered again through the retry topic."""
        stored = self.stored
        return stored.properties.get(keys.RETRY_TOPIC, stored.topic) if is_retry_topic(stored.topic) else stored.topic

    @property
    def body(self) -> bytes:
        """The body as sent, decompressed; raise ``BadBody`` if there is a ``body_fault``."""
        stored = self.stored
        if stored.body_fault:
            raise BadBody(
                f"the body of {self.message_id} ({self.place}) cannot be read: {stored.body_fault}; "
                "stored.body has its bytes as they are stored"
            )
        return stored.body

    @property
    def body_fault(self) -> str:
        """The reason why the body cannot be read (damaged, or larger than ``max_body_bytes``); empty if it can."""
        return self.stored.body_fault

    @property
    def value(self) -> V:
        """The body, deserialized by the consumer's deserializer; without a deserializer, the body itself.

        Raise ``BadBody`` if that fails. If the handler does not catch it, the message is delivered again, as after
        any error.
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
        """Topic, broker, queue and offset, as text."""
        queue = self.queue
        return f"{queue.topic}, {queue.broker_name}:{queue.queue_id}, offset {self.queue_offset}"

    @property
    def tag(self) -> str:
        """The tag, or empty."""
        return self.stored.tag

    @property
    def keys(self) -> list[str]:
        """The keys by which the message can be looked up."""
        return self.stored.keys

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties."""
        return self.stored.properties

    @property
    def message_id(self) -> str:
        """The unique key from its producer; without one, the message id from the position of its record."""
        return self.stored.unique_key or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The message id from the position of its record."""
        return offset_message_id(host_bytes(self.stored.store_host), self.stored.physical_offset)

    @property
    def queue_offset(self) -> int:
        """The offset of the message in its queue."""
        return self.stored.queue_offset

    @property
    def reconsume_times(self) -> int:
        """The number of earlier deliveries of the message."""
        return self.stored.reconsume_times + self._attempts

    @property
    def born_timestamp(self) -> int:
        """The time at which the producer made the message, in milliseconds since 1970."""
        return self.stored.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """The time at which the broker stored the message, in milliseconds since 1970."""
        return self.stored.store_timestamp

    async def ack(self) -> None:
        """Acknowledge the message: it is handled."""
        self._done()

    def _done(self) -> None:
        if not self.is_settled:
            self.is_settled = True
            self._settler.ack(self)

    @property
    def _fate(self) -> str:
        return "it was settled before" if self.is_settled else self._settler.fate(self)

    @property
    def _log_values(self) -> dict[str, Any]:
        """Return the values of a log line, for ``extra``."""
        return {
            "id": self.message_id,
            "topic": self.topic,
            "queue": str(self.queue),
            "offset": self.queue_offset,
            "delivery": self.reconsume_times + 1,
        }

    async def _fail(self, error: BaseException, step: str = "handling") -> None:
        reason = f"{type(error).__name__}: {error}"
        what = "%s %s (%s, delivery %d) failed, %s: %s"
        words = step, self.message_id, self.place, self.reconsume_times + 1, self._fate, reason
        log.error(what, *words, exc_info=error, extra={**self._log_values, "reason": reason})
        await self.retry()

    async def retry(self, delay_level: int = 0) -> None:
        """Deliver the message again later: 0 lets the broker choose the delay, -1 sends it to the dead letters."""
        self._settler.check_loop()
        if self._settle():
            await self._settler.retry(self, delay_level)

    def release(self) -> None:
        """Put the message back unhandled; it is delivered again at once."""
        if self._settle():
            self._settler.release(self)

    def process(self) -> "Processing[V]":
        """Return a block that settles the message at its end."""
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
        """Settle the message. An error inside is logged and not raised; a cancellation of this task is raised."""
        if error is None:
            self._message._done()
            return False
        if is_cancellation(error, self._cancelled) or not isinstance(error, Exception | asyncio.CancelledError):
            self._message.release()
            return False
        await self._message._fail(error)
        return True
