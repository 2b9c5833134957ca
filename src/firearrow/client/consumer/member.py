"""A member of a consumer group: its subscriptions, its share of the queues, its offsets, its regular work.

What the faces (`push`, `pull`) have in common. Queues come by division among the members of the group, or by
``assign``, which divides nothing and asks nobody. Java: ``DefaultMQPushConsumerImpl``, ``DefaultLitePullConsumerImpl``.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from firearrow.client.consumer.assignment import Strategy, checked_strategy
from firearrow.client.consumer.direct import Call
from firearrow.client.consumer.flow import NO_QUEUE, Stall, spoken, who_is_busy, why_stuck
from firearrow.client.consumer.handling import Filter
from firearrow.client.consumer.membership import Membership
from firearrow.client.consumer.offsets import BrokerOffsets, LocalOffsets, Offsets
from firearrow.client.consumer.ordering import RENEW_S
from firearrow.client.consumer.pausing import Pausable
from firearrow.client.consumer.pulling import Puller
from firearrow.client.consumer.rebalance import Announcer, RebalanceListener, checked_listener
from firearrow.client.consumer.receiving import Receiver
from firearrow.client.consumer.requests import BrokerRequests
from firearrow.client.consumer.settings import FIRST, LAST, ConsumerSettings
from firearrow.client.consumer.subscription import (
    EVERYTHING,
    TAG,
    Subscription,
    Topics,
    doubt,
    expressions,
    subscription,
)
from firearrow.client.doors import Doors, system_doors
from firearrow.client.instance import Instance, Rhythm, client_id
from firearrow.client.misuse import check_loop
from firearrow.client.nameservers import Whereabouts
from firearrow.client.routes import Route
from firearrow.errors import ClientClosed, NoRoute, SettingsError
from firearrow.model import MessageQueue
from firearrow.model.names import AUTO_CREATE_TOPIC, TOOLS_CONSUMER_GROUP, is_retry_topic, retry_topic
from firearrow.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
)
from firearrow.serializers import Deserializer, checked_function

log: Final = logging.getLogger(__name__)

UNSETTLED_S: Final = 1.0
"""How soon queues are divided again when that did not work for all topics."""
UNDIVIDED_S: Final = 0.9
"""How long a topic may be without its queues before that is said: a group that begins needs a moment."""
SILENT_S: Final = 2.0
"""After so long without any division it is said that nobody has answered yet."""
MIN_REBALANCE_S: Final = 0.1


class Member:
    """One consumer of a group, open from ``open`` to ``close``."""

    def __init__(
        self,
        name_servers: Whereabouts,
        settings: ConsumerSettings,
        *,
        topics: Topics,
        strategy: Strategy | str,
        consume_type: ConsumeType,
        wanted: Filter[Any] | None = None,
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
        self._wanted = checked_function(wanted, "wanted", "a message to True or False")
        self._given_doors = doors
        self._topics = expressions(topics)
        self._subscriptions: dict[str, Subscription] = {}
        self._parts: tuple[Instance, Receiver, Membership] | None = None
        self._is_closing = False
        self._requests: BrokerRequests | None = None
        self._begin()

    def _begin(self) -> None:
        """Know nothing: what an opening before this one found out does not count, nor does its loop."""
        self._divide = asyncio.Event()
        self._divides = True
        self._commits = False
        self._has_divided = False
        self._is_ready = asyncio.Event()
        self._undivided: dict[str, tuple[float, str]] = {}

    # -- beginning and end

    async def open(self) -> None:
        """Join the group."""
        if self._parts is not None:
            raise ClientClosed("the consumer is open already; open it once, or close it first")
        self._begin()
        settings = self.settings
        doors = (self._given_doors or system_doors()).at(settings.client_ip)
        for topic, expression in self._topics.items():
            self._want(subscription(topic, expression, version=doors.clock.now_ms()))
        if self._consume_type is ConsumeType.CONSUME_PASSIVELY and not settings.broadcasting:
            again = retry_topic(settings.group)
            self._subscriptions[again] = subscription(again, EVERYTHING, version=doors.clock.now_ms())
        loop = asyncio.get_running_loop()
        requests = BrokerRequests(
            settings,
            self._subscriptions,
            self._divide.set,
            lambda at: doors.clock.now_ms() - int((loop.time() - at) * 1000) if at else 0,
            self._deserializer,
        )
        identity = client_id(doors, settings.instance_name, settings.unit_name, is_stable=settings.broadcasting)
        instance = Instance(
            self._addresses,
            identity,
            doors,
            lambda: self._heartbeat(identity),
            rhythm=Rhythm(
                settings.poll_name_server_ms,
                settings.heartbeat_ms,
                settings.fetch_name_server_ms,
                settings.request_timeout_ms,
            ),
            handlers=requests.handlers,
            access=settings.access,
            on_route_change=self._route_changed,
        )
        puller = Puller(instance, settings.group)
        receiver = Receiver(
            instance,
            settings,
            puller,
            self._offsets(instance, puller),
            self._subscriptions,
            self._wanted,
            # Brokers order nothing between a pull and a commit: who commits by hand would be overtaken by an old pull.
            commits_with_pulls=self._consume_type is ConsumeType.CONSUME_PASSIVELY,
            deserializer=self._deserializer,
            announcer=self._announcer(),
        )
        requests.receiver, requests.tasks = receiver, instance.tasks
        self._requests = requests
        membership = Membership(instance, puller, settings.group, self._strategy, broadcasting=settings.broadcasting)
        self._parts = instance, receiver, membership
        if not self._topics and self._consume_type is ConsumeType.CONSUME_PASSIVELY:
            what = "group %s has no topic and waits for one: give topics=..., or call subscribe"
            log.warning(what, settings.group, extra={"group": settings.group})
        instance.open()
        for work, name in (
            (self._divide_on(), "rebalance"),
            (self._watch_on(), "watch"),
        ):
            instance.tasks.spawn(work, name)
        if settings.auto_commit:
            instance.tasks.spawn(self._persist_on(), "offsets")
        if receiver.needs_locks:
            instance.tasks.spawn(self._renew_on(), "locks")

        if settings.wait_ready_ms:
            await self._wait_ready(settings.wait_ready_ms)

    async def _wait_ready(self, limit_ms: int) -> None:
        """Wait until every topic is divided; close and raise ``NoRoute`` with the reasons when that takes too long.

        Without any topic it waits until a name server answers.
        """
        who = f"group {self.settings.group}"
        try:
            if all(map(is_retry_topic, self._subscriptions)):
                await self.instance.wait_answer(AUTO_CREATE_TOPIC, limit_ms, who)
                return
            async with asyncio.timeout(limit_ms / 1000):
                await self._is_ready.wait()
        except TimeoutError:
            reasons = "; ".join(f"topic {topic}: {reason}" for topic, (_, reason) in self._undivided.items())
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
        return BrokerOffsets(puller, group)

    async def close(self) -> None:
        """Commit, leave the group, end every connection. Messages that are not settled come again elsewhere."""
        if self._parts is None or self._is_closing:
            return
        instance, receiver, _ = self._parts
        if instance.is_of_another_process:
            self._parts = None  # its loop and connections are the other's
            return
        check_loop(instance.loop, "consumer", "close it in that loop, before the loop ends")
        self._is_closing = True  # its own tasks and its handlers go on until the end, and find their way to it
        try:
            await receiver.close()
            await instance.close(consumer_group=self.settings.group)
        finally:
            self._parts, self._is_closing = None, False

    @property
    def is_open(self) -> bool:
        """Whether it has been opened and nobody closes it."""
        return self._parts is not None and not self._is_closing

    def opened(self) -> tuple[Instance, Receiver, Membership]:
        """Its parts; raise ``ClientClosed`` when there are none, and in another loop than theirs."""
        parts = self.parts
        check_loop(parts[0].loop, "consumer", "open one in the loop that uses it")
        return parts

    @property
    def parts(self) -> tuple[Instance, Receiver, Membership]:
        """Its parts for a look from any thread and loop; raise ``ClientClosed`` when there are none."""
        if self._parts is None:
            raise ClientClosed("the consumer is not open; use it inside an async with block")
        if self._parts[0].is_of_another_process:
            raise ClientClosed("the consumer was opened in the process before a fork; open one here, after the fork")
        return self._parts

    @property
    def instance(self) -> Instance:
        """Its id and connections."""
        return self.opened()[0]

    @property
    def receiver(self) -> Receiver:
        """Its queues."""
        return self.opened()[1]

    def handled_by(self, call: Call | None) -> None:
        """Let operators hand messages to this handler."""
        if self._requests is not None:
            self._requests.call = call

    # -- what is subscribed

    async def subscribe(self, topic: str, expression: str = EVERYTHING, *, kind: str = TAG) -> None:
        """Want a topic from now on, or want something else of it."""
        instance, now = self.instance, self.instance.doors.clock.now_ms()
        self._want(subscription(topic, expression, version=now, kind=kind))
        await self._subscriptions_changed(instance)

    def _want(self, wanted: Subscription) -> None:
        self._subscriptions[wanted.topic] = wanted
        if reason := doubt(wanted):
            extra = {"group": self.settings.group, "topic": wanted.topic, "reason": reason}
            log.warning("group %s wants of topic %s: %s", self.settings.group, wanted.topic, reason, extra=extra)

    async def unsubscribe(self, topic: str) -> None:
        """Want nothing more of a topic."""
        instance = self.instance
        self._subscriptions.pop(topic, None)
        await self._subscriptions_changed(instance)

    # -- pauses

    def pause(self, what: Sequence[Pausable]) -> None:
        """Hand nothing over of these topics and queues, or nothing at all."""
        self._check_pausable(what)
        self.receiver.pause(what)

    def resume(self, what: Sequence[Pausable]) -> None:
        """Go on with these topics and queues, or with everything."""
        self._check_pausable(what)
        self.receiver.resume(what)

    def _check_pausable(self, what: Sequence[object]) -> None:
        flows = self.receiver.flows
        topics = {*self._subscriptions, *(queue.topic for queue in flows)}
        for each in what:
            if isinstance(each, MessageQueue):
                if each not in flows:
                    raise SettingsError(f"{each} is not assigned to this consumer now; assignment tells which are")
            elif not isinstance(each, str):
                raise SettingsError(f"{each!r} cannot be paused or resumed; give a topic or a MessageQueue")
            elif each not in topics:
                raise SettingsError(f"{each!r} is not subscribed; there are {', '.join(sorted(topics))}")

    async def _subscriptions_changed(self, instance: Instance) -> None:
        await instance.beat()
        self._divide.set()

    @property
    def _takes_part(self) -> bool:
        """Whether brokers are to know of this member; whoever only looks joins no group, and leaves no trace of one."""
        if self.settings.group == TOOLS_CONSUMER_GROUP:
            return False
        return bool(self._subscriptions) or not self._divides or self._commits

    async def announce(self) -> None:
        """Let brokers know of the group, which commits now though it reads nothing by itself."""
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

    async def _divide_on(self) -> None:
        instance, _, _ = self.opened()
        for topic in list(self._subscriptions):
            instance.want(topic)
        is_first = True
        while self._divides:
            self._divide.clear()
            is_settled = await self._divide_once(is_first=is_first)
            is_first = False
            pause_s = self.settings.rebalance_ms / 1000
            try:
                async with asyncio.timeout(pause_s if is_settled else min(pause_s, UNSETTLED_S)):
                    await self._divide.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(MIN_REBALANCE_S)  # several notices at once make one division

    async def _divide_once(self, *, is_first: bool) -> bool:
        instance, receiver, membership = self.opened()
        known = instance.routes.topics()
        division = await membership.divide(self._subscriptions)
        if is_first or known != instance.routes.topics():
            # Brokers that were not known before have not heard of this member: tell them, then ask again.
            await instance.beat()
            division = await membership.divide(self._subscriptions)
        self._has_divided = True
        if not self._divides:
            return True
        now = asyncio.get_running_loop().time()
        self._undivided = {
            topic: (self._undivided.get(topic, (now, ""))[0], reason) for topic, reason in division.unknown.items()
        }
        self._say_undivided(instance, now)
        if division.is_settled:
            self._is_ready.set()
        for topic, queues in division.queues.items():
            receiver.assign(topic, queues)
        for topic in {queue.topic: None for queue in receiver.flows}:
            if topic not in self._subscriptions:
                receiver.assign(topic, ())
        return division.is_settled

    def _say_undivided(self, instance: Instance, now: float) -> None:
        """Warn of topics whose queues this member does not get, once that has lasted a moment."""
        for topic, (since, reason) in self._undivided.items():
            if now - since >= UNDIVIDED_S:
                what = "group %s gets nothing of topic %s: %s"
                extra = {"topic": topic, "reason": reason}
                instance.trouble.say(now, f"topic {topic}", what, self.settings.group, topic, reason, **extra)

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, whatever other members do; there is no division any more."""
        takes_part, self._divides = self._takes_part, False
        self._divide.set()
        _, receiver, _ = self.opened()
        by_topic: dict[str, list[MessageQueue]] = {queue.topic: [] for queue in receiver.flows}
        for queue in queues:
            by_topic.setdefault(queue.topic, []).append(queue)
        for topic, some in by_topic.items():
            await self.instance.route(topic)
            receiver.assign(topic, some)
        if not takes_part:
            await self.instance.beat()

    # -- regular work

    async def _persist_on(self) -> None:
        _, receiver, _ = self.opened()
        while True:
            await asyncio.sleep(self.settings.persist_ms / 1000)
            await receiver.persist()

    async def _renew_on(self) -> None:
        _, receiver, _ = self.opened()
        while True:
            await asyncio.sleep(RENEW_S)
            await receiver.renew_locks()

    async def _watch_on(self) -> None:
        await asyncio.sleep(SILENT_S)
        if not self._has_divided and self._divides:
            where = (
                self._addresses.url.address if self._addresses.url else ";".join(map(str, self._addresses.addresses))
            )
            what = "group %s has no queues yet: the name servers at %s have not answered for %.0f s"
            log.warning(what, self.settings.group, where, SILENT_S, extra={"group": self.settings.group})
        told: dict[MessageQueue, int] = {}
        while True:
            await asyncio.sleep(self.settings.stall_ms / 4000)
            for stall in self.stalls():
                if told.get(stall.queue) != stall.offset:
                    told[stall.queue] = stall.offset
                    extra = {"queue": str(stall.queue), "offset": stall.offset, "reason": stall.reason}
                    log.warning(
                        "%s has not moved from offset %d for %.0f s: %s",
                        spoken(stall.queue),
                        stall.offset,
                        stall.seconds,
                        stall.reason,
                        extra=extra,
                    )
            await self._take_from_the_slow()

    async def _take_from_the_slow(self) -> None:
        """Send messages back whose handlers take longer than they may."""
        _, receiver, _ = self.opened()
        now, limit_s = asyncio.get_running_loop().time(), self.settings.consume_timeout_ms / 1000
        if self.settings.ordered:
            return
        for flow in list(receiver.flows.values()):
            for message in list(flow.handed.values()):
                if message._handed_at is not None and now - message._handed_at > limit_s:
                    log.error(
                        "%s has had %s (%s) for longer than consume_timeout_ms (%d), it comes again",
                        message._holder,
                        message.message_id,
                        message.place,
                        self.settings.consume_timeout_ms,
                        extra={"id": message.message_id, "holder": message._holder},
                    )
                    await message.retry(3)

    def stalls(self) -> list[Stall]:
        """The queues that have not moved for ``stall_ms`` although they should, each with the reason.

        A topic whose queues are not even known counts as one queue, numbered -1.
        """
        instance, receiver, _ = self.opened()
        now = asyncio.get_running_loop().time()
        patience_s = self.settings.stall_ms / 1000
        found = [
            Stall(MessageQueue(topic, "", NO_QUEUE), 0, now - since, f"its queues could not be divided: {reason}")
            for topic, (since, reason) in self._undivided.items()
            if now - since > patience_s
        ]
        if instance.tasks.failure:
            found.append(Stall(MessageQueue("", "", NO_QUEUE), 0, 0.0, f"this is a bug: {instance.tasks.failure}"))
        for flow in receiver.flows.values():
            receiver.note_movement(flow, now)
            if flow.is_behind and now - flow.moved_at > patience_s:
                reason = why_stuck(flow, now, busy_workers=who_is_busy(receiver.flows.values()))
                found.append(Stall(flow.queue, flow.window.committable, now - flow.moved_at, reason))
        return found
