"""The producer without ``await``: every method is the asynchronous one's, run on a loop in another thread."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, Unpack, cast, overload

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.blocking.transaction import Transaction
from firearrow.client import Message, MessageQueue, Selector, SendResult
from firearrow.client.doors import Doors
from firearrow.client.producer.settings import ProducerOptions, ProducerSettings
from firearrow.client.producer.transaction.check_back import Check
from firearrow.client.producer.values import MessageParts
from firearrow.client.settings import with_options
from firearrow.model.names import DEFAULT_PRODUCER_GROUP
from firearrow.serializers import Serializer, V


class Producer(Generic[V]):
    """Sends messages. Use it in a ``with`` block, from any number of threads.

    ``serializer`` turns values into bodies, for ``send_value`` and ``message``. ``check`` answers brokers that ask what
    became of a transaction of this group: it gets the message and returns a ``TransactionState``.
    """

    @overload
    def __init__(
        self: "Producer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str = DEFAULT_PRODUCER_GROUP,
        serializer: None = None,
        check: Check | None = None,
        doors: Doors | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str = DEFAULT_PRODUCER_GROUP,
        serializer: Serializer[V],
        check: Check | None = None,
        doors: Doors | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str = DEFAULT_PRODUCER_GROUP,
        serializer: Serializer[Any] | None = None,
        check: Check | None = None,
        doors: Doors | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._inner: client.Producer[V] = client.Producer(
            name_servers,
            group=group,
            serializer=cast("Serializer[V]", serializer),
            check=check,
            doors=doors,
            **options,
        )
        self._door = Door("firearrow producer")

    def __enter__(self) -> Self:
        """Open it."""
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    @property
    def settings(self) -> ProducerSettings:
        """The settings in use."""
        return self._inner.settings

    @property
    def client_id(self) -> str:
        """The client id of this producer at brokers."""
        return self._inner.client_id

    def open(self) -> None:
        """Open the producer. It connects to brokers at the first send."""
        self._door.open(self._inner.open)

    def close(self) -> None:
        """Unregister, close connections and end the thread; sends of other threads raise ``ClientClosed``."""
        self._door.close(self._inner.close)

    def message(self, topic: str, value: V, **parts: Unpack[MessageParts]) -> Message:
        """Return a message whose body is ``value`` serialized; without a serializer, ``value`` is the body.

        ``parts`` are arguments of ``Message``. Raise ``IllegalMessage`` if the serializer fails.
        """
        return self._inner.message(topic, value, **parts)

    def send_value(self, topic: str, value: V, **parts: Unpack[MessageParts]) -> SendResult:
        """Send a value as ``message`` serializes it, and return where it is stored."""
        return self._door.call(self._inner.send_value(topic, value, **parts))

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send a message and return where it is stored; raise ``SendFailed`` if no attempt succeeded."""
        return self._door.call(self._inner.send(message, queue=queue, selector=selector, timeout_ms=timeout_ms))

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> list[SendResult]:
        """Send many messages in few requests; return their results in order."""
        return self._door.call(self._inner.send_batch(messages, queue=queue, selector=selector, timeout_ms=timeout_ms))

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Send a message without an answer: it may be lost without an error."""
        self._door.call(self._inner.send_oneway(message, queue=queue, selector=selector, timeout_ms=timeout_ms))

    def recall(self, topic: str, handle: str, *, timeout_ms: float | None = None) -> str:
        """Take back a timed message that is not due yet, by its ``SendResult.recall_handle``; return its message id.

        Raise ``RequestRefused`` if it is due, or if the broker does not allow it (``recallMessageEnable``).
        """
        return self._door.call(self._inner.recall(topic, handle, timeout_ms=timeout_ms))

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> Transaction:
        """Return a ``with`` block: the message is delivered if the block ends well, and dropped if it fails.

        Give the producer a group of its own and ``check``, which decides if this process ends inside the block.
        """
        inner = self._inner.transaction(message, queue=queue, selector=selector, timeout_ms=timeout_ms)
        return Transaction(inner, self._door)

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that messages of a topic can be sent to now."""
        return self._door.call(self._inner.queues(topic))


Producer.__doc__ = with_options(Producer.__doc__, ProducerSettings, but=("group",))
