"""The producer: takes a message, returns when a broker has acknowledged it.

    async with Producer("127.0.0.1:9876", group="shop") as producer:
        result = await producer.send(Message.of("orders", b"one espresso", tag="new", keys=["order-7"]))

`delivery` tries to store a message until its deadline. A retried message keeps its unique key, so that consumers can
recognise a duplicate. A send returns only after a broker has acknowledged the message.

A producer belongs to the loop and the process that opened it. Java: ``DefaultMQProducerImpl``.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, Unpack, overload

from firearrow.client.doors import Doors, system_doors
from firearrow.client.instance import Instance, client_id
from firearrow.client.misuse import NeedsAwait, check_loop
from firearrow.client.name_servers import name_server_source
from firearrow.client.producer.delivery import Choice, Delivery, fixed_choice, same_queue
from firearrow.client.producer.linger import Linger, may_wait
from firearrow.client.producer.outgoing import (
    BatchEntry,
    OutgoingMessage,
    Portion,
    check,
    entry_of,
    portions,
    prepare,
    prepare_batch,
)
from firearrow.client.producer.result import SendResult, read_batch_result, read_result
from firearrow.client.producer.selector import Selector, checked_queue
from firearrow.client.producer.settings import ProducerOptions, ProducerSettings, producer_settings
from firearrow.client.producer.transaction.block import Transaction
from firearrow.client.producer.transaction.check_back import Check
from firearrow.client.producer.transaction.coordinator import TransactionCoordinator
from firearrow.client.producer.transaction.half import StoredHalf, check_group, check_half, prepare_half
from firearrow.client.producer.values import MessageParts, message_of
from firearrow.client.settings import with_options
from firearrow.errors import ClientClosed, SendFailed
from firearrow.model import EpochMs, Message, MessageQueue, keys
from firearrow.model.names import DEFAULT_PRODUCER_GROUP
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData, ProducerData
from firearrow.record.message_id import UniqueKeys
from firearrow.serializers import Serializer, V, checked_function


class Producer(NeedsAwait, Generic[V]):
    """Sends messages. Use it in an ``async with`` block, from any number of tasks.

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
        self._serializer = checked_function(serializer, "serializer", "a value to bytes")
        self.settings: Final[ProducerSettings] = producer_settings(group, options)
        self._addresses = name_server_source(name_servers)
        self._given_doors = doors
        self._instance: Instance | None = None
        self._unique_keys: UniqueKeys | None = None
        self._delivery = Delivery(self.settings, self._opened)
        self._transactions = TransactionCoordinator(
            self.settings, self._delivery, self._opened_here, self._check_usable, check
        )
        self._linger: Linger | None = None
        self._batches: Linger | None = None  # the same, until every batch has ended

    async def __aenter__(self) -> Self:
        """Open it."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def open(self) -> None:
        """Open the producer. It connects to brokers at the first send."""
        if self._instance is not None:
            raise ClientClosed("the producer is open already; open it once, or close it first")
        settings = self.settings
        doors = (self._given_doors or system_doors()).at(settings.client_ip)
        self._unique_keys = UniqueKeys(doors.ip, doors.pid, doors.chance.getrandbits(32), doors.zone)
        self._instance = Instance(
            self._addresses,
            settings,
            client_id(doors, settings.instance_name, settings.unit_name),
            doors,
            self._heartbeat,
            handlers=self._transactions.open(),
        )
        self._delivery.open()
        if settings.linger_ms:
            self._linger = self._batches = Linger(settings.linger_ms, settings.max_message_bytes)
        self._instance.open()
        self._transactions.start(self._instance)
        if settings.wait_ready_ms:
            try:
                await self._instance.wait_answer(settings.default_topic, settings.wait_ready_ms, "the producer")
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Send pending batches, unregister, and close connections.

        Other waiting sends fail: with ``ClientClosed``, or with ``SendFailed`` if a broker has been asked.
        """
        if self._instance is not None and self._instance.is_of_another_process:
            self._instance = self._linger = self._batches = None  # loop and connections belong to the parent process
        if self._instance is not None:
            check_loop(self._instance.loop, "producer", "close it in that loop, before the loop ends")
        linger, self._linger = self._linger, None
        if linger is not None:
            await linger.close()
        instance, self._instance = self._instance, None
        if instance is not None:
            self._transactions.close()
            await instance.close(producer_group=self.settings.group)
        # Batches of a close that was interrupted before have failed with their connections, like every other send.
        batches, self._batches = self._batches, None
        if batches is not None:
            await batches.ended()

    @property
    def client_id(self) -> str:
        """The client id of this producer at brokers."""
        return self._opened().id

    def _opened(self) -> Instance:
        instance = self._instance
        if instance is None:
            state = "closed" if self._unique_keys is not None else "not open yet"
            raise ClientClosed(f"the producer is {state}; use it inside its async with block")
        if instance.is_of_another_process:
            raise ClientClosed("the producer was opened in the process before a fork; open one here, after the fork")
        return instance

    def _opened_here(self) -> Instance:
        """Return the instance; raise ``ClientClosed`` in another event loop, where its connections do not work."""
        instance = self._opened()
        check_loop(instance.loop, "producer", "open one in the loop that sends")
        return instance

    def _check_usable(self) -> None:
        if self._instance is not None:
            self._opened_here()

    def _heartbeat(self) -> HeartbeatData:
        mine = ProducerData(group_name=self.settings.group)
        return HeartbeatData(client_id=self._opened().id if self._instance else "", producer_data_set=[mine])

    # -- sending

    def message(self, topic: str, value: V, **parts: Unpack[MessageParts]) -> Message:
        """A message whose body the serializer makes of ``value``; without one, ``value`` is the body.

        ``parts`` are those of ``Message``. Raise ``IllegalMessage`` when the serializer cannot.
        """
        return message_of(self._serializer, topic, value, parts)

    async def send_value(self, topic: str, value: V, **parts: Unpack[MessageParts]) -> SendResult:
        """Send the message that ``message`` makes of a value, and return where it is stored."""
        return await self.send(self.message(topic, value, **parts))

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send a message and return where it is stored; raise ``SendFailed`` when no attempt succeeded.

        It goes to ``queue`` if that is given, else to the one that ``selector`` chooses, else to the one of its
        sharding key if it has one, else to the next one.
        """
        if self._linger is not None and timeout_ms is None:
            check(message, self.settings)
            if may_wait(message):
                return await self._send_together(self._linger, message, fixed_choice(message, queue, selector))
        outgoing = self._prepared(message)
        choose = fixed_choice(message, queue, selector)
        code, answer, sent_to = await self._delivery.send(outgoing, choose, timeout_ms)
        return read_result(code, answer, sent_to, outgoing.unique_key)

    async def _send_together(self, linger: Linger, message: Message, choose: Choice | None) -> SendResult:
        self._opened_here()
        entry = self._entry(message)
        fixed = choose((await self._delivery.route(message.topic)).write_queues) if choose else None
        order = message.properties.get(keys.SHARDING_KEY), message.properties.get(keys.WAIT)
        again = None if fixed is None else partial(same_queue, fixed)
        return await linger.send(
            entry, (message.topic, fixed, *order), lambda entries: self._send_entries(entries, again, None)
        )

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> list[SendResult]:
        """Send many messages in few requests; return their results in order.

        Requests are sent one after the other, to different queues unless the messages must keep an order. If a request
        fails, ``SendFailed.stored`` is the number of messages before it, which are stored.
        """
        listed = list(messages)
        results: list[SendResult] = []
        for message in listed:
            check(message, self.settings)
            if queue is not None:
                checked_queue(queue, message.topic)
        for portion in portions(listed, self.settings):
            choose = fixed_choice(portion.messages[0], queue, selector)
            try:
                results += await self._send_portion(portion, choose, timeout_ms)
            except SendFailed as error:
                error.stored = len(results)
                raise
        return results

    async def _send_portion(
        self, portion: Portion, choose: Choice | None, timeout_ms: float | None
    ) -> list[SendResult]:
        if portion.is_alone:
            return [await self._send_alone(portion.messages[0], choose, timeout_ms)]
        return await self._send_entries(list(map(self._entry, portion.messages)), choose, timeout_ms)

    async def _send_alone(self, message: Message, choose: Choice | None, timeout_ms: float | None) -> SendResult:
        outgoing = self._prepared(message)
        code, answer, sent_to = await self._delivery.send(outgoing, choose, timeout_ms)
        return read_result(code, answer, sent_to, outgoing.unique_key)

    async def _send_entries(
        self, entries: list[BatchEntry], choose: Choice | None, timeout_ms: float | None
    ) -> list[SendResult]:
        if len(entries) == 1:
            return [await self._send_alone(entries[0].message, choose, timeout_ms)]
        batch = prepare_batch(entries, self.settings, EpochMs(self._opened_here().doors.clock.now_ms()))
        code, answer, sent_to = await self._delivery.send(batch, choose, timeout_ms)
        return read_batch_result(code, answer, sent_to, list(batch.unique_keys))

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Send a message without an answer: it may be lost without an error."""
        outgoing = self._prepared(message)
        await self._delivery.tell(outgoing, fixed_choice(message, queue, selector), timeout_ms)

    async def recall(self, topic: str, handle: str, *, timeout_ms: float | None = None) -> str:
        """Take back a timed message that is not due yet, by its ``SendResult.recall_handle``; return its message id.

        Raise ``RequestRefused`` if it is due, or if the broker does not allow it (``recallMessageEnable``).
        """
        self._opened_here()
        return await self._delivery.recall(topic, handle, timeout_ms)

    # -- transactions

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> Transaction:
        """Return an ``async with`` block: the message is delivered if the block ends well, and dropped if it fails.

        Give the producer a group of its own and ``check``, which decides if this process ends inside the block.
        """

        async def begin() -> StoredHalf:
            doors = self._opened_here().doors
            assert self._unique_keys is not None
            with_key, half = prepare_half(message, self.settings, self._unique_keys, EpochMs(doors.clock.now_ms()))
            choose = fixed_choice(with_key, queue, selector)
            return await self._transactions.begin(with_key, half, choose, timeout_ms)

        check_group(self.settings.group)
        check_half(message, self.settings)
        return Transaction(self._transactions, begin)

    # -- routes

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that messages of a topic can be sent to now."""
        self._opened_here()
        return (await self._delivery.route(topic)).write_queues

    def _prepared(self, message: Message) -> OutgoingMessage:
        doors = self._opened_here().doors
        assert self._unique_keys is not None
        return prepare(message, self.settings, self._unique_keys, EpochMs(doors.clock.now_ms()))

    def _entry(self, message: Message) -> BatchEntry:
        doors = self._opened().doors
        assert self._unique_keys is not None
        return entry_of(message, self.settings, self._unique_keys, EpochMs(doors.clock.now_ms()))


Producer.__doc__ = with_options(Producer.__doc__, ProducerSettings, but=("group",))
