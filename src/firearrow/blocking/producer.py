"""The producer without ``await``: every method is the asynchronous one's, run on a loop in another thread."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.client import Message, MessageQueue, Selector, SendResult
from firearrow.client.access import with_options
from firearrow.client.doors import Doors
from firearrow.client.producer.settings import ProducerOptions, ProducerSettings
from firearrow.model.names import DEFAULT_PRODUCER_GROUP


class Producer:
    """Sends messages. Use it in a ``with`` block, from any number of threads."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str = DEFAULT_PRODUCER_GROUP,
        doors: Doors | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._inner = client.Producer(name_servers, group=group, doors=doors, **options)
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
        """What it was told."""
        return self._inner.settings

    @property
    def client_id(self) -> str:
        """How brokers know this producer."""
        return self._inner.client_id

    def open(self) -> None:
        """Begin. Brokers are connected to when there is something to send."""
        self._door.open(self._inner.open)

    def close(self) -> None:
        """Say goodbye and end every connection and the thread."""
        self._door.close(self._inner.close)

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send a message and return where it is stored; raise ``SendFailed`` when no attempt succeeded."""
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
        """Hand a message to a connection and hear nothing more of it: it may be lost, and nobody will tell."""
        self._door.call(self._inner.send_oneway(message, queue=queue, selector=selector, timeout_ms=timeout_ms))

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of a topic can be sent to now."""
        return self._door.call(self._inner.queues(topic))


Producer.__doc__ = with_options(Producer.__doc__, ProducerSettings, but=("group",))
