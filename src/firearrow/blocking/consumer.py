"""The consumers without ``await``: every method is the asynchronous one's, run on a loop in another thread.

Handlers given to ``run`` are plain functions and run in threads, ``workers`` of them at once.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.client import Bounds, MessageQueue, PulledBytes, Stall
from firearrow.client.access import with_options
from firearrow.client.consumer.assignment import Strategy
from firearrow.client.consumer.handling import Filter
from firearrow.client.consumer.member import Topics
from firearrow.client.consumer.pull import LARGE_BYTES, LARGE_MESSAGES, POLL_MS
from firearrow.client.consumer.pulling import APACHE_PULL_BYTES, APACHE_PULL_MESSAGES
from firearrow.client.consumer.ranges import IN_FLIGHT
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings
from firearrow.client.consumer.subscription import EVERYTHING, TAG
from firearrow.client.doors import Doors
from firearrow.client.routes import MASTER_ID
from firearrow.errors import ClientClosed
from firearrow.model import StoredMessage


class ReceivedMessage:
    """One delivery of one message."""

    def __init__(self, inner: client.ReceivedMessage, door: Door) -> None:
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

    def process(self) -> "Processing":
        """A block at whose end the message is settled."""
        return Processing(self, self._inner.process(), self._door)


class Block(Protocol):
    """The asynchronous block of ``message.process()``."""

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, bool]:
        """Settle."""
        ...


class Processing:
    """The block of ``message.process()``."""

    def __init__(self, message: ReceivedMessage, inner: Block, door: Door) -> None:
        self._message = message
        self._inner = inner
        self._door = door

    def __enter__(self) -> ReceivedMessage:
        """Begin."""
        return self._message

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Settle the message. An error inside is logged and goes no further; an interrupt does."""
        return self._door.call(self._inner.__aexit__(kind, error, trace))


class Consumer:
    """Receives messages. Use it in a ``with`` block."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        wanted: Filter | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._inner = client.Consumer(
            name_servers, group=group, topics=topics, strategy=strategy, wanted=wanted, doors=doors, **options
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
        """Commit, leave the group, end every connection and the thread."""
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

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Message by message; several threads may iterate at once, each gets others."""
        return self

    def __next__(self) -> ReceivedMessage:
        """The next message. It must be settled: by ``process()``, ``ack()`` or ``retry()``."""
        return _or_stop(self._door.call(_next(self._inner)), self._door)

    def run(self, handler: Callable[[ReceivedMessage], object], *, workers: int | None = None) -> None:
        """Call ``handler`` with every message, ``workers`` at once, until the consumer is stopped."""
        self._door.call(self._inner.run(_named(partial(_handle, handler, self._door), handler), workers=workers))

    def run_batches(
        self, handler: Callable[[list[ReceivedMessage]], object], *, size: int = 32, workers: int | None = None
    ) -> None:
        """The same with up to ``size`` messages of one queue at a time, which succeed or fail together."""
        call = _named(partial(_handle_some, handler, self._door), handler)
        self._door.call(self._inner.run_batches(call, size=size, workers=workers))


class PullConsumer:
    """Reads queues. Use it in a ``with`` block."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        wanted: Filter | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._inner = client.PullConsumer(
            name_servers, group=group, topics=topics, strategy=strategy, wanted=wanted, doors=doors, **options
        )
        self._door = Door("firearrow pull consumer")

    def __enter__(self) -> Self:
        """Open it."""
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it. What was handed out last counts as consumed, unless an error ends the block."""
        self._door.close(partial(self._inner.__aexit__, kind, error, trace))

    @property
    def settings(self) -> ConsumerSettings:
        """What it was told."""
        return self._inner.settings

    @property
    def client_id(self) -> str:
        """How brokers know this consumer."""
        return self._inner.client_id

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are read now."""
        return self._door.run(lambda: self._inner.assignment)

    def open(self) -> None:
        """Begin."""
        self._door.open(self._inner.open)

    def close(self) -> None:
        """End every connection and the thread."""
        self._door.close(self._inner.close)

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """All queues of a topic that can be read now."""
        return self._door.call(self._inner.queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, whoever else reads them."""
        self._door.call(self._inner.assign(queues))

    def subscribe(self, topic: str, expression: str = EVERYTHING, *, kind: str = TAG) -> None:
        """Share the queues of a topic with the other members of the group."""
        self._door.call(self._inner.subscribe(topic, expression, kind=kind))

    def unsubscribe(self, topic: str) -> None:
        """Want nothing more of a topic."""
        self._door.call(self._inner.unsubscribe(topic))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from ``offset``; what was read ahead is forgotten."""
        self._door.call(self._inner.seek(queue, offset))

    def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on from the first message of these queues, or of all that are assigned."""
        self._door.call(self._inner.seek_to_begin(*queues))

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on after the last message of these queues, or of all that are assigned."""
        self._door.call(self._inner.seek_to_end(*queues))

    def seek_to_time(self, timestamp_ms: int, *queues: MessageQueue) -> None:
        """Go on from the first message stored at that time or later."""
        self._door.call(self._inner.seek_to_time(timestamp_ms, *queues))

    def position(self, queue: MessageQueue) -> int | None:
        """The offset that is handed out next; None while it is not known, or the queue is not assigned."""
        return self._door.run(lambda: self._inner.position(queue))

    def poll(self, max_messages: int = 32, *, timeout_ms: float = POLL_MS) -> list[ReceivedMessage]:
        """Some messages of one queue, as soon as there are any; none when the time is over."""
        taken = self._door.call(self._inner.poll(max_messages, timeout_ms=timeout_ms))
        return [ReceivedMessage(message, self._door) for message in taken]

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Message by message."""
        return self

    def __next__(self) -> ReceivedMessage:
        """The next message; the one before counts as consumed."""
        return _or_stop(self._door.call(_next(self._inner)), self._door)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit everything handed out so far, or these offsets; raise what kept a broker from hearing it."""
        self._door.call(self._inner.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """How far the group is in a queue, as its broker knows; None when it was never there."""
        return self._door.call(self._inner.committed(queue))

    def pull_bytes(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: str = EVERYTHING,
        kind: str = TAG,
        max_messages: int = APACHE_PULL_MESSAGES,
        max_bytes: int = APACHE_PULL_BYTES,
        wait_ms: int = 0,
        timeout_ms: int = 30_000,
        broker_id: int = MASTER_ID,
    ) -> PulledBytes:
        """Ask a broker once for records from ``offset`` on, without decoding them."""
        return self._door.call(
            self._inner.pull_bytes(
                queue,
                offset,
                expression=expression,
                kind=kind,
                max_messages=max_messages,
                max_bytes=max_bytes,
                wait_ms=wait_ms,
                timeout_ms=timeout_ms,
                broker_id=broker_id,
            )
        )

    def pull_range(
        self,
        queue: MessageQueue,
        begin: int,
        end: int,
        *,
        max_messages: int = LARGE_MESSAGES,
        max_bytes: int = LARGE_BYTES,
        in_flight: int = IN_FLIGHT,
        timeout_ms: int = 30_000,
        broker_id: int = MASTER_ID,
    ) -> Iterator[PulledBytes]:
        """Records from ``begin`` to ``end`` (exclusive), undecoded, in order, with ``in_flight`` pulls under way."""
        answers = self._inner.pull_range(
            queue,
            begin,
            end,
            max_messages=max_messages,
            max_bytes=max_bytes,
            in_flight=in_flight,
            timeout_ms=timeout_ms,
            broker_id=broker_id,
        )
        try:
            while (pulled := self._door.call(_next_of(answers))) is not None:
                yield pulled
        finally:
            with suppress(ClientClosed):  # the consumer was closed before this: its pulls have ended with it
                self._door.call(answers.aclose())

    def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        """The bounds of all queues of a topic, with one request a broker."""
        return self._door.call(self._inner.bounds(topic))

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """Where each queue is at a time, asked all at once."""
        return self._door.call(self._inner.offsets_at(queues, timestamp_ms))


async def _next_of(answers: AsyncGenerator[PulledBytes, None]) -> PulledBytes | None:
    return await anext(answers, None)


async def _next(messages: client.Consumer | client.PullConsumer) -> client.ReceivedMessage | None:
    return await anext(messages, None)  # a StopIteration cannot leave a coroutine


def _or_stop(message: client.ReceivedMessage | None, door: Door) -> ReceivedMessage:
    if message is None:
        raise StopIteration
    return ReceivedMessage(message, door)


def _named(call: "partial[object]", handler: Callable[..., object]) -> "partial[object]":
    """The same under the handler's own name, which reports of stalls tell."""
    update_wrapper(call, handler)
    return call


def _handle(handler: Callable[[ReceivedMessage], object], door: Door, message: client.ReceivedMessage) -> object:
    return handler(ReceivedMessage(message, door))


def _handle_some(
    handler: Callable[[list[ReceivedMessage]], object], door: Door, messages: list[client.ReceivedMessage]
) -> object:
    return handler([ReceivedMessage(message, door) for message in messages])


Consumer.__doc__ = with_options(Consumer.__doc__, ConsumerSettings, but=("group",))
PullConsumer.__doc__ = with_options(PullConsumer.__doc__, ConsumerSettings, but=("group",))
