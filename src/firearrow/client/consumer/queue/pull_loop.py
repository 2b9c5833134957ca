"""Reads one queue: finds its start, gets its lock if consumption is ordered, and pulls again and again.

Each queue has one task, which runs ``PullLoop.run``. It finds out where to start (if ordered, it first gets the
lock), then pulls again and again while there is room, with a long poll at the broker. The back-off after a transient
error is shorter than after a lasting one. Pulled messages go to ``take_in``.

Java: ``DefaultMQPushConsumerImpl.pullMessage``, ``RebalancePushImpl.computePullFromWhere``.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from firearrow.client.consumer.broker_queries import PulledBytes, Puller, PullOrder, PullStatus
from firearrow.client.consumer.division.offset_store import Offsets
from firearrow.client.consumer.division.queue_locks import TRUST_S, LockClient
from firearrow.client.consumer.division.rebalance import is_hopeless
from firearrow.client.consumer.queue.delivery_meter import DeliveryMeter
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.consumer.settings import DEFAULT_TIMESTAMP_AGO_MS, FIRST, LAST, ConsumerSettings
from firearrow.client.consumer.subscription import EVERYTHING, Subscription
from firearrow.client.instance import Instance
from firearrow.client.told_pause import told_pause_s
from firearrow.errors import FireArrowError, RequestRefused, Throttled
from firearrow.model import MessageQueue, StoredMessage
from firearrow.model.names import is_retry_topic
from firearrow.protocol.codes import ResponseCode

log: Final = logging.getLogger(__name__)

BUSY_S: Final = 0.02
FIRST_BACKOFF_S: Final = 0.1
LONGEST_BACKOFF_S: Final = 1.0
EMPTY_PAUSE_S: Final = 0.1
"""Back-off after a broker answered an empty pull at once instead of holding it (long poll)."""

TakeIn = Callable[[OwnedQueue, PulledBytes, list[StoredMessage]], None]


class PullLoop:
    """Reads the queues of one member."""

    def __init__(
        self,
        instance: Instance,
        settings: ConsumerSettings,
        puller: Puller,
        offsets: Offsets,
        subscriptions: Mapping[str, Subscription],
        take_in: TakeIn,
        meter: DeliveryMeter | None = None,
        *,
        commits_with_pulls: bool,
    ) -> None:
        self._meter = meter
        self._instance = instance
        self._settings = settings
        self._subscriptions = subscriptions
        self._take_in = take_in
        self._commits = commits_with_pulls and settings.auto_commit and not settings.broadcasting
        self._opened_ms = instance.doors.clock.now_ms()
        self.offsets: Final = offsets
        self.puller: Final = puller
        self.locks: Final = LockClient(instance, settings.group)
        self.needs_locks: Final = settings.ordered and not settings.broadcasting

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def run(self, flow: OwnedQueue) -> None:
        """Read a queue until cancelled."""
        await self._begin(flow)
        pauses = 0
        while True:
            await self._room(flow)
            asked_at, window = self._now(), flow.window
            flow.last_pull_at = asked_at
            try:
                pulled = await self.puller.pull(self._order(flow))
                messages = pulled.messages(self._settings.max_body_bytes)
            except FireArrowError as error:
                pauses += 1
                flow.error = str(error)
                if self._meter is not None:
                    self._meter.of(flow.queue.topic).pull_errors += 1
                await asyncio.sleep(await self._pause_after(flow, error, pauses))
                continue
            flow.error, pauses = "", 0
            if flow.window is window:  # else the queue was reset meanwhile, and this answer is outdated
                self._take_in(flow, pulled, messages)
            if self._settings.pull_interval_ms:
                await asyncio.sleep(self._settings.pull_interval_ms / 1000)
            elif pulled.status is PullStatus.NOTHING_NEW and self._now() - asked_at < EMPTY_PAUSE_S:
                await asyncio.sleep(EMPTY_PAUSE_S)

    async def _begin(self, flow: OwnedQueue) -> None:
        pauses = 0
        while not flow.is_started:
            try:
                if self.needs_locks and not await self._locked(flow):
                    flow.error = "another member holds its lock"
                    await asyncio.sleep(LONGEST_BACKOFF_S)
                    continue
                offset = await self._start_offset(flow.queue)
            except FireArrowError as error:
                pauses += 1
                flow.error = str(error)
                await asyncio.sleep(await self._pause_after(flow, error, pauses))
            else:
                flow.error = ""
                flow.restart(offset, self._now())

    async def _locked(self, flow: OwnedQueue) -> bool:
        asked_at = self._now()
        if flow.queue not in await self.locks.lock([flow.queue]):
            return False
        flow.locked_until = asked_at + TRUST_S
        return True

    async def _start_offset(self, queue: MessageQueue) -> int:
        stored = await self.offsets.read(queue)
        if stored is not None and stored >= 0:
            return stored
        start, is_retry = self._settings.start, is_retry_topic(queue.topic)
        if start == LAST:
            return 0 if is_retry else await self.puller.max_offset(queue)
        if start == FIRST:
            return await self.puller.min_offset(queue)
        if is_retry:
            return await self.puller.max_offset(queue)
        when = start if isinstance(start, int) else self._opened_ms - DEFAULT_TIMESTAMP_AGO_MS
        return await self.puller.offset_at(queue, when)

    async def _room(self, flow: OwnedQueue) -> None:
        while (full := _why_not_now(flow)) is not None:
            if self._meter is not None and not flow.full and not flow.is_paused:
                self._meter.of(flow.queue.topic).pauses += 1
            flow.full = full
            flow.room.clear()
            await flow.room.wait()
        flow.full = ""

    def _order(self, flow: OwnedQueue) -> PullOrder:
        settings = self._settings
        return PullOrder(
            flow.queue,
            flow.window.next_offset,
            self._subscriptions.get(flow.queue.topic) or Subscription(flow.queue.topic, EVERYTHING),
            settings.pull_batch,
            settings.pull_batch_bytes,
            settings.suspend_pull_ms,
            settings.pull_timeout_ms,
            self._to_commit(flow),
            flow.broker_id,
        )

    def _to_commit(self, flow: OwnedQueue) -> int | None:
        if not self._commits:
            return None
        self.note(flow)
        # As Java's client: 0 commits nothing; in Apache's brokers a pull that waited could overwrite a later commit.
        return self.offsets.table.get(flow.queue) or None

    def note(self, flow: OwnedQueue) -> None:
        """Note the committable offset of a queue, for the next commit."""
        if flow.is_started and not flow.window.is_dropped:
            self.offsets.table.note(flow.queue, flow.window.committable)

    async def _pause_after(self, flow: OwnedQueue, error: FireArrowError, count: int) -> float:
        self._say(flow, error)
        if isinstance(error, RequestRefused):
            if error.code == ResponseCode.SUBSCRIPTION_NOT_EXIST:
                await self._instance.beat()
                return LONGEST_BACKOFF_S
            if isinstance(error, Throttled):
                return told_pause_s(error, self._instance.doors.chance)
            return self._settings.pull_error_pause_ms / 1000 if is_hopeless(error) else BUSY_S
        self._instance.hurry()
        flow.broker_id = 0
        return min(FIRST_BACKOFF_S * count, LONGEST_BACKOFF_S)

    def _say(self, flow: OwnedQueue, error: FireArrowError) -> None:
        """Warn of a failed pull, unless the broker is busy or does not know the group yet, which is normal."""
        queue, reason = flow.queue, f"{error}{_advice(error)}"
        extra = {"queue": str(queue), "reason": reason}
        what = "a pull of topic %s, %s:%d failed: %s"
        if isinstance(error, RequestRefused) and (
            not is_hopeless(error) or error.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        ):
            log.info(what, queue.topic, queue.broker_name, queue.queue_id, reason, extra=extra)
            return
        kind = f"pull {queue.topic} {queue.broker_name} {type(error).__name__}"
        values = queue.topic, queue.broker_name, queue.queue_id, reason
        self._instance.trouble.say(self._now(), kind, what, *values, **extra)


def _why_not_now(flow: OwnedQueue) -> str | None:
    """Return why pulling must wait now, or None."""
    return "it is paused" if flow.is_paused else flow.window.fullness(flow.limits, ordered=flow.ordered)


def _advice(error: FireArrowError) -> str:
    if "filter message by" not in str(error):
        return ""
    return "; set enablePropertyFilter=true in the broker.conf, or filter by tags or with accept=..."
