"""The consumer without ``await``: every method is the asynchronous one's, run on a loop in another thread.

Handlers given to ``run`` are plain functions and run in threads, ``workers`` of them at once.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Generic, Self, Unpack, cast, overload

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.blocking.message import Accept, ReceivedMessage, checked_by, next_of, or_stop
from firearrow.client import MessageQueue, RebalanceListener, Stall
from firearrow.client.consumer.division.strategies import Strategy
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings
from firearrow.client.consumer.subscription import EVERYTHING, Expression, Topics
from firearrow.client.doors import Doors
from firearrow.client.settings import with_options
from firearrow.serializers import Deserializer, V


class Consumer(Generic[V]):
    """Receives messages. Use it in a ``with`` block.

    ``topics`` are its subscriptions: one topic, several, or topics with expressions (``{"orders": "new || changed"}``).
    ``deserializer`` turns a body into ``message.value``, ``rebalance_listener`` is called when queues are assigned and
    revoked, ``strategy`` divides queues among the members. ``accept`` rejects a message by returning False: it is
    acknowledged and counted, and no handler gets it; if ``accept`` raises, the message is delivered again later, as if
    a handler had failed. ``accept`` runs in the client's own thread: let it decide quickly.
    """

    @overload
    def __init__(
        self: "Consumer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        accept: Accept[bytes] | None = None,
        deserializer: None = None,
        rebalance_listener: RebalanceListener | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        accept: Accept[V] | None = None,
        deserializer: Deserializer[V],
        rebalance_listener: RebalanceListener | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        accept: Accept[Any] | None = None,
        deserializer: Deserializer[Any] | None = None,
        rebalance_listener: RebalanceListener | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._door = Door("firearrow consumer")
        self._inner: client.Consumer[V] = client.Consumer(
            name_servers,
            group=group,
            topics=topics,
            strategy=strategy,
            accept=checked_by(accept, self._door),
            deserializer=cast("Deserializer[V]", deserializer),
            rebalance_listener=rebalance_listener,
            doors=doors,
            **options,
        )

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
    def settings(self) -> ConsumerSettings:
        """The settings in use."""
        return self._inner.settings

    @property
    def client_id(self) -> str:
        """The client id of this consumer at brokers and in the group."""
        return self._inner.client_id

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
    def failures(self) -> int:
        """The number of failed deliveries."""
        return self._inner.failures

    @property
    def rejected(self) -> int:
        """The number of messages that ``accept`` rejected."""
        return self._inner.rejected

    def open(self) -> None:
        """Join the group."""
        self._door.open(self._inner.open)

    def stop(self) -> None:
        """Stop delivery; ``run`` returns when its handlers have finished their messages."""
        self._door.run(self._inner.stop)

    def close(self) -> None:
        """Commit, leave the group, close connections and end the thread; waiting calls of other threads end.

        ``run`` returns, a waiting iteration ends, any other call raises ``ClientClosed``.
        """
        self._door.close(self._inner.close)

    def subscribe(self, topic: str, expression: Expression = EVERYTHING) -> None:
        """Subscribe to a topic, or change the expression of a subscription."""
        self._door.call(self._inner.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """End the subscription of a topic."""
        self._door.call(self._inner.unsubscribe(topic))

    def stalls(self) -> list[Stall]:
        """Return the queues that have messages but made no progress for ``stall_ms``, each with the reason."""
        return self._door.run(self._inner.stalls)

    def commit(self) -> None:
        """Commit all offsets now instead of every ``persist_ms``; raise the error if a broker could not be reached."""
        self._door.call(self._inner.commit())

    def __iter__(self) -> Iterator[ReceivedMessage[V]]:
        """Iterate over messages; several threads may iterate at once and get different messages."""
        return self

    def __next__(self) -> ReceivedMessage[V]:
        """Return the next message. Settle it by ``process()``, ``ack()`` or ``retry()``."""
        return or_stop(self._door.call(next_of(self._inner)), self._door)

    def run(self, handler: Callable[[ReceivedMessage[V]], object], *, workers: int | None = None) -> None:
        """Call ``handler`` with every message, ``workers`` at once, until the consumer is stopped.

        ``sys.exit`` and an interrupt in a handler end ``run``, which raises them; the message is delivered again.
        ``close`` in a handler is refused, as it would wait for the handler: call ``stop`` there.
        """
        self._door.call(self._inner.run(_named(partial(_handle, handler, self._door), handler), workers=workers))

    def run_batches(
        self, handler: Callable[[list[ReceivedMessage[V]]], object], *, size: int = 32, workers: int | None = None
    ) -> None:
        """Like ``run``, with up to ``size`` messages of one queue in a call, which succeed or fail together."""
        call = _named(partial(_handle_some, handler, self._door), handler)
        self._door.call(self._inner.run_batches(call, size=size, workers=workers))


def _named(call: "partial[object]", handler: Callable[..., object]) -> "partial[object]":
    """Return the function under the handler's own name, which reports of stalls show."""
    update_wrapper(call, handler)
    return call


def _handle(handler: Callable[[ReceivedMessage[V]], object], door: Door, message: client.ReceivedMessage[V]) -> object:
    with door.handling():
        return handler(ReceivedMessage(message, door))


def _handle_some(
    handler: Callable[[list[ReceivedMessage[V]]], object], door: Door, messages: list[client.ReceivedMessage[V]]
) -> object:
    with door.handling():
        return handler([ReceivedMessage(message, door) for message in messages])


Consumer.__doc__ = with_options(Consumer.__doc__, ConsumerSettings, but=("group",))
