"""The owned queues of one member: how they come and go, their locks, and their offsets.

Each queue has one task (`queue_reader`), which gives the pulled messages to the `outlet`, where handlers get them;
`settlement` decides what becomes of them after that.

Java: ``ConsumeMessageConcurrentlyService``, ``ConsumeMessageOrderlyService``, ``RebalancePushImpl``.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from firearrow.client.consumer.broker_queries import PulledBytes, Puller, PullStatus
from firearrow.client.consumer.division.offset_store import Offsets
from firearrow.client.consumer.division.queue_locks import TRUST_S, LockClient
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.queue.acceptance import Accept, Acceptance
from firearrow.client.consumer.queue.delivery_meter import DeliveryMeter
from firearrow.client.consumer.queue.departure import Departures, tell_of_departure
from firearrow.client.consumer.queue.outlet import Outlet
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.consumer.queue.pull_loop import PullLoop
from firearrow.client.consumer.queue.rebalance_listener import Announcer
from firearrow.client.consumer.queue.settlement import Settlement
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.consumer.subscription import Subscription
from firearrow.client.instance import Instance
from firearrow.client.metrics.counts import HeldMessages
from firearrow.errors import FireArrowError
from firearrow.model import MessageQueue, StoredMessage
from firearrow.serializers import Deserializer

log: Final = logging.getLogger(__name__)

CLOSING_S: Final = 5.0
"""Seconds that a close waits for departing queues to commit and unlock."""


class Receiver:
    """The owned queues of one member."""

    def __init__(
        self,
        instance: Instance,
        settings: ConsumerSettings,
        puller: Puller,
        offsets: Offsets,
        subscriptions: Mapping[str, Subscription],
        accept: Accept[Any] | None = None,
        *,
        is_push: bool = True,
        deserializer: Deserializer[Any] | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        self._instance = instance
        self._settings = settings
        self.meter: Final = (
            DeliveryMeter(settings.metrics, settings.group, instance.doors.clock) if settings.metrics else None
        )
        # Brokers do not order pulls and commits: a pull that was sent earlier could overwrite a manual commit of a
        # pull consumer.
        meter = self.meter
        self._reader = PullLoop(
            instance, settings, puller, offsets, subscriptions, self._take_in, meter, commits_with_pulls=is_push
        )
        self._announcer = announcer
        self.puller: Final = puller
        self.locks: Final[LockClient] = self._reader.locks
        self.needs_locks: Final = self._reader.needs_locks
        self.offsets: Final = offsets
        self.flows: Final[dict[MessageQueue, OwnedQueue]] = {}
        leaving: dict[MessageQueue, OwnedQueue] = {}
        self.outlet: Final = Outlet(self.flows, leaving, meter)
        self.acceptance: Final = Acceptance(self.outlet, accept, raises=not is_push)
        self.settlement: Final = Settlement(instance, settings, self.outlet, deserializer, meter)
        self._subscriptions = subscriptions
        self._departures = Departures(instance, settings, self._reader, announcer, self.outlet, leaving)
        if meter is not None:
            meter.counts.add(self)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def counts(self) -> dict[str, int]:
        """Failed deliveries and rejected messages since the consumer was opened, by their names in the running info."""
        return {"failedDeliveries": self.settlement.failures, "rejectedMessages": self.acceptance.rejected}

    def held(self) -> list[HeldMessages]:
        """Return what the member holds of each topic, read from any thread; nothing in a copy that a fork made."""
        if self._instance.is_of_another_process:
            return []
        by_topic: dict[str, HeldMessages] = {}
        for flow in list(self.flows.values()):
            topic, window = flow.queue.topic, flow.window
            lag = max(0, flow.max_offset - window.next_offset) + len(window)
            is_full = bool(flow.full) and not flow.is_paused
            held = HeldMessages(self._settings.group, topic, 1, int(is_full), len(window), window.size_bytes, lag)
            by_topic[topic] = held.beside(by_topic[topic]) if topic in by_topic else held
        return list(by_topic.values())

    # -- queues come and go

    def assign(self, topic: str, queues: Iterable[MessageQueue]) -> bool:
        """Own exactly these queues of a topic; return whether that changed the owned queues."""
        mine = sorted(queues)
        changed = False
        for queue in [queue for queue in self.flows if queue.topic == topic and queue not in mine]:
            self._revoke(queue)
            changed = True
        came = [self._begun(queue) for queue in mine if queue not in self.flows]
        if came:
            self._announce(came)
            for flow in came:
                self._start(flow)
            changed = True
        if changed and mine:
            limits = self._settings.window_among(len(mine))
            for queue in mine:
                self.flows[queue].limits = limits
                self.flows[queue].room.set()
        if changed and self.meter is not None:
            self.meter.of(topic).rebalances += 1
        return changed

    def _begun(self, queue: MessageQueue) -> OwnedQueue:
        flow = self.flows[queue] = OwnedQueue(queue, ordered=self._settings.ordered)
        flow.moved_at = self._now()
        flow.locked_until = 0.0 if self.needs_locks else float("inf")
        flow.is_paused = self.outlet.pauses.covers(queue)
        return flow

    def _announce(self, flows: list[OwnedQueue]) -> None:
        """Call the listener for assigned queues, if there is one."""
        if self._announcer is not None:
            telling = self._instance.tasks.spawn(self._tell(self._announcer, flows), "announce")
            for flow in flows:
                flow.announcement = telling

    async def _tell(self, announcer: Announcer, flows: list[OwnedQueue]) -> None:
        for flow in flows:
            await self._departures.over(flow.queue)
        here = [flow for flow in flows if self.flows.get(flow.queue) is flow]
        for flow in here:
            flow.is_announced = True
        if here:
            await announcer.assigned([flow.queue for flow in here])

    def _start(self, flow: OwnedQueue) -> None:
        queue = flow.queue
        name = f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
        flow.task = self._instance.tasks.spawn(self._run(flow), name)

    async def _run(self, flow: OwnedQueue) -> None:
        await self._departures.over(flow.queue)
        if flow.announcement is not None:
            await asyncio.wait([flow.announcement])
        await self._reader.run(flow)

    def _revoke(self, queue: MessageQueue) -> None:
        flow = self.flows.pop(queue)
        self.outlet.pauses.forget(queue)
        if queue in self._departures.flows:  # it waits for its earlier departure and has not begun
            flow.drop()
            if flow.task is not None:
                flow.task.cancel()
        else:
            self._departures.begin(flow)

    async def close(self) -> None:
        """Give up every queue. Handlers that still run have no effect any more.

        The lock of an ordered queue whose handler still runs is left to expire: other members begin after that.
        """
        if self.meter is not None:
            self.meter.counts.remove(self)
        self.outlet.ready.close()
        flows = list(self.flows.values())
        for flow in flows:
            flow.is_leaving = True
            if flow.task is not None:
                flow.task.cancel()
        flows += [flow for flow in self._departures.flows.values() if flow.is_handled]
        await self._drain(flows)
        await self._departures.close(CLOSING_S)
        if self._settings.auto_commit:
            await self.persist()
        if self._announcer is not None:
            await tell_of_departure(self._announcer, flows)
        for flow in flows:
            flow.drop()
        if self.needs_locks:
            await self.locks.unlock(flow.queue for flow in flows if flow.is_started and not flow.is_handled)

    async def _drain(self, flows: Iterable[OwnedQueue]) -> None:
        """Wait until the handlers of queues have ended, for ``drain_ms`` at the most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_ms / 1000):
                for flow in flows:
                    await flow.idle.wait()

    # -- offsets

    async def persist(self) -> FireArrowError | None:
        """Commit the offset of every queue; return the error if that failed for a queue, else None.

        A departing queue is committed only while it is locked, or if the application commits by itself: otherwise
        another member may have committed a higher offset.
        """
        for flow in self.flows.values():
            self._reader.note(flow)
        for flow in self._departures.flows.values():
            if flow.ordered or not self._settings.auto_commit:
                self._reader.note(flow)
        return await self.offsets.persist()

    def reset(self, queue: MessageQueue, offset: int) -> bool:
        """Continue a queue at another offset; return False if this member does not own it."""
        flow = self.flows.get(queue)
        if flow is None:
            return False
        self._move(flow, offset)
        if flow.task is not None:
            flow.task.cancel()  # its pull may wait at the broker for messages after the old offset
        self._start(flow)
        return True

    def _move(self, flow: OwnedQueue, offset: int) -> None:
        flow.restart(offset, self._now())
        self.offsets.table.note(flow.queue, offset, is_reset=True)

    # -- locks

    async def renew_locks(self) -> None:
        """Renew the locks of all queues; a queue locked again continues at the committed offset.

        A departing queue keeps its lock while its handler still runs.
        """
        asked_at = self._now()
        flows = [flow for flow in (*self.flows.values(), *self._departures.flows.values()) if flow.is_started]
        ours = await self.locks.lock(flow.queue for flow in flows)
        for flow in flows:
            if flow.queue not in ours or flow.is_leaving:
                continue
            if self._now() >= flow.locked_until:  # another member may have read on meanwhile
                if flow.is_handled:
                    continue  # an earlier handler still runs, so nothing is delivered; the next renewal checks again
                await self._resume(flow)
            flow.locked_until = asked_at + TRUST_S
            self.outlet.offer(flow)

    async def _resume(self, flow: OwnedQueue) -> None:
        try:
            stored = await self.offsets.read(flow.queue)
        except FireArrowError as error:
            flow.error = str(error)
            return
        if stored is not None:
            flow.restart(stored, self._now())

    # -- what came

    def _take_in(self, flow: OwnedQueue, pulled: PulledBytes, messages: list[StoredMessage]) -> None:
        flow.broker_id, flow.max_offset = pulled.suggested_broker_id, pulled.max_offset
        if pulled.status is PullStatus.OFFSET_MOVED:
            was, now = flow.window.next_offset, pulled.next_offset
            log.warning(
                "%s continues at offset %d instead of %d: its broker has no messages between",
                flow.queue,
                now,
                was,
                extra={"queue": str(flow.queue), "was": was, "now": now},
            )
            self._move(flow, pulled.next_offset)
            return
        subscription = self._subscriptions.get(flow.queue.topic)
        if subscription is not None and subscription.tags:
            messages = [message for message in messages if subscription.wants(message.tag)]
        if self.meter is not None:
            self.meter.pulled(flow.queue.topic, pulled, messages)
        fresh = flow.window.extend(messages, pulled.next_offset)
        received = [ReceivedMessage(stored, flow.queue, flow.window, self.settlement) for stored in fresh]
        for message in received:
            if message.stored.body_fault:
                _warn_of_body(message)
        if self.meter is not None:
            self.meter.arrived(received)
        self.outlet.put(flow, received)


def _warn_of_body(message: ReceivedMessage[Any]) -> None:
    log.warning(
        "the body of %s (%s) cannot be read: %s",
        message.message_id,
        message.place,
        message.body_fault,
        extra={
            "id": message.message_id,
            "queue": str(message.queue),
            "offset": message.queue_offset,
            "reason": message.body_fault,
        },
    )
