"""The consuming side of a broker: groups, members, offsets, pulls, retries, delays. Wiring only.

Call `load` before the broker serves, run `run` as a task, and call `close` after that task has ended and before the
store is closed, because the last write of the offsets waits for a sync of the log.
"""

import asyncio
from typing import Protocol

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
from firearrow.broker.pull.filter_checks import FilterChecks
from firearrow.broker.pull.filters import Filters, prepare
from firearrow.broker.tables.locks import LOCK_LIFE_MS
from firearrow.broker.tables.tables import Tables
from firearrow.broker.timer.timers import Timers
from firearrow.remoting.handlers import Handlers, Peer
from firearrow.runtime.clock import elapsed_ms


class Registers(Protocol):
    """A part of the broker that has handlers to register."""

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this part."""
        ...


class Consuming:
    """Everything a broker does for consumers."""

    def __init__(self, tables: Tables, memory_bytes: int) -> None:
        self._tables = tables
        self.delays = DelayedDelivery(tables)
        self.timers = Timers(tables)
        filters = Filters(tables.clock.cpu_ns)
        self.pulls = PullHandlers(tables, memory_bytes, filters)
        self.heartbeats = HeartbeatHandlers(tables, FilterChecks(filters, tables.lanes, self.pulls.time_for_filter))
        self._handlers: list[Registers] = [
            self.heartbeats,
            self.pulls,
            OffsetHandlers(tables),
            LockHandlers(tables),
            GroupHandlers(tables),
            ResetHandlers(tables, self.pulls.recall),
            ConsumerHandlers(tables, self.heartbeats.disagreements),
            ProgressHandlers(tables),
            SendBackHandlers(tables),
        ]
        self._is_slave = tables.settings.value.replication.is_slave
        tables.clients.on_new_expression.append(self.pulls.resubscribed)
        tables.store.views.dispatch.views += [self.pulls.arrived, self.delays.arrived, self.timers.arrived]

    async def load(self) -> None:
        """Load the tables from their files."""
        tables = self._tables
        await tables.groups.load()
        await tables.offset_file.load()
        for topic, queue_id in tables.store.queues.begun_anew:
            tables.offsets.forget_queue(topic, queue_id)
        if tables.offsets.cut(tables.store.max_offset) or tables.offsets.changes:
            # New messages get queue offsets above the end of the queue: the file must not hold such offsets by then.
            await tables.offset_file.save_before_serving("offsets above the end of their queue, or of a deleted topic")
        await self.delays.load()
        if not self._is_slave:
            await self.timers.load()
        if tables.store.replica.cut.offset is not None:
            await self.timers.cut()
            await tables.store.finish_cut()
        prepare()

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of every part."""
        for each in self._handlers:
            each.add_to(handlers)

    def disconnected(self, peer: Peer) -> None:
        """Drop the jobs, the parked pulls and the memberships of a connection that ended."""
        self._tables.lanes.disconnected(peer)
        self.pulls.disconnected(peer)
        self.heartbeats.disconnected(peer)
        self._tables.new_names.disconnected(peer)

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            for work in (
                self._tables.lanes.run(),
                self._tables.groups.file.run(),
                self._tables.offset_file.run(),
                self.heartbeats.run(),
                self.delays.file.run() if self._is_slave else self.delays.run(),
                self.timers.run(),
                self._forget_locks(),
            ):
                group.create_task(work)

    async def close(self) -> None:
        """Write the changes since the last save to the files; the store must still be open."""
        await self._tables.groups.file.close()
        await self._tables.offset_file.close()
        await self.delays.close()
        await self.timers.close()

    async def _forget_locks(self) -> None:
        while True:
            await asyncio.sleep(LOCK_LIFE_MS / 1000)
            self._tables.locks.expire(elapsed_ms())
