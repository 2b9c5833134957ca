"""Brings a message, or a batch, to a broker: chooses the queue, asks its master, and tries again until the deadline.

One deadline covers all attempts of a send; `retry_policy` decides whether there is another. After a failed attempt the
next goes to another broker, unless the message must keep an order: then it goes to its own queue again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final, NoReturn, TypeVar

from firearrow.client.instance import Instance
from firearrow.client.name_servers import UNANSWERED
from firearrow.client.producer.outgoing import OutgoingBatch, OutgoingMessage, request_for
from firearrow.client.producer.result import STORED
from firearrow.client.producer.retry_policy import Attempts
from firearrow.client.producer.selector import Faults, RoundRobin, Selector, checked_queue, queue_of_key, selected
from firearrow.client.producer.send_meter import SendMeter
from firearrow.client.producer.settings import ProducerSettings
from firearrow.client.routes import Route, borrowed
from firearrow.errors import ClientClosed, FireArrowError, NoRoute, RequestRefused, Unsupported
from firearrow.model import Message, MessageQueue, keys
from firearrow.model.versions import version_name, version_number
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.message.send import RecallMessage, SendAnswer
from firearrow.record.recall_handle import decode_handle
from firearrow.remoting.reply import Reply
from firearrow.runtime.network import Address

T = TypeVar("T")

Choice = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Chooses the queue of a message among the queues that its topic has now."""

FIRST_WITH_TIMERS: Final = version_number("5.0.0")
_RECALL_HINTS: Final[dict[int, str]] = {
    ResponseCode.NO_PERMISSION: "set recallMessageEnable=true at the broker to allow recalls",
    ResponseCode.ILLEGAL_OPERATION: "a message can be recalled until it is due, from its own topic",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "brokers from 5.3 on recall messages",
}

_TOO_FAR: Final = "deliver it earlier, or raise timerMaxDelaySec at the broker (3 days unless set, at most 40)"


class Delivery:
    """The way of one producer's messages to brokers. ``opened`` returns its instance, or raises ``ClientClosed``."""

    def __init__(self, settings: ProducerSettings, opened: Callable[[], Instance]) -> None:
        self._settings = settings
        self._opened = opened
        self._rounds: dict[str, RoundRobin] = {}
        self._faults = Faults()
        self._attempt_ms = float(settings.attempt_timeout_ms or "inf")
        self._places: asyncio.Semaphore | None = None
        self._meter = SendMeter(settings.metrics.counts) if settings.metrics is not None else None

    def open(self) -> None:
        """Begin with no request in flight."""
        self._places = asyncio.Semaphore(self._settings.max_sends) if self._settings.max_sends else None

    def send(
        self,
        outgoing: OutgoingMessage | OutgoingBatch,
        choose: Choice | None,
        timeout_ms: float | None,
        *,
        only_once: bool = False,
    ) -> Awaitable[tuple[int, SendAnswer, MessageQueue]]:
        """Have a broker store it; return the code and the answer of the broker, and the queue.

        With ``only_once`` it is not sent again if it may have been stored. While ``max_sends`` requests are in flight
        it waits; its deadline begins after that.
        """
        if self._places is None:
            return self._send(outgoing, choose, timeout_ms, only_once=only_once)
        return _placed(self._places, partial(self._send, outgoing, choose, timeout_ms, only_once=only_once))

    async def _send(
        self,
        outgoing: OutgoingMessage | OutgoingBatch,
        choose: Choice | None,
        timeout_ms: float | None,
        *,
        only_once: bool,
    ) -> tuple[int, SendAnswer, MessageQueue]:
        instance, loop = self._opened(), asyncio.get_running_loop()
        limit_ms = self._settings.send_timeout_ms if timeout_ms is None else timeout_ms
        deadline = loop.time() + limit_ms / 1000
        meter, ticks = self._meter, instance.doors.clock.ticks
        began = ticks() if meter is not None else 0
        attempts = Attempts(self._settings.retries, is_fixed=choose is not None, only_once=only_once)
        stored: tuple[int, SendAnswer, MessageQueue] | None = None
        while loop.time() < deadline:
            chosen: MessageQueue | None = None
            try:
                route = instance.routes.get(outgoing.topic)
                if route is None or not route.write_queues:
                    route = await self.route(outgoing.topic)
                chosen = choose(route.write_queues) if choose else self._next_queue(route, attempts.tried)
                left_ms = (deadline - loop.time()) * 1000
                reply = await self._attempt(outgoing, chosen, min(left_ms, self._attempt_ms))
            except (*UNANSWERED, NoRoute, RequestRefused) as error:
                if not await self._goes_on(attempts, error, outgoing.topic, chosen, deadline):
                    break
                choose = _kept(choose, chosen)
                self._count_retry(outgoing.topic)
                continue
            stored = reply.code, reply.answer, chosen
            is_enough = reply.code == ResponseCode.SUCCESS or only_once or not self._settings.retry_not_ok
            if is_enough or not attempts.weak(chosen.broker_name):
                break
            self._count_retry(outgoing.topic)
        if stored is None:
            self._give_up(outgoing, attempts, limit_ms, ticks() - began)
        if meter is not None:
            meter.stored(outgoing, stored[0], ticks() - began)
        return stored

    def _give_up(
        self, outgoing: OutgoingMessage | OutgoingBatch, attempts: Attempts, limit_ms: float, took_ns: int
    ) -> NoReturn:
        failure = attempts.failure(outgoing.topic, limit_ms)
        last = attempts.errors[-1] if attempts.errors else None
        if self._meter is not None:
            self._meter.failed(outgoing, last or failure, took_ns)
        raise failure from (last if last is not failure else None)

    def _count_retry(self, topic: str) -> None:
        if self._meter is not None:
            self._meter.retried(topic)

    def tell(self, outgoing: OutgoingMessage, choose: Choice | None, timeout_ms: float | None) -> Awaitable[None]:
        """Send a message to a broker without an answer. While ``max_sends`` requests are in flight it waits."""
        if self._places is None:
            return self._tell(outgoing, choose, timeout_ms)
        return _placed(self._places, partial(self._tell, outgoing, choose, timeout_ms))

    async def _tell(self, outgoing: OutgoingMessage, choose: Choice | None, timeout_ms: float | None) -> None:
        instance, route = self._opened(), await self.route(outgoing.topic)
        chosen = choose(route.write_queues) if choose else self._next_queue(route)
        request, address = request_for(outgoing, chosen, self._settings), self._master(instance, chosen)
        limit_ms = self._settings.send_timeout_ms if timeout_ms is None else timeout_ms
        if outgoing.is_timed:
            await self._check_timers(instance, chosen, address, limit_ms)
        await instance.caller.tell(address, request, outgoing.body, timeout_ms=limit_ms)
        if self._meter is not None:
            self._meter.told(outgoing)

    async def _goes_on(
        self, attempts: Attempts, error: FireArrowError, topic: str, chosen: MessageQueue | None, deadline: float
    ) -> bool:
        """Wait for the back-off before the next attempt; return False if there is none."""
        broker = chosen.broker_name if chosen is not None else None
        if not attempts.failed(error, broker, was_asked=chosen is not None):
            return False
        try:
            instance, loop = self._opened(), asyncio.get_running_loop()
        except ClientClosed:
            if attempts.may_have_happened:
                return False  # the message may be stored, but ClientClosed means that nothing was sent
            raise
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
        self, outgoing: OutgoingMessage | OutgoingBatch, queue: MessageQueue, left_ms: float
    ) -> Reply[SendAnswer]:
        instance, loop = self._opened(), asyncio.get_running_loop()
        request = request_for(outgoing, queue, self._settings)
        began = loop.time()
        try:
            address = self._master(instance, queue)
            if outgoing.is_timed:
                await self._check_timers(instance, queue, address, left_ms)
                left_ms -= (loop.time() - began) * 1000
            try:
                reply = await self._say(instance, address, request, outgoing.body, left_ms)
            except RequestRefused as refusal:
                if refusal.code != ResponseCode.GO_AWAY:
                    raise
                left_ms -= (loop.time() - began) * 1000
                reply = await instance.caller.call(address, request, outgoing.body, timeout_ms=left_ms, accept=STORED)
        except FireArrowError as error:
            self._faults.note(queue.broker_name, 0, loop.time(), failed=True)
            is_refused = isinstance(error, RequestRefused) and error.code == ResponseCode.MESSAGE_ILLEGAL
            if outgoing.is_timed and is_refused:
                error.args = (f"{error}; {_TOO_FAR}",)
            raise
        if self._settings.latency_fault_tolerance:
            now = loop.time()
            self._faults.note(queue.broker_name, (now - began) * 1000, now)
        return reply

    async def _check_timers(self, instance: Instance, queue: MessageQueue, address: Address, timeout_ms: float) -> None:
        """Raise ``Unsupported`` if the broker does not know timers: it would deliver the message at once."""
        version = await instance.version_at(address, timeout_ms)
        if version < FIRST_WITH_TIMERS:
            name = version_name(version).removeprefix("V").replace("_", ".")
            raise Unsupported(
                f"broker {queue.broker_name} at {address} is of version {name}, which would deliver a message of topic "
                f"{queue.topic!r} at once in spite of its delay; give delay_level=..., or use brokers from 5.0 on"
            )

    async def recall(self, topic: str, handle: str, timeout_ms: float | None) -> str:
        """Have the broker of a timed message take it back; return the unique key of the message."""
        instance, said = self._opened(), decode_handle(handle)
        limit_ms = self._settings.send_timeout_ms if timeout_ms is None else timeout_ms
        await self.route(topic)
        address = self._master(instance, MessageQueue(topic, said.broker, 0))
        request = RecallMessage(producer_group=self._settings.group, topic=topic, recall_handle=handle)
        try:
            reply = await instance.caller.call(address, request, timeout_ms=limit_ms)
        except RequestRefused as refusal:
            if hint := _RECALL_HINTS.get(refusal.code):
                refusal.args = (f"{refusal}; {hint}",)
            raise
        return reply.answer.msg_id

    def _say(
        self, instance: Instance, address: Address, request: Request[SendAnswer], body: bytes, left_ms: float
    ) -> Awaitable[Reply[SendAnswer]]:
        """Send a request: if a connection is open (the usual case), at once and without a coroutine of its own."""
        connection = instance.caller.standing(address)
        if connection is None:
            return instance.caller.call(address, request, body, timeout_ms=left_ms, accept=STORED)
        return connection.ask(request, body, timeout_ms=left_ms, accept=STORED)

    async def route(self, topic: str) -> Route:
        """Return a route with queues to send to; raise ``NoRoute`` if the topic has none."""
        instance = self._opened()
        instance.want(topic)
        route = instance.routes.get(topic) or await instance.refresh(topic)
        if route is None:
            default = await instance.refresh(self._settings.default_topic)
            if default is not None:
                route = borrowed(default, topic, self._settings.default_topic_queues)
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
        if not self._settings.latency_fault_tolerance:
            return rounds.choose(route.write_queues, tried)
        now = asyncio.get_running_loop().time()
        return rounds.choose(route.write_queues, tried, lambda broker: self._faults.is_available(broker, now))

    def _master(self, instance: Instance, queue: MessageQueue) -> Address:
        address = instance.routes.master(queue.broker_name)
        if address is None:
            instance.hurry()
            raise NoRoute(f"the master of broker {queue.broker_name} is not known to any name server now")
        return address


async def _placed(places: asyncio.Semaphore, send: Callable[[], Awaitable[T]]) -> T:
    """Send a request once there is a place for it."""
    async with places:
        return await send()


def _kept(choose: Choice | None, chosen: MessageQueue | None) -> Choice | None:
    """Return the choice for the next attempt: the queue that was chosen, as routes may change meanwhile."""
    return choose if choose is None or chosen is None else partial(same_queue, chosen)


def same_queue(queue: MessageQueue, _queues: Sequence[MessageQueue]) -> MessageQueue:
    """Return the first argument: the choice of a queue that is chosen already."""
    return queue


def fixed_choice(message: Message, queue: MessageQueue | None, selector: Selector | None) -> Choice | None:
    """Return how the queue follows from the message itself; None if it does not."""
    if queue is not None:
        return partial(same_queue, checked_queue(queue, message.topic))
    if selector is not None:
        return lambda queues: selected(selector, queues, message)
    key = message.properties.get(keys.SHARDING_KEY)
    if key:
        return lambda queues: queue_of_key(queues, key)
    return None
