"""A message that a blocking consumer has received."""

from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Generic, Protocol

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.client import MessageQueue
from firearrow.model import StoredMessage
from firearrow.serializers import V


class ReceivedMessage(Generic[V]):
    """One delivery of one message. Its type parameter is the type of its ``value``."""

    def __init__(self, inner: client.ReceivedMessage[V], door: Door) -> None:
        self._inner = inner
        self._door = door

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def stored(self) -> StoredMessage:
        """Every field of its record."""
        return self._inner.stored

    @property
    def queue(self) -> MessageQueue:
        """The queue it came from."""
        return self._inner.queue

    @property
    def is_settled(self) -> bool:
        """Whether ``ack``, ``retry`` or ``release`` was called."""
        return self._inner.is_settled

    @property
    def topic(self) -> str:
        """The topic it was sent to, also if it was delivered again through the retry topic."""
        return self._inner.topic

    @property
    def body(self) -> bytes:
        """The body as sent, decompressed; raise ``BadBody`` if there is a ``body_fault``."""
        return self._inner.body

    @property
    def body_fault(self) -> str:
        """The reason why the body cannot be read (damaged, or larger than ``max_body_bytes``); empty if it can."""
        return self._inner.body_fault

    @property
    def value(self) -> V:
        """The body, deserialized by the consumer's deserializer; without a deserializer, the body itself.

        Raise ``BadBody`` if that fails. If the handler does not catch it, the message is delivered again, as after
        any error.
        """
        return self._inner.value

    @property
    def place(self) -> str:
        """Topic, broker, queue and offset, as text."""
        return self._inner.place

    @property
    def tag(self) -> str:
        """The tag, or empty."""
        return self._inner.tag

    @property
    def keys(self) -> list[str]:
        """The keys by which the message can be looked up."""
        return self._inner.keys

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties."""
        return self._inner.properties

    @property
    def message_id(self) -> str:
        """The unique key from its producer; without one, the message id from the position of its record."""
        return self._inner.message_id

    @property
    def offset_message_id(self) -> str:
        """The message id from the position of its record."""
        return self._inner.offset_message_id

    @property
    def queue_offset(self) -> int:
        """The offset of the message in its queue."""
        return self._inner.queue_offset

    @property
    def reconsume_times(self) -> int:
        """The number of earlier deliveries of the message."""
        return self._inner.reconsume_times

    @property
    def born_timestamp(self) -> int:
        """The time at which the producer made the message, in milliseconds since 1970."""
        return self._inner.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """The time at which the broker stored the message, in milliseconds since 1970."""
        return self._inner.store_timestamp

    def ack(self) -> None:
        """Acknowledge the message: it is handled."""
        self._door.call(self._inner.ack())

    def retry(self, delay_level: int = 0) -> None:
        """Deliver the message again later: 0 lets the broker choose the delay, -1 sends it to the dead letters."""
        self._door.call(self._inner.retry(delay_level))

    def release(self) -> None:
        """Put the message back unhandled; it is delivered again at once."""
        self._door.run(self._inner.release)

    def process(self) -> "Processing[V]":
        """Return a block that settles the message at its end."""
        return Processing(self, self._inner.process(), self._door)


Accept = Callable[[ReceivedMessage[V]], bool]
"""Whether a message is wanted: a function from a message to True or False."""


def checked_by(accept: Accept[Any] | None, door: Door) -> "Callable[[client.ReceivedMessage[Any]], bool] | None":
    """Return a function that asks ``accept`` on behalf of the asynchronous client."""
    if not callable(accept):
        return accept  # None, or a mistake for which the client has the words

    def check(message: client.ReceivedMessage[Any]) -> bool:
        return accept(ReceivedMessage(message, door))

    return check


class Block(Protocol):
    """The asynchronous block of ``message.process()``."""

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, bool]:
        """Settle."""
        ...


class Processing(Generic[V]):
    """The block of ``message.process()``."""

    def __init__(self, message: ReceivedMessage[V], inner: Block, door: Door) -> None:
        self._message = message
        self._inner = inner
        self._door = door

    def __enter__(self) -> ReceivedMessage[V]:
        """Begin."""
        return self._message

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Settle the message. An error inside is logged and not raised; an interrupt is raised."""
        return self._door.call(self._inner.__aexit__(kind, error, trace))


async def next_of(messages: client.Consumer[V] | client.PullConsumer[V]) -> client.ReceivedMessage[V] | None:
    """Return the next message; None at the end, because a coroutine cannot raise StopIteration."""
    return await anext(messages, None)


def or_stop(message: client.ReceivedMessage[V] | None, door: Door) -> ReceivedMessage[V]:
    """Return the message; raise StopIteration for None."""
    if message is None:
        raise StopIteration
    return ReceivedMessage(message, door)
