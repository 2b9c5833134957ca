"""Queues that move to other members: handlers end, offsets are committed, the listener is called, locks are released.

An ordered queue keeps its lock until then, so the next member begins after that. A concurrent queue has no lock: the
next member may have begun already, so finished messages are committed at once, and nothing waits for handlers unless
the application has a ``rebalance_listener``, which is called when they have ended.

Java: ``RebalancePushImpl.removeUnnecessaryMessageQueue``.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from firearrow.client.consumer.queue.outlet import Outlet
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.consumer.queue.pull_loop import PullLoop
from firearrow.client.consumer.queue.rebalance_listener import Announcer
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.instance import Instance
from firearrow.errors import FireArrowError
from firearrow.model import MessageQueue

log: Final = logging.getLogger(__name__)


class Departures:
    """The queues that one member is giving up."""

    def __init__(
        self,
        instance: Instance,
        settings: ConsumerSettings,
        reader: PullLoop,
        announcer: Announcer | None,
        outlet: Outlet,
        flows: dict[MessageQueue, OwnedQueue],
    ) -> None:
        self._instance = instance
        self._settings = settings
        self._reader = reader
        self._announcer = announcer
        self._outlet = outlet
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self.flows = flows

    def begin(self, flow: OwnedQueue) -> None:
        """Give a queue up."""
        queue = flow.queue
        task = self._instance.tasks.spawn(self._leave(flow), f"leave {queue}")
        self._tasks[queue], self.flows[queue] = task, flow
        task.add_done_callback(lambda _: self._has_left(queue))

    def _has_left(self, queue: MessageQueue) -> None:
        self._tasks.pop(queue, None)
        self.flows.pop(queue, None)

    async def over(self, queue: MessageQueue) -> None:
        """Wait until a queue has left, if it is leaving."""
        task = self._tasks.get(queue)
        if task is not None:
            await asyncio.wait([task])

    async def close(self, limit_s: float) -> None:
        """Wait for departures that only have to commit, call the listener or unlock."""
        settled = [task for queue, task in self._tasks.items() if not self.flows[queue].is_handled]
        if settled:
            await asyncio.wait(settled, timeout=limit_s)

    async def _leave(self, flow: OwnedQueue) -> None:
        flow.is_leaving = True
        if flow.task is not None:
            flow.task.cancel()
        if flow.ordered and flow.is_handled:
            await self._wait_for_ordered(flow)
        if self._settings.auto_commit:
            self._reader.note(flow)
        if self._announcer is not None:
            await self._settle(self._announcer, flow)
        flow.drop()
        offsets = self._reader.offsets
        if self._settings.auto_commit:
            await offsets.persist()
        offsets.table.forget(flow.queue)
        if self._reader.needs_locks and flow.is_started:
            await self._reader.locks.unlock([flow.queue])

    async def _wait_for_ordered(self, flow: OwnedQueue) -> None:
        """Wait until handlers of an ordered queue have ended; its lock is renewed meanwhile."""
        limit_ms = self._settings.consume_timeout_ms
        if not await _is_idle(flow, limit_ms):
            log.error(
                "%s moves to another member while its handler still runs: it took longer than consume_timeout_ms (%d)",
                flow.queue,
                limit_ms,
                extra={"queue": str(flow.queue)},
            )

    async def _settle(self, announcer: Announcer, flow: OwnedQueue) -> None:
        """Call the listener once the handlers of a queue have ended and their offsets are committed."""
        window = flow.window
        self._outlet.withdraw(lambda message: message._window is window)
        if flow.announcement is not None:
            await asyncio.wait([flow.announcement])
        if self._settings.auto_commit:
            await self._reader.offsets.persist()
        if not flow.ordered and flow.is_handled:
            await self._wait_for_handlers(flow)
        await tell_of_departure(announcer, [flow])

    async def _wait_for_handlers(self, flow: OwnedQueue) -> None:
        limit_ms, committed = self._settings.rebalance_timeout_ms, flow.window.committable
        if not await _is_idle(flow, limit_ms):
            what = (
                "%s moves to another member while handlers still run: they took longer than rebalance_timeout_ms (%d)"
            )
            log.warning(what, flow.queue, limit_ms, extra={"queue": str(flow.queue)})
        if self._settings.auto_commit and flow.window.committable > committed:
            # If the commit fails, another member handles the message again, which at-least-once delivery allows.
            with suppress(FireArrowError):
                await self._commit_unless_behind(flow)

    async def _commit_unless_behind(self, flow: OwnedQueue) -> None:
        """Commit messages finished after another member may have begun, unless that member has committed more."""
        offsets = self._reader.offsets
        if (await offsets.read(flow.queue) or 0) < flow.window.committable:
            self._reader.note(flow)
            await offsets.persist()


async def tell_of_departure(announcer: Announcer, flows: list[OwnedQueue]) -> None:
    """Call the listener for revoked queues, if it was called when they were assigned."""
    going = [flow for flow in flows if flow.is_announced]
    for flow in going:
        flow.is_announced = False
    if going:
        await announcer.revoked(sorted(flow.queue for flow in going))


async def _is_idle(flow: OwnedQueue, limit_ms: int) -> bool:
    """Wait until no handler has a message of a queue; return False after the limit."""
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_ms / 1000):
            await flow.idle.wait()
    return not flow.is_handled
