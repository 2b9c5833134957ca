"""Queues of a consumer that make no progress: which, for how long, and why; and handlers that hold a message too long.

``why_stuck`` gives the reason of a stall; it is pure. `StallWatch` warns of every stall once, and sends messages back
whose handlers exceed ``consume_timeout_ms``.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.queue.intake import Receiver
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.consumer.rebalance_loop import RebalanceLoop
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.instance import Instance
from firearrow.client.name_servers import NameServerSource
from firearrow.model import MessageQueue

log: Final = logging.getLogger(__name__)

NO_QUEUE: Final = -1
"""Queue number in a stall of a topic without known queues, or of a whole consumer."""
SILENT_S: Final = 2.0
"""Seconds without a successful division before a warning that no name server has answered."""


class Stall(Struct, frozen=True):
    """A queue without progress, and the reason."""

    queue: MessageQueue
    offset: int
    seconds: float
    reason: str


def why_stuck(flow: OwnedQueue, now: float, *, busy_workers: str) -> str:
    """Return the reason why a queue makes no progress, as text."""
    oldest = flow.oldest
    if not flow.is_started:
        return f"it has not started: {flow.error or 'its offset is not known yet'}"
    if flow.ordered and now >= flow.locked_until:
        return "its lock is held by another member of the group, or could not be had"
    if flow.outdated:
        return f"{_who_has(flow.outdated[0], now)}, delivered before the queue continued at another offset"
    if oldest is not None:
        held = flow.handed.get(oldest.queue_offset)
        if held is not None and held._handed_at is not None:
            return _who_has(held, now)
        return f"the message at offset {oldest.queue_offset} waits for a handler: {busy_workers}"
    if flow.error:
        return f"pulls fail: {flow.error}"
    return f"offset {flow.window.next_offset} is not delivered although the queue reaches {flow.max_offset}"


def _who_has(held: ReceivedMessage[Any], now: float) -> str:
    return (
        f"{held._holder or 'somebody'} has had the message at offset {held.queue_offset} "
        f"({held.message_id}) for {now - (held._handed_at or now):.0f} s and has not settled it"
    )


def who_is_busy(flows: Iterable[OwnedQueue]) -> str:
    """Return which handlers have the messages of these queues, as text."""
    held = [message for flow in flows for message in flow.handed.values() if message._handed_at is not None]
    if not held:
        return "no task takes messages; call run, or iterate"
    holders = sorted({message._holder for message in held})
    return f"{len(held)} messages are in the hands of {', '.join(holders)}"


def spoken(queue: MessageQueue) -> str:
    """Return the name of a queue for log lines."""
    if queue.queue_id == NO_QUEUE:
        return f"topic {queue.topic}" if queue.topic else "the consumer"
    return f"queue {queue.broker_name}:{queue.queue_id} of topic {queue.topic}"


class StallWatch:
    """Watches the queues of one open consumer."""

    def __init__(
        self,
        settings: ConsumerSettings,
        addresses: NameServerSource,
        instance: Instance,
        receiver: Receiver,
        rebalance: RebalanceLoop,
    ) -> None:
        self._settings = settings
        self._addresses = addresses
        self._instance = instance
        self._receiver = receiver
        self._rebalance = rebalance

    async def run(self) -> None:
        """Look for stalls and slow handlers until cancelled."""
        await asyncio.sleep(SILENT_S)
        if not self._rebalance.has_divided and self._rebalance.divides:
            where = (
                self._addresses.url.address if self._addresses.url else ";".join(map(str, self._addresses.addresses))
            )
            what = "group %s has no queues yet: the name servers at %s have not answered for %.0f s"
            log.warning(what, self._settings.group, where, SILENT_S, extra={"group": self._settings.group})
        reported: dict[MessageQueue, int] = {}
        while True:
            await asyncio.sleep(self._settings.stall_ms / 4000)
            for stall in self.stalls():
                if reported.get(stall.queue) != stall.offset:
                    reported[stall.queue] = stall.offset
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
        """Send back messages whose handlers exceed ``consume_timeout_ms``."""
        now, limit_s = asyncio.get_running_loop().time(), self._settings.consume_timeout_ms / 1000
        if self._settings.ordered:
            return
        for flow in list(self._receiver.flows.values()):
            for message in list(flow.handed.values()):
                if message._handed_at is not None and now - message._handed_at > limit_s:
                    log.error(
                        "%s has had %s (%s) for longer than consume_timeout_ms (%d), it is delivered again",
                        message._holder,
                        message.message_id,
                        message.place,
                        self._settings.consume_timeout_ms,
                        extra={"id": message.message_id, "holder": message._holder},
                    )
                    await message.retry(3)

    def stalls(self) -> list[Stall]:
        """Return the queues that have messages but made no progress for ``stall_ms``, each with the reason.

        A topic whose queues are not known counts as one queue, numbered -1.
        """
        now = asyncio.get_running_loop().time()
        patience_s = self._settings.stall_ms / 1000
        found = [
            Stall(MessageQueue(topic, "", NO_QUEUE), 0, now - since, f"its queues could not be divided: {reason}")
            for topic, (since, reason) in self._rebalance.undivided.items()
            if now - since > patience_s
        ]
        if self._instance.tasks.failure:
            found.append(
                Stall(MessageQueue("", "", NO_QUEUE), 0, 0.0, f"this is a bug: {self._instance.tasks.failure}")
            )
        for flow in self._receiver.flows.values():
            self._receiver.outlet.note_movement(flow, now)
            if flow.is_behind and now - flow.moved_at > patience_s:
                reason = why_stuck(flow, now, busy_workers=who_is_busy(self._receiver.flows.values()))
                found.append(Stall(flow.queue, flow.window.committable, now - flow.moved_at, reason))
        return found
