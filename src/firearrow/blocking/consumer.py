"""The consumer without ``await``: every method is the asynchronous one's, run on a loop in another thread.

Handlers given to ``run`` are plain functions and run in threads, ``workers`` of them at once.
"""

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, Unpack, cast, overload

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.blocking.group_consumer import GroupConsumer
from firearrow.blocking.message import Accept, ReceivedMessage, checked_by, next_of, or_stop
from firearrow.client import RebalanceListener, Stall
from firearrow.client.consumer.division.strategies import Strategy
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings
from firearrow.client.consumer.subscription import Topics
from firearrow.client.doors import Doors
from firearrow.client.settings import with_options
from firearrow.serializers import Deserializer, V


class Consumer(GroupConsumer[V]):
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

    @property
    def failures(self) -> int:
        """The number of failed deliveries."""
        return self._inner.failures

    def stop(self) -> None:
        """Stop delivery; ``run`` returns when its handlers have finished their messages."""
        self._door.run(self._inner.stop)

    def stalls(self) -> list[Stall]:
        """Return the queues that have messages but made no progress for ``stall_ms``, each with the reason."""
        return self._door.run(self._inner.stalls)

    def commit(self) -> None:
        """Commit all offsets now instead of every ``persist_ms``; raise the error if a broker could not be reached."""
        self._door.call(self._inner.commit())

    def __next__(self) -> ReceivedMessage[V]:
        """Return the next message; several threads get others. Settle it by ``process()``, ``ack()`` or ``retry()``."""
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
