"""The producer: takes a message, returns when a broker has acknowledged it.

    async with Producer("127.0.0.1:9876", group="shop") as producer:
        result = await producer.send(Message.of("orders", b"one espresso", tag="new", keys=["order-7"]))

One deadline covers a send with all its attempts (`retrying`). After an attempt that failed the next goes to another
broker, unless the message has an order to keep: then it goes to its own queue again. A retried message keeps its unique
key, so that consumers can tell a duplicate. Nothing is reported as sent before a broker said so.

A producer belongs to the loop and the process that opened it. Java: ``DefaultMQProducerImpl``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, Unpack, overload

from firearrow.client.access import with_options
from firearrow.client.doors import Doors, system_doors
from firearrow.client.instance import Instance, Rhythm, client_id
from firearrow.client.misuse import NeedsAwait, check_loop
from firearrow.client.nameservers import UNANSWERED, whereabouts
from firearrow.client.producer.linger import Linger, may_wait
from firearrow.client.producer.outgoing import (
    Entry,
    Outgoing,
    OutgoingBatch,
    Portion,
    batch_request_for,
    check,
    entry_of,
    portions,
    prepare,
    prepare_batch,
    request_for,
)
from firearrow.client.producer.result import STORED, SendResult, read_batch_result, read_result
from firearrow.client.producer.retrying import Attempts
from firearrow.client.producer.selector import Faults, RoundRobin, Selector, checked_queue, queue_of_key, selected
from firearrow.client.producer.settings import ProducerOptions, ProducerSettings, producer_settings
from firearrow.client.producer.values import MessageParts, message_of
from firearrow.client.routes import Route, borrowed
from firearrow.errors import ClientClosed, FireArrowError, NoRoute, RequestRefused, SendFailed
from firearrow.model import EpochMs, Message, MessageQueue, keys
from firearrow.model.names import DEFAULT_PRODUCER_GROUP
from firearrow.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.send import SendAnswer
from firearrow.record.message_id import UniqueKeys
from firearrow.remoting.reply import Reply
from firearrow.runtime.network import Address
from firearrow.serializers import Serializer, V, checked_function


class Producer(NeedsAwait, Generic[V]):
    """Sends messages. Use it in an ``async with`` block, from any number of tasks.

    ``serializer`` makes the bodies for ``send_value`` and ``message``.
    """

    @overload
    def __init__(
        self: "Producer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str = DEFAULT_PRODUCER_GROUP,
        serializer: None = None,
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
        doors: Doors | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str = DEFAULT_PRODUCER_GROUP,
        serializer: Serializer[Any] | None = None,
        doors: Doors | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._serializer = checked_function(serializer, "serializer", "a value to bytes")
        self.settings: Final[ProducerSettings] = producer_settings(group, options)
        self._addresses = whereabouts(name_servers)
        self._given_doors = doors
        self._instance: Instance | None = None
        self._unique_keys: UniqueKeys | None = None
        self._rounds: dict[str, RoundRobin] = {}
        self._faults = Faults()
        self._linger: Linger | None = None
        self._attempt_ms = float(self.settings.attempt_timeout_ms or "inf")
        self._places: asyncio.Semaphore | None = None

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
        """Begin. Brokers are connected to when there is something to send."""
        if self._instance is not None:
            raise ClientClosed("the producer is open already; open it once, or close it first")
        settings = self.settings
        doors = (self._given_doors or system_doors()).at(settings.client_ip)
        self._unique_keys = UniqueKeys(doors.ip, doors.pid, doors.chance.getrandbits(32), doors.zone)
        self._instance = Instance(
            self._addresses,
            client_id(doors, settings.instance_name, settings.unit_name),
            doors,
            self._heartbeat,
            rhythm=Rhythm(
                settings.poll_name_server_ms,
                settings.heartbeat_ms,
                settings.fetch_name_server_ms,
                settings.request_timeout_ms,
            ),
            access=settings.access,
        )
        self._places = asyncio.Semaphore(settings.max_sends) if settings.max_sends else None
        if settings.linger_ms:
            self._linger = Linger(self._instance.tasks, settings.linger_ms, settings.max_message_bytes)
        self._instance.open()
        if settings.wait_ready_ms:
            try:
                await self._instance.wait_answer(settings.default_topic, settings.wait_ready_ms, "the producer")
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Send what lingers, say goodbye and end every connection.

        Other sends that wait fail: with ``ClientClosed``, or with ``SendFailed`` when a broker has been asked.
        """
        if self._instance is not None and self._instance.is_of_another_process:
            self._instance = self._linger = None  # its loop and connections are the other's
        if self._instance is not None:
            check_loop(self._instance.loop, "producer", "close it in that loop, before the loop ends")
        linger, self._linger = self._linger, None
        if linger is not None:
            await linger.close()
        instance, self._instance = self._instance, None
        if instance is not None:
            await instance.close(producer_group=self.settings.group)

    @property
    def client_id(self) -> str:
        """How brokers know this producer."""
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
        """Where it sends or asks: a connection works in the loop that opened it alone."""
        instance = self._opened()
        check_loop(instance.loop, "producer", "open one in the loop that sends")
        return instance

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
                return await self._send_together(self._linger, message, _fixed_choice(message, queue, selector))
        outgoing = self._prepared(message)
        choose = _fixed_choice(message, queue, selector)
        if self._places is None:
            code, answer, sent_to = await self._attempts(outgoing, choose, timeout_ms)
        else:
            async with self._places:
                code, answer, sent_to = await self._attempts(outgoing, choose, timeout_ms)
        return read_result(code, answer, sent_to, outgoing.unique_key)

    async def _send_together(self, linger: Linger, message: Message, choose: "_Choice | None") -> SendResult:
        self._opened_here()
        entry = self._entry(message)
        fixed = choose((await self._route(message.topic)).write_queues) if choose else None
        order = message.properties.get(keys.SHARDING_KEY), message.properties.get(keys.WAIT)
        again = None if fixed is None else partial(_same_queue, fixed)
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

        Requests go out one after the other, each to a queue of its own unless the messages have an order to keep.
        When one fails, ``SendFailed.stored`` counts the messages before it, which are stored.
        """
        listed = list(messages)
        results: list[SendResult] = []
        for message in listed:
            check(message, self.settings)
            if queue is not None:
                checked_queue(queue, message.topic)
        for portion in portions(listed, self.settings):
            choose = _fixed_choice(portion.messages[0], queue, selector)
            try:
                results += await self._send_portion(portion, choose, timeout_ms)
            except SendFailed as error:
                error.stored = len(results)
                raise
        return results

    async def _send_portion(
        self, portion: Portion, choose: "_Choice | None", timeout_ms: float | None
    ) -> list[SendResult]:
        if portion.is_alone:
            return [await self._send_alone(portion.messages[0], choose, timeout_ms)]
        return await self._send_entries(list(map(self._entry, portion.messages)), choose, timeout_ms)

    async def _send_alone(self, message: Message, choose: "_Choice | None", timeout_ms: float | None) -> SendResult:
        outgoing = self._prepared(message)
        code, answer, sent_to = await self._attempts(outgoing, choose, timeout_ms)
        return read_result(code, answer, sent_to, outgoing.unique_key)

    async def _send_entries(
        self, entries: list[Entry], choose: "_Choice | None", timeout_ms: float | None
    ) -> list[SendResult]:
        if len(entries) == 1:
            return [await self._send_alone(entries[0].message, choose, timeout_ms)]
        batch = prepare_batch(entries, self.settings, EpochMs(self._opened_here().doors.clock.now_ms()))
        code, answer, sent_to = await self._attempts(batch, choose, timeout_ms)
        return read_batch_result(code, answer, sent_to, list(batch.unique_keys))

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Hand a message to a connection and hear nothing more of it: it may be lost, and nobody will tell."""
        instance, outgoing = self._opened(), self._prepared(message)
        route = await self._route(outgoing.topic)
        choose = _fixed_choice(message, queue, selector)
        chosen = choose(route.write_queues) if choose else self._next_queue(route)
        request = request_for(outgoing, chosen, self.settings)
        limit_ms = self.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        await instance.caller.tell(self._master(instance, chosen), request, outgoing.body, timeout_ms=limit_ms)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of a topic can be sent to now."""
        return (await self._route(topic)).write_queues

    def _prepared(self, message: Message) -> Outgoing:
        doors = self._opened_here().doors
        assert self._unique_keys is not None
        return prepare(message, self.settings, self._unique_keys, EpochMs(doors.clock.now_ms()))

    def _entry(self, message: Message) -> Entry:
        doors = self._opened().doors
        assert self._unique_keys is not None
        return entry_of(message, self.settings, self._unique_keys, EpochMs(doors.clock.now_ms()))

    # -- attempts

    async def _attempts(
        self, outgoing: Outgoing | OutgoingBatch, choose: "_Choice | None", timeout_ms: float | None
    ) -> tuple[int, SendAnswer, MessageQueue]:
        instance, loop = self._opened(), asyncio.get_running_loop()
        limit_ms = self.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        deadline = loop.time() + limit_ms / 1000
        attempts = Attempts(self.settings.retries, is_fixed=choose is not None)
        stored: tuple[int, SendAnswer, MessageQueue] | None = None
        while loop.time() < deadline:
            chosen: MessageQueue | None = None
            try:
                route = instance.routes.get(outgoing.topic)
                if route is None or not route.write_queues:
                    route = await self._route(outgoing.topic)
                chosen = choose(route.write_queues) if choose else self._next_queue(route, attempts.tried)
                left_ms = (deadline - loop.time()) * 1000
                reply = await self._attempt(outgoing, chosen, min(left_ms, self._attempt_ms))
            except (*UNANSWERED, NoRoute, RequestRefused) as error:
                if not await self._goes_on(attempts, error, outgoing.topic, chosen, deadline):
                    break
                if choose is not None and chosen is not None:
                    choose = partial(_same_queue, chosen)  # routes may have changed meanwhile
            else:
                stored = reply.code, reply.answer, chosen
                if reply.code == ResponseCode.SUCCESS or not self.settings.retry_not_ok:
                    return stored
                if not attempts.weak(chosen.broker_name):
                    break
        if stored is not None:
            return stored
        failure = attempts.failure(outgoing.topic, limit_ms)
        last = attempts.errors[-1] if attempts.errors else None
        raise failure from (last if last is not failure else None)

    async def _goes_on(
        self, attempts: Attempts, error: FireArrowError, topic: str, chosen: MessageQueue | None, deadline: float
    ) -> bool:
        """Whether there is another attempt; if there is a pause before it, it is over then."""
        broker = chosen.broker_name if chosen is not None else None
        if not attempts.failed(error, broker, was_asked=chosen is not None):
            return False
        if self._instance is None and attempts.may_have_happened:
            return False  # closed meanwhile: the message may be stored, which ClientClosed would deny
        instance, loop = self._opened(), asyncio.get_running_loop()
        if not isinstance(error, RequestRefused):
            instance.hurry()
        route = instance.routes.get(topic)
        if route is None and isinstance(error, NoRoute):
            return False  # name servers have answered: there is no such topic
        brokers = {queue.broker_name for queue in route.write_queues} if route is not None else set()
        pause_s = attempts.pause_s(brokers, instance.doors.chance)
        if pause_s and loop.time() + pause_s < deadline:
            what, extra = "messages of topic %s wait for a broker: %s", {"topic": topic, "reason": str(error)}
            instance.trouble.say(loop.time(), f"send {topic}", what, topic, error, **extra)
            await asyncio.sleep(pause_s)
            return True
        return not pause_s

    async def _attempt(
        self, outgoing: Outgoing | OutgoingBatch, queue: MessageQueue, left_ms: float
    ) -> Reply[SendAnswer]:
        instance, loop = self._opened(), asyncio.get_running_loop()
        request: Request[SendAnswer]
        if isinstance(outgoing, Outgoing):
            request = request_for(outgoing, queue, self.settings)
        else:
            request = batch_request_for(outgoing, queue, self.settings)
        began = loop.time()
        try:
            address = self._master(instance, queue)
            try:
                reply = await self._say(instance, address, request, outgoing.body, left_ms)
            except RequestRefused as refusal:
                if refusal.code != ResponseCode.GO_AWAY:
                    raise
                left_ms -= (loop.time() - began) * 1000
                reply = await instance.caller.call(address, request, outgoing.body, timeout_ms=left_ms, accept=STORED)
        except FireArrowError:
            self._faults.note(queue.broker_name, 0, loop.time(), failed=True)
            raise
        if self.settings.latency_fault_tolerance:
            now = loop.time()
            self._faults.note(queue.broker_name, (now - began) * 1000, now)
        return reply

    def _say(
        self, instance: Instance, address: Address, request: Request[SendAnswer], body: bytes, left_ms: float
    ) -> Awaitable[Reply[SendAnswer]]:
        """Ask a broker: at once where a connection stands, which is nearly always, without a coroutine of its own."""
        connection = instance.caller.standing(address)
        if connection is None:
            return instance.caller.call(address, request, body, timeout_ms=left_ms, accept=STORED)
        return connection.ask(request, body, timeout_ms=left_ms, accept=STORED)

    # -- where to

    async def _route(self, topic: str) -> Route:
        instance = self._opened_here()
        instance.want(topic)
        route = instance.routes.get(topic) or await instance.refresh(topic)
        if route is None:
            default = await instance.refresh(self.settings.default_topic)
            if default is not None:
                route = borrowed(default, topic, self.settings.default_topic_queues)
        if route is None:
            raise NoRoute(
                f"no name server knows topic {topic!r}, and brokers do not create topics; check its name, or create it"
            )
        if not route.write_queues:
            instance.hurry()
            raise NoRoute(f"no broker takes messages of topic {topic!r} now: none has a master with write permission")
        return route

    def _next_queue(self, route: Route, tried: Collection[str] = ()) -> MessageQueue:
        rounds = self._rounds.get(route.topic)
        if rounds is None:
            start = self._opened().doors.chance.randrange(len(route.write_queues))
            rounds = self._rounds[route.topic] = RoundRobin(start)
        if not self.settings.latency_fault_tolerance:
            return rounds.choose(route.write_queues, tried)
        now = asyncio.get_running_loop().time()
        return rounds.choose(route.write_queues, tried, lambda broker: self._faults.is_available(broker, now))

    def _master(self, instance: Instance, queue: MessageQueue) -> Address:
        address = instance.routes.master(queue.broker_name)
        if address is None:
            instance.hurry()
            raise NoRoute(f"the master of broker {queue.broker_name} is not known to any name server now")
        return address


_Choice = Callable[[Sequence[MessageQueue]], MessageQueue]


def _same_queue(queue: MessageQueue, _queues: Sequence[MessageQueue]) -> MessageQueue:
    return queue


def _fixed_choice(message: Message, queue: MessageQueue | None, selector: Selector | None) -> _Choice | None:
    """How the queue of this message follows from the message itself; None when it does not."""
    if queue is not None:
        return partial(_same_queue, checked_queue(queue, message.topic))
    if selector is not None:
        return lambda queues: selected(selector, queues, message)
    key = message.properties.get(keys.SHARDING_KEY)
    if key:
        return lambda queues: queue_of_key(queues, key)
    return None


Producer.__doc__ = with_options(Producer.__doc__, ProducerSettings, but=("group",))
