"""The consuming side of a broker: groups, members, offsets, pulls, retries, delays. Wiring only.

Call `load` before the broker serves, run `run` as a task, and call `close` after that task has ended and before the
store is closed, because the last write of the offsets waits for a sync of the log.
"""

import asyncio
from typing import Final

from firearrow.broker.assembly import Assembly, HandlerOwner
from firearrow.broker.delivery.schedule import DelayedDelivery
from firearrow.broker.handlers.group.consumer import ConsumerHandlers
from firearrow.broker.handlers.group.group import GroupHandlers
from firearrow.broker.handlers.group.heartbeat import HeartbeatHandlers
from firearrow.broker.handlers.group.lock import LockHandlers
from firearrow.broker.handlers.group.offset import OffsetHandlers
from firearrow.broker.handlers.group.progress import ProgressHandlers
from firearrow.broker.handlers.group.reset import ResetHandlers
from firearrow.broker.handlers.message.pull import PullHandlers
from firearrow.broker.handlers.message.return_message import SendBackHandlers
from firearrow.broker.pull.checks import PullChecks
from firearrow.broker.pull.filter_checks import FilterChecks
from firearrow.broker.pull.filters import Filters, prepare
from firearrow.broker.tables.locks import LOCK_LIFE_MS
from firearrow.broker.timer.timers import Timers
from firearrow.remoting.handlers import Handlers, Peer
from firearrow.runtime.clock import elapsed_ms
from firearrow.runtime.turn import Pace

LOCKS_AT_ONCE: Final = 250
"""Locks looked at in one turn of the loop."""


class ConsumerSide:
    """Everything a broker does for consumers."""

    def __init__(self, assembly: Assembly, memory_bytes: int) -> None:
        self._assembly = assembly
        store, settings, identity, clock = assembly.store, assembly.settings, assembly.identity, assembly.clock
        topics, groups, clients, offsets = assembly.topics, assembly.groups, assembly.clients, assembly.offsets
        gate, lanes, stats, disk, chance = assembly.gate, assembly.lanes, assembly.stats, assembly.disk, assembly.chance
        self.delays = DelayedDelivery(disk=disk, store=store, stats=stats, clock=clock, settings=settings)
        self.timers = Timers(store=store, clock=clock, disk=disk, settings=settings, chance=chance, stats=stats)
        filters = Filters(assembly.budgets)
        checks = PullChecks(
            filters, topics=topics, store=store, groups=groups, clients=clients, settings=settings, identity=identity
        )
        self.pulls = PullHandlers(
            memory_bytes, checks, assembly.budgets, settings=settings, store=store, offsets=offsets, lanes=lanes,
            stats=stats, gate=gate
        )  # fmt: skip
        filter_checks = FilterChecks(filters, lanes, self.pulls.time_for_filter)
        self.heartbeats = HeartbeatHandlers(
            filter_checks, clients=clients, groups=groups, settings=settings, topics=topics
        )
        self._handlers: list[HandlerOwner] = [
            self.heartbeats,
            self.pulls,
            OffsetHandlers(store=store, gate=gate, topics=topics, groups=groups, offsets=offsets, lanes=lanes),
            LockHandlers(assembly.locks, topics, groups),
            GroupHandlers(groups=groups, gate=gate, offsets=offsets, lanes=lanes),
            ResetHandlers(
                self.pulls.recall, store=store, gate=gate, topics=topics, groups=groups, clients=clients,
                offsets=offsets, lanes=lanes, identity=identity
            ),
            ConsumerHandlers(
                self.heartbeats.disagreements, store=store, topics=topics, groups=groups, clients=clients,
                offsets=offsets.table, clock=clock, identity=identity, lanes=lanes
            ),
            ProgressHandlers(
                store=store, topics=topics, groups=groups, clients=clients, offsets=offsets.table, lanes=lanes,
                stats=stats, clock=clock, identity=identity
            ),
            SendBackHandlers(
                store=store, gate=gate, topics=topics, groups=groups, lanes=lanes, chance=chance, settings=settings,
                identity=identity, stats=stats
            ),
        ]  # fmt: skip
        clients.on_new_expression.append(self.pulls.resubscribed)
        dispatch = store.views.dispatch
        dispatch.watch(self.pulls.parked.queues.keys(), self.pulls.arrived)
        dispatch.watch(self.delays.queues, self.delays.arrived)
        dispatch.watch(self.timers.queues, self.timers.arrived)
        self._is_slave = settings.value.replication.is_slave

    async def load(self) -> None:
        """Load the tables from their files."""
        assembly = self._assembly
        await assembly.groups.load()
        await assembly.offsets.file.load()
        for topic, queue_id in assembly.store.queues.begun_anew:
            assembly.offsets.table.forget_queue(topic, queue_id)
        if assembly.offsets.table.cut(assembly.store.max_offset) or assembly.offsets.table.changes:
            # New messages get queue offsets above the end of the queue: the file must not hold such offsets by then.
            await assembly.offsets.file.save_before_serving(
                "offsets above the end of their queue, or of a deleted topic"
            )
        await self.delays.load()
        if not self._is_slave:
            await self.timers.load()
        if assembly.store.replica.cut.offset is not None:
            await self.timers.cut()
            await assembly.store.finish_cut()
        prepare()

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of every part."""
        for each in self._handlers:
            each.add_to(handlers)

    def disconnected(self, peer: Peer) -> None:
        """Drop the jobs, the parked pulls and the memberships of a connection that ended."""
        assembly = self._assembly
        assembly.lanes.disconnected(peer)
        self.pulls.disconnected(peer)
        self.heartbeats.disconnected(peer)
        assembly.new_names.disconnected(peer)

    async def run(self) -> None:
        """Serve until cancelled."""
        assembly = self._assembly
        async with asyncio.TaskGroup() as group:
            for work in (
                assembly.lanes.run(),
                assembly.groups.file.run(),
                assembly.offsets.file.run(),
                self.heartbeats.run(),
                self.delays.file.run() if self._is_slave else self.delays.run(),
                self.timers.run(),
                self._forget_locks(),
            ):
                group.create_task(work)

    async def close(self) -> None:
        """Write the changes since the last save to the files; the store must still be open."""
        assembly = self._assembly
        await assembly.groups.file.close()
        await assembly.offsets.file.close()
        await self.delays.close()
        await self.timers.close()

    async def _forget_locks(self) -> None:
        assembly = self._assembly
        while True:
            await asyncio.sleep(LOCK_LIFE_MS / 1000)
            pace = Pace(LOCKS_AT_ONCE)
            for _ in assembly.locks.expire(elapsed_ms()):
                await pace.did()
