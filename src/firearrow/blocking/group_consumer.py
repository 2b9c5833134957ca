"""The common part of the consumers without ``await``: subscriptions, the queues of a member, and their pauses."""

from types import TracebackType
from typing import Generic, Self

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.client import MessageQueue
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.consumer.subscription import EVERYTHING, Expression
from firearrow.serializers import V


class GroupConsumer(Generic[V]):
    """A member of a consumer group."""

    _door: Door
    _inner: client.Consumer[V] | client.PullConsumer[V]

    def __enter__(self) -> Self:
        """Open it."""
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def open(self) -> None:
        """Join the group."""
        self._door.open(self._inner.open)

    def close(self) -> None:
        """Commit, leave the group, close connections and end the thread; waiting calls of other threads end.

        ``run`` returns, a waiting iteration ends, any other call raises ``ClientClosed``.
        """
        self._door.close(self._inner.close)

    @property
    def settings(self) -> ConsumerSettings:
        """The settings in use."""
        return self._inner.settings

    @property
    def client_id(self) -> str:
        """The client id of this consumer at brokers and in the group."""
        return self._inner.client_id

    def subscribe(self, topic: str, expression: Expression = EVERYTHING) -> None:
        """Subscribe to a topic, or change the expression of a subscription."""
        self._door.call(self._inner.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """End the subscription of a topic."""
        self._door.call(self._inner.unsubscribe(topic))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues of this member now."""
        return self._door.run(lambda: self._inner.assignment)

    def pause(self, *what: str | MessageQueue) -> None:
        """Stop delivery of these topics or queues, or of everything if none is given, until ``resume``.

        Running handlers go on; pulled messages wait here. The queues stay assigned to this member, and offsets move no
        further than the handled messages. A pause of a topic, or of everything, also covers queues assigned later; the
        pause of a single queue ends when the queue moves to another member.
        """
        self._door.run(lambda: self._inner.pause(*what))

    def resume(self, *what: str | MessageQueue) -> None:
        """Resume delivery of these topics or queues, or of everything if none is given."""
        self._door.run(lambda: self._inner.resume(*what))

    @property
    def paused(self) -> list[MessageQueue]:
        """The queues of this member that are paused now."""
        return self._door.run(lambda: self._inner.paused)

    @property
    def rejected(self) -> int:
        """The number of messages that ``accept`` rejected."""
        return self._inner.rejected

    def __iter__(self) -> Self:
        """Iterate over messages."""
        return self
