"""The pull consumer without ``await``: every method is the asynchronous one's, run on a loop in another thread."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Unpack, cast, overload

from firearrow import client
from firearrow.blocking.door import Door
from firearrow.blocking.group_consumer import GroupConsumer
from firearrow.blocking.message import Accept, ReceivedMessage, checked_by, next_of, or_stop
from firearrow.client import Bounds, MessageQueue, PulledBytes
from firearrow.client.consumer.broker_queries import APACHE_PULL_BYTES, APACHE_PULL_MESSAGES
from firearrow.client.consumer.division.strategies import Strategy
from firearrow.client.consumer.pull_consumer import LARGE_BYTES, LARGE_MESSAGES, POLL_MS
from firearrow.client.consumer.range_reader import IN_FLIGHT
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings
from firearrow.client.consumer.subscription import EVERYTHING, Expression, Topics
from firearrow.client.doors import Doors
from firearrow.client.routes import MASTER_ID
from firearrow.client.settings import with_options
from firearrow.errors import ClientClosed
from firearrow.serializers import Deserializer, V


class PullConsumer(GroupConsumer[V]):
    """Reads queues. Use it in a ``with`` block.

    ``deserializer`` turns a body into ``message.value``. ``accept`` rejects messages by returning False; if it raises,
    ``poll`` or the iteration raises the error and the message is first again. It runs in the client's own thread: let
    it decide quickly.
    """

    @overload
    def __init__(
        self: "PullConsumer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        accept: Accept[bytes] | None = None,
        deserializer: None = None,
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
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._door = Door("firearrow pull consumer")
        self._inner: client.PullConsumer[V] = client.PullConsumer(
            name_servers,
            group=group,
            topics=topics,
            strategy=strategy,
            accept=checked_by(accept, self._door),
            deserializer=cast("Deserializer[V]", deserializer),
            doors=doors,
            **options,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it. The last message counts as consumed, unless an error ends the block."""
        self._door.close(partial(self._inner.__aexit__, kind, error, trace))

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all queues of a topic that can be read now."""
        return self._door.call(self._inner.queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, without dividing them among members."""
        self._door.call(self._inner.assign(queues))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at ``offset``; messages read ahead are discarded."""
        self._door.call(self._inner.seek(queue, offset))

    def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Continue at the first message of these queues, or of all assigned queues."""
        self._door.call(self._inner.seek_to_begin(*queues))

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Continue after the last message of these queues, or of all assigned queues."""
        self._door.call(self._inner.seek_to_end(*queues))

    def seek_to_time(self, timestamp_ms: int, *queues: MessageQueue) -> None:
        """Continue at the first message stored at that time or later."""
        self._door.call(self._inner.seek_to_time(timestamp_ms, *queues))

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the next message; None while it is unknown, or if the queue is not assigned."""
        return self._door.run(lambda: self._inner.position(queue))

    def poll(self, max_messages: int = 32, *, timeout_ms: float = POLL_MS) -> list[ReceivedMessage[V]]:
        """Return messages of one queue as soon as there are any; an empty list after the timeout."""
        taken = self._door.call(self._inner.poll(max_messages, timeout_ms=timeout_ms))
        return [ReceivedMessage(message, self._door) for message in taken]

    def __next__(self) -> ReceivedMessage[V]:
        """Return the next message; the previous one counts as consumed."""
        return or_stop(self._door.call(next_of(self._inner)), self._door)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit all messages returned so far, or these offsets; raise the error if a broker could not be reached."""
        self._door.call(self._inner.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of the group in a queue; None if there is none."""
        return self._door.call(self._inner.committed(queue))

    def pull_bytes(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = EVERYTHING,
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
        """Yield records from ``begin`` to ``end`` (exclusive), undecoded, in order, ``in_flight`` pulls at once."""
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
            while (pulled := self._door.call(_next_answer(answers))) is not None:
                yield pulled
        finally:
            with suppress(ClientClosed):  # the consumer was closed before this: its pulls have ended with it
                self._door.call(answers.aclose())

    def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        """Return the bounds of all queues of a topic, with one request a broker."""
        return self._door.call(self._inner.bounds(topic))

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """Return the offset of each queue at a time, asked concurrently."""
        return self._door.call(self._inner.offsets_at(queues, timestamp_ms))


async def _next_answer(answers: AsyncGenerator[PulledBytes, None]) -> PulledBytes | None:
    return await anext(answers, None)


PullConsumer.__doc__ = with_options(PullConsumer.__doc__, ConsumerSettings, but=("group",))
