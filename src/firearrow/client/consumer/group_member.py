"""A member of a consumer group: its subscriptions, its share of the queues, its offsets, its regular work.

The common part of `push_consumer` and `pull_consumer`. A member gets its queues by division among the members of the
group, or by ``assign``, which names them without a division. Java: ``DefaultMQPushConsumerImpl``,
``DefaultLitePullConsumerImpl``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from firearrow.client.consumer.broker_queries import Puller
from firearrow.client.consumer.broker_requests import BrokerRequests
from firearrow.client.consumer.direct_message import Call
from firearrow.client.consumer.division.offset_store import LocalOffsets, Offsets, RemoteOffsets
from firearrow.client.consumer.division.queue_locks import RENEW_S
from firearrow.client.consumer.division.rebalance import Membership
from firearrow.client.consumer.division.strategies import Strategy, checked_strategy
from firearrow.client.consumer.filter_check import check_filters
from firearrow.client.consumer.queue.acceptance import Accept, checked_accept
from firearrow.client.consumer.queue.intake import Receiver
from firearrow.client.consumer.queue.pauses import Pausable
from firearrow.client.consumer.queue.rebalance_listener import Announcer, RebalanceListener, checked_listener
from firearrow.client.consumer.rebalance_loop import RebalanceLoop
from firearrow.client.consumer.settings import FIRST, LAST, ConsumerSettings
from firearrow.client.consumer.stalls import Stall, StallWatch
from firearrow.client.consumer.subscription import (
    EVERYTHING,
    Expression,
    Subscription,
    Topics,
    doubt,
    expressions,
    subscription,
)
from firearrow.client.doors import Doors, system_doors
from firearrow.client.instance import Instance, client_id
from firearrow.client.misuse import check_loop
from firearrow.client.name_servers import NameServerSource
from firearrow.client.routes import Route
from firearrow.errors import ClientClosed, NoRoute, SettingsError
from firearrow.expression.cel.program import CEL
from firearrow.model import MessageQueue
from firearrow.model.names import AUTO_CREATE_TOPIC, TOOLS_CONSUMER_GROUP, is_retry_topic, retry_topic
from firearrow.protocol.bodies.group.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
)
from firearrow.runtime.clock import Clock
from firearrow.serializers import Deserializer, checked_function

log: Final = logging.getLogger(__name__)


class ConsumerParts(NamedTuple):
    """The parts of an open consumer."""

    instance: Instance
    receiver: Receiver
    rebalance: RebalanceLoop
    watch: StallWatch

    def begin(self, settings: ConsumerSettings) -> None:
        """Open the connections, and begin the regular work."""
        self.instance.open()
        spawn = self.instance.tasks.spawn
        spawn(self.rebalance.run(), "rebalance")
        spawn(self.watch.run(), "watch")
        if settings.auto_commit:
            spawn(_persist_on(self.receiver, settings.persist_ms / 1000), "offsets")
        if self.receiver.needs_locks:
            spawn(_renew_on(self.receiver), "locks")


class GroupMember:
    """One consumer of a group, open from ``open`` to ``close``."""

    def __init__(
        self,
        name_servers: NameServerSource,
        settings: ConsumerSettings,
        *,
        topics: Topics,
        strategy: Strategy | str,
        consume_type: ConsumeType,
        accept: Accept[Any] | None = None,
        deserializer: Deserializer[Any] | None = None,
        rebalance_listener: RebalanceListener | None = None,
        doors: Doors | None = None,
    ) -> None:
        self.settings: Final = settings
        self._deserializer = checked_function(deserializer, "deserializer", "bytes to a value")
        self._listener = checked_listener(rebalance_listener)
        self._addresses = name_servers
        self._strategy = checked_strategy(strategy)
        self._consume_type = consume_type
        self._accept = checked_accept(accept)
        self._given_doors = doors
        self._topics = expressions(topics)
        self._subscriptions: dict[str, Subscription] = {}
        self._parts: ConsumerParts | None = None
        self._is_closing = False
        self._requests: BrokerRequests | None = None
        self._begin()

    def _begin(self) -> None:
        """Reset all state, so that an earlier opening and its loop have no effect."""
        self._divide = asyncio.Event()
        self._commits = False

    # -- beginning and end

    async def open(self) -> None:
        """Join the group."""
        if self._parts is not None:
            raise ClientClosed("the consumer is open already; open it once, or close it first")
        self._begin()
        settings = self.settings
        doors = (self._given_doors or system_doors()).at(settings.client_ip)
        subscriptions = [subscription(*pair, version=doors.clock.now_ms()) for pair in self._topics.items()]
        held = [each for each in subscriptions if each.kind == CEL]  # not sent before brokers say that they know it
        for each in (each for each in subscriptions if each.kind != CEL):
            self._want(each)
        if self._consume_type is ConsumeType.CONSUME_PASSIVELY and not settings.broadcasting:
            again = retry_topic(settings.group)
            self._subscriptions[again] = subscription(again, EVERYTHING, version=doors.clock.now_ms())
        parts = self._parts = self._assembled(doors)
        if not self._topics and self._consume_type is ConsumeType.CONSUME_PASSIVELY:
            what = "group %s has no topic and waits for one: give topics=..., or call subscribe"
            log.warning(what, settings.group, extra={"group": settings.group})
        parts.begin(settings)
        await self._check_filters(parts.rebalance, held)
        if settings.wait_ready_ms:
            await self._wait_ready(parts.rebalance, settings.wait_ready_ms)

    def _assembled(self, doors: Doors) -> ConsumerParts:
        settings = self.settings
        requests = BrokerRequests(
            settings,
            self._subscriptions,
            self._divide.set,
            _wall_ms(doors.clock),
            doors.clock.now_ms(),
            self._deserializer,
        )
        identity = client_id(doors, settings.instance_name, settings.unit_name, is_stable=settings.broadcasting)
        instance = Instance(
            self._addresses,
            settings,
            identity,
            doors,
            lambda: self._heartbeat(identity),
            handlers=requests.handlers,
            on_route_change=self._route_changed,
        )
        puller = Puller(instance, settings.group)
        receiver = Receiver(
            instance,
            settings,
            puller,
            self._offsets(instance, puller),
            self._subscriptions,
            self._accept,
            is_push=self._consume_type is ConsumeType.CONSUME_PASSIVELY,
            deserializer=self._deserializer,
            announcer=self._announcer(),
        )
        requests.receiver, requests.tasks = receiver, instance.tasks
        self._requests = requests
        membership = Membership(instance, puller, settings.group, self._strategy, broadcasting=settings.broadcasting)
        rebalance = RebalanceLoop(settings, self._subscriptions, self._divide, instance, receiver, membership)
        watch = StallWatch(settings, self._addresses, instance, receiver, rebalance)
        return ConsumerParts(instance, receiver, rebalance, watch)

    async def _check_filters(self, rebalance: RebalanceLoop, held: Sequence[Subscription]) -> None:
        """Close and raise if a broker cannot filter as asked; else add the subscriptions that waited for that."""
        try:
            await check_filters(self.instance, self.settings.group, (*self._subscriptions.values(), *held))
            self._subscriptions.update({each.topic: each for each in held})
            if held:
                rebalance.is_ready.clear()
                await self._subscriptions_changed(self.instance)
        except BaseException:
            await self.close()
            raise

    async def _wait_ready(self, rebalance: RebalanceLoop, limit_ms: int) -> None:
        """Wait until the queues of every topic are divided; after the limit close and raise ``NoRoute`` with reasons.

        Without topics, wait until a name server answers.
        """
        who = f"group {self.settings.group}"
        try:
            if all(map(is_retry_topic, self._subscriptions)):
                await self.instance.wait_answer(AUTO_CREATE_TOPIC, limit_ms, who)
                return
            async with asyncio.timeout(limit_ms / 1000):
                await rebalance.is_ready.wait()
        except TimeoutError:
            reasons = "; ".join(f"topic {topic}: {reason}" for topic, (_, reason) in rebalance.undivided.items())
            await self.close()
            silent = "no name server has answered"
            raise NoRoute(f"{who} is not ready after {limit_ms} ms: {reasons or silent}") from None
        except BaseException:
            await self.close()
            raise

    def _announcer(self) -> Announcer | None:
        if self._listener is None:
            return None
        return Announcer(self._listener, self.settings.group, self.settings.rebalance_timeout_ms)

    def _offsets(self, instance: Instance, puller: Puller) -> Offsets:
        group = self.settings.group
        if self.settings.broadcasting:
            return LocalOffsets(instance.doors.offsets_disk(), instance.id, group)
        return RemoteOffsets(puller, group)

    async def close(self) -> None:
        """Commit, leave the group, close connections. Unsettled messages are delivered again to other members."""
        if self._parts is None or self._is_closing:
            return
        instance, receiver = self._parts.instance, self._parts.receiver
        if instance.is_of_another_process:
            self._parts = None  # loop and connections belong to the parent process
            return
        check_loop(instance.loop, "consumer", "close it in that loop, before the loop ends")
        self._is_closing = True  # tasks and handlers still run until the end and need the parts below
        try:
            await receiver.close()
            await instance.close(consumer_group=self.settings.group)
        finally:
            self._parts, self._is_closing = None, False

    @property
    def is_open(self) -> bool:
        """Whether the consumer is open and not closing."""
        return self._parts is not None and not self._is_closing

    def opened(self) -> ConsumerParts:
        """Return the parts; raise ``ClientClosed`` if the consumer is not open, or in another event loop."""
        parts = self.parts
        check_loop(parts.instance.loop, "consumer", "open one in the loop that uses it")
        return parts

    @property
    def parts(self) -> ConsumerParts:
        """Return the parts, to be read from any thread and loop; raise ``ClientClosed`` if the consumer is not open."""
        if self._parts is None:
            raise ClientClosed("the consumer is not open; use it inside an async with block")
        if self._parts.instance.is_of_another_process:
            raise ClientClosed("the consumer was opened in the process before a fork; open one here, after the fork")
        return self._parts

    @property
    def instance(self) -> Instance:
        """The client id and its connections."""
        return self.opened().instance

    @property
    def receiver(self) -> Receiver:
        """The owned queues."""
        return self.opened().receiver

    def handled_by(self, call: Call | None) -> None:
        """Let operators send messages directly to this handler."""
        if self._requests is not None:
            self._requests.call = call

    # -- what is subscribed

    async def subscribe(self, topic: str, expression: Expression = EVERYTHING) -> None:
        """Subscribe to a topic, or change the expression of a subscription."""
        instance, now = self.instance, self.instance.doors.clock.now_ms()
        wanted = subscription(topic, expression, version=now)
        await check_filters(instance, self.settings.group, (wanted,))
        self._want(wanted)
        await self._subscriptions_changed(instance)

    def _want(self, wanted: Subscription) -> None:
        self._subscriptions[wanted.topic] = wanted
        if reason := doubt(wanted):
            extra = {"group": self.settings.group, "topic": wanted.topic, "reason": reason}
            log.warning("group %s, topic %s: %s", self.settings.group, wanted.topic, reason, extra=extra)

    async def unsubscribe(self, topic: str) -> None:
        """End the subscription of a topic."""
        instance = self.instance
        self._subscriptions.pop(topic, None)
        await self._subscriptions_changed(instance)

    # -- pauses

    def pause(self, what: Sequence[Pausable]) -> None:
        """Stop delivery of these topics and queues, or of everything."""
        self._check_pausable(what)
        self.receiver.outlet.pause(what)

    def resume(self, what: Sequence[Pausable]) -> None:
        """Resume delivery of these topics and queues, or of everything."""
        self._check_pausable(what)
        self.receiver.outlet.resume(what)

    def _check_pausable(self, what: Sequence[object]) -> None:
        flows = self.receiver.flows
        topics = {*self._subscriptions, *(queue.topic for queue in flows)}
        for each in what:
            if isinstance(each, MessageQueue):
                if each not in flows:
                    raise SettingsError(f"{each} is not assigned to this consumer now; assignment lists those that are")
            elif not isinstance(each, str):
                raise SettingsError(f"{each!r} cannot be paused or resumed; give a topic or a MessageQueue")
            elif each not in topics:
                raise SettingsError(f"{each!r} is not subscribed; there are {', '.join(sorted(topics))}")

    async def _subscriptions_changed(self, instance: Instance) -> None:
        await instance.beat()
        self._divide.set()

    @property
    def _takes_part(self) -> bool:
        """Whether the member registers at brokers; a consumer that only reads does not create its group there."""
        if self.settings.group == TOOLS_CONSUMER_GROUP:
            return False
        has_queues = self._parts is not None and not self._parts.rebalance.divides
        return bool(self._subscriptions) or has_queues or self._commits

    async def announce(self) -> None:
        """Register the group at brokers, because it commits offsets now although it subscribes to nothing."""
        if not self._takes_part:
            self._commits = True
            await self.instance.beat()

    def _heartbeat(self, identity: str) -> HeartbeatData:
        settings = self.settings
        if not self._takes_part:
            return HeartbeatData(client_id=identity)
        starts = {
            FIRST: ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            LAST: ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        }
        mine = ConsumerData(
            group_name=settings.group,
            consume_type=self._consume_type.value,
            message_model=(MessageModel.BROADCASTING if settings.broadcasting else MessageModel.CLUSTERING).value,
            consume_from_where=starts.get(str(settings.start), ConsumeFromWhere.CONSUME_FROM_TIMESTAMP).value,
            subscription_data_set=[each.data() for each in self._subscriptions.values()],
        )
        return HeartbeatData(client_id=identity, consumer_data_set=[mine])

    # -- who reads what

    def _route_changed(self, _route: Route) -> None:
        self._divide.set()

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues; from now on queues are not divided among members."""
        instance, receiver, rebalance, _ = self.opened()
        takes_part = self._takes_part
        rebalance.stop()
        by_topic: dict[str, list[MessageQueue]] = {queue.topic: [] for queue in receiver.flows}
        for queue in queues:
            by_topic.setdefault(queue.topic, []).append(queue)
        for topic, some in by_topic.items():
            await instance.route(topic)
            receiver.assign(topic, some)
        if not takes_part:
            await instance.beat()

    def stalls(self) -> list[Stall]:
        """Return the queues that have messages but made no progress for ``stall_ms``, each with the reason."""
        return self.opened().watch.stalls()


async def _persist_on(receiver: Receiver, interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        await receiver.persist()


async def _renew_on(receiver: Receiver) -> None:
    while True:
        await asyncio.sleep(RENEW_S)
        await receiver.renew_locks()


def _wall_ms(clock: Clock) -> Callable[[float], int]:
    """Return what makes wall time of a time of the running loop; 0, which is never, stays 0."""
    loop = asyncio.get_running_loop()
    return lambda at: clock.now_ms() - int((loop.time() - at) * 1000) if at else 0
