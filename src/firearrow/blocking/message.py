"""A message in the hands of a blocking consumer."""

from collections.abc import Coroutine, Mapping
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
        """Everything that its record holds."""
        return self._inner.stored

    @property
    def queue(self) -> MessageQueue:
        """The queue it came from."""
        return self._inner.queue

    @property
    def is_settled(self) -> bool:
        """Whether it was acknowledged, or given back."""
        return self._inner.is_settled

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes by way of the retry topic."""
        return self._inner.topic

    @property
    def body(self) -> bytes:
        """What was sent, decompressed; raise ``BadBody`` when there is a ``body_fault``."""
        return self._inner.body

    @property
    def body_fault(self) -> str:
        """Why the body cannot be read: damaged, or larger than ``max_body_bytes``; empty when it can."""
        return self._inner.body_fault

    @property
    def value(self) -> V:
        """What the consumer's deserializer makes of the body, once; without one, the body.

        Raise ``BadBody`` when it cannot: a handler that lets that pass has the message delivered again, as after any
        error.
        """
        return self._inner.value

    @property
    def place(self) -> str:
        """Where it came from, for people: topic, broker, queue and offset."""
        return self._inner.place

    @property
    def tag(self) -> str:
        """The tag, or empty."""
        return self._inner.tag

    @property
    def keys(self) -> list[str]:
        """The words by which it can be found."""
        return self._inner.keys

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties."""
        return self._inner.properties

    @property
    def message_id(self) -> str:
        """The id that its producer gave it; the place of its record if that gave none."""
        return self._inner.message_id

    @property
    def offset_message_id(self) -> str:
        """The place of its record."""
        return self._inner.offset_message_id

    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
        return self._inner.queue_offset

    @property
    def reconsume_times(self) -> int:
        """How often it was delivered before."""
        return self._inner.reconsume_times

    @property
    def born_timestamp(self) -> int:
        """When the producer made it, in milliseconds since 1970."""
        return self._inner.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """When the broker stored it, in milliseconds since 1970."""
        return self._inner.store_timestamp

    def ack(self) -> None:
        """It is done with."""
        self._door.call(self._inner.ack())

    def retry(self, delay_level: int = 0) -> None:
        """Deliver it again later: 0 lets the broker choose the delay, -1 sends it to the dead letters."""
        self._door.call(self._inner.retry(delay_level))

    def release(self) -> None:
        """Give it back untouched: it is handed out again at once."""
        self._door.run(self._inner.release)

    def process(self) -> "Processing[V]":
        """A block at whose end the message is settled."""
        return Processing(self, self._inner.process(), self._door)


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
        """Settle the message. An error inside is logged and goes no further; an interrupt does."""
        return self._door.call(self._inner.__aexit__(kind, error, trace))


async def next_of(messages: client.Consumer[V] | client.PullConsumer[V]) -> client.ReceivedMessage[V] | None:
    """The next message; None at the end, as a StopIteration cannot leave a coroutine."""
    return await anext(messages, None)


def or_stop(message: client.ReceivedMessage[V] | None, door: Door) -> ReceivedMessage[V]:
    """The message, or the end of the iteration."""
    if message is None:
        raise StopIteration
    return ReceivedMessage(message, door)
