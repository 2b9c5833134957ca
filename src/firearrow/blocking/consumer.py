"""The consumer without ``await``: every method is the asynchronous one's, run on a loop in another thread.

Handlers given to ``run`` are plain functions and run in threads, ``workers`` of them at once.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Generic, Self, Unpack, cast, overload

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.blocking.message import ReceivedMessage, next_of, or_stop
from firearrow.client import MessageQueue, RebalanceListener, Stall
from firearrow.client.access import with_options
from firearrow.client.consumer.assignment import Strategy
from firearrow.client.consumer.handling import Filter
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings
from firearrow.client.consumer.subscription import EVERYTHING, TAG, Topics
from firearrow.client.doors import Doors
from firearrow.serializers import Deserializer, V


class Consumer(Generic[V]):
    """Receives messages. Use it in a ``with`` block.

    ``topics`` are what it wants: one, several, or each with its expression (``{"orders": "new || changed"}``).
    ``deserializer`` makes ``message.value`` of a body, ``rebalance_listener`` hears of queues that come and go,
    ``wanted`` passes over messages for which it returns False, ``strategy`` divides queues among the members.
    """

    @overload
    def __init__(
        self: "Consumer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        wanted: Filter[bytes] | None = None,
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
        wanted: Filter[V] | None = None,
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
        wanted: Filter[Any] | None = None,
        deserializer: Deserializer[Any] | None = None,
        rebalance_listener: RebalanceListener | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._inner: client.Consumer[V] = client.Consumer(
            name_servers,
            group=group,
            topics=topics,
            strategy=strategy,
            wanted=wanted,
            deserializer=cast("Deserializer[V]", deserializer),
            rebalance_listener=rebalance_listener,
            doors=doors,
            **options,
        )
        self._door = Door("firearrow consumer")

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
        """What it was told."""
        return self._inner.settings

    @property
    def client_id(self) -> str:
        """How brokers and the other members know this consumer."""
        return self._inner.client_id

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues of this member now."""
        return self._door.run(lambda: self._inner.assignment)

    def pause(self, *what: str | MessageQueue) -> None:
        """Hand nothing more over of these topics or queues, or of anything when none is given, until ``resume``.

        What runs goes on; what was pulled waits here. The queues stay this member's, and offsets move no further than
        what was handled. A pause of a topic, or of everything, counts for queues that come later too; that of a single
        queue ends when the queue goes to another member.
        """
        self._door.run(lambda: self._inner.pause(*what))

    def resume(self, *what: str | MessageQueue) -> None:
        """Go on with these topics or queues, or with everything when none is given."""
        self._door.run(lambda: self._inner.resume(*what))

    @property
    def paused(self) -> list[MessageQueue]:
        """The queues of this member that are paused now."""
        return self._door.run(lambda: self._inner.paused)

    @property
    def failures(self) -> int:
        """How many deliveries failed."""
        return self._inner.failures

    def open(self) -> None:
        """Join the group."""
        self._door.open(self._inner.open)

    def stop(self) -> None:
        """Hand out nothing more; ``run`` returns when its handlers have finished what they have."""
        self._door.run(self._inner.stop)

    def close(self) -> None:
        """Commit, leave the group, end every connection and the thread; calls of other threads that wait then end.

        ``run`` returns, an iteration that waits ends, any other call raises ``ClientClosed``.
        """
        self._door.close(self._inner.close)

    def subscribe(self, topic: str, expression: str = EVERYTHING, *, kind: str = TAG) -> None:
        """Want a topic from now on, or want something else of it."""
        self._door.call(self._inner.subscribe(topic, expression, kind=kind))

    def unsubscribe(self, topic: str) -> None:
        """Want nothing more of a topic."""
        self._door.call(self._inner.unsubscribe(topic))

    def stalls(self) -> list[Stall]:
        """The queues that have not moved for ``stall_ms`` although they should, each with the reason."""
        return self._door.run(self._inner.stalls)

    def commit(self) -> None:
        """Commit now how far every queue is, not only every ``persist_ms``; raise what kept brokers from hearing it."""
        self._door.call(self._inner.commit())

    def __iter__(self) -> Iterator[ReceivedMessage[V]]:
        """Message by message; several threads may iterate at once, each gets others."""
        return self

    def __next__(self) -> ReceivedMessage[V]:
        """The next message. It must be settled: by ``process()``, ``ack()`` or ``retry()``."""
        return or_stop(self._door.call(next_of(self._inner)), self._door)

    def run(self, handler: Callable[[ReceivedMessage[V]], object], *, workers: int | None = None) -> None:
        """Call ``handler`` with every message, ``workers`` at once, until the consumer is stopped.

        ``sys.exit`` and an interrupt in a handler end ``run``, which raises them here; the message comes again.
        ``close`` in a handler is refused, as it would wait for the handler: call ``stop`` there.
        """
        self._door.call(self._inner.run(_named(partial(_handle, handler, self._door), handler), workers=workers))

    def run_batches(
        self, handler: Callable[[list[ReceivedMessage[V]]], object], *, size: int = 32, workers: int | None = None
    ) -> None:
        """The same with up to ``size`` messages of one queue at a time, which succeed or fail together."""
        call = _named(partial(_handle_some, handler, self._door), handler)
        self._door.call(self._inner.run_batches(call, size=size, workers=workers))


def _named(call: "partial[object]", handler: Callable[..., object]) -> "partial[object]":
    """The same under the handler's own name, which reports of stalls tell."""
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
