"""The consuming side of a broker, put together: groups, members, offsets, pulls, retries, delays. Wiring only.

`load` before anything is served; `run` is a task of the owner's; `close` after it has ended and before the store is
closed, because the offsets that are written last wait for the log.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from firearrow.broker.clients import ClientTable
from firearrow.broker.consumingconfig import ConsumingConfig
from firearrow.broker.errands import Errands
from firearrow.broker.grouping import Groups
from firearrow.broker.handlers.consumer import ConsumerHandlers
from firearrow.broker.handlers.group import GroupHandlers
from firearrow.broker.handlers.heartbeat import HeartbeatHandlers
from firearrow.broker.handlers.lock import LockHandlers
from firearrow.broker.handlers.offset import OffsetHandlers
from firearrow.broker.handlers.progress import ProgressHandlers, Rate
from firearrow.broker.handlers.pull import ConsumeCounts, PullHandlers, Uncounted
from firearrow.broker.handlers.reset import ResetHandlers
from firearrow.broker.handlers.sendback import MadeTopics, SendBackHandlers
from firearrow.broker.locks import LOCK_LIFE_MS, QueueLocks
from firearrow.broker.offsetrows import PATH, OffsetRows
from firearrow.broker.offsets import OffsetTable
from firearrow.broker.pullconfig import PullConfig
from firearrow.broker.schedule import DelayedDelivery
from firearrow.broker.statefile import StateFile
from firearrow.record.hosts import HostBytes
from firearrow.remoting.handlers import Handlers, Peer
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk
from firearrow.store.placement import FLUSHED, Level
from firearrow.store.store import Store

QUESTIONS_AT_ONCE: Final = 8
"""Questions passed on to consumers at a time. They have workers of their own: one that hangs for ten seconds must
not keep reads waiting."""


class Place(Struct, frozen=True, kw_only=True):
    """Which broker this is, as its answers say."""

    broker_name: str
    address: str
    ip: str
    store_host: HostBytes


class Permissions(Struct, frozen=True, kw_only=True):
    """What the broker's settings allow at this moment."""

    is_readable: Callable[[], bool] = lambda: True
    is_writable: Callable[[], bool] = lambda: True
    makes_groups: Callable[[], bool] = lambda: True


class Registers(Protocol):
    """What has answers to give."""

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given there."""
        ...


class Consuming:
    """Everything a broker does for consumers."""

    def __init__(
        self,
        store: Store,
        topics: MadeTopics,
        disk: Disk,
        clock: Clock,
        rng: random.Random,
        place: Place,
        *,
        levels: tuple[int, ...],
        memory_bytes: int,
        kept_at: Level,
        config: ConsumingConfig | None = None,
        pulls: PullConfig | None = None,
        permissions: Permissions | None = None,
        counts: ConsumeCounts | None = None,
        rate: Rate = lambda _group, _topic: 0.0,
    ) -> None:
        permissions, counts, config = permissions or Permissions(), counts or Uncounted(), config or ConsumingConfig()
        self.store = store
        self.clients = ClientTable()
        self.errands = Errands()
        self.questions = Errands(QUESTIONS_AT_ONCE)
        self.groups = Groups(disk, clock, permissions.makes_groups)
        self.offsets = OffsetTable()
        self.locks = QueueLocks()
        self.delays = DelayedDelivery(store, disk, clock, levels)
        self.offset_file = StateFile(
            disk,
            PATH,
            OffsetRows(self.offsets, self._end_of),
            interval_ms=config.flush_consumer_offset_interval,
            settled=self._offsets_durable,
        )
        self.heartbeats = HeartbeatHandlers(
            self.clients,
            self.groups,
            topics,
            _elapsed_ms,
            refuses_disagreement=config.refuse_inconsistent_subscription,
        )
        self.pulls = PullHandlers(
            store,
            topics,
            self.groups,
            self.clients,
            self.offsets,
            self.errands,
            config=pulls or PullConfig(),
            memory_bytes=memory_bytes,
            is_readable=permissions.is_readable,
            broker_ip=place.ip,
            counts=counts,
            on_commit=self.offset_file.changed,
        )
        self._handlers: list[Registers] = [
            self.heartbeats,
            self.pulls,
            self._back(topics, rng, place, len(levels), permissions.is_writable, counts, kept_at),
            OffsetHandlers(store, topics, self.groups, self.offsets, self.errands, self.offset_file.changed),
            LockHandlers(self.locks, _elapsed_ms),
            *self._for_operators(topics, clock, place, rate),
        ]
        store.views.dispatch.views += [self.pulls.arrived, self.delays.arrived]

    def _back(
        self,
        topics: MadeTopics,
        rng: random.Random,
        place: Place,
        levels: int,
        is_writable: Callable[[], bool],
        counts: ConsumeCounts,
        kept_at: Level,
    ) -> SendBackHandlers:
        return SendBackHandlers(
            self.store,
            topics,
            self.groups,
            self.errands,
            rng,
            store_host=place.store_host,
            levels=levels,
            is_writable=is_writable,
            broker_ip=place.ip,
            counts=counts,
            kept_at=kept_at,
        )

    def _for_operators(self, topics: MadeTopics, clock: Clock, place: Place, rate: Rate) -> list[Registers]:
        store, groups, clients, offsets, errands = self.store, self.groups, self.clients, self.offsets, self.errands
        return [
            GroupHandlers(groups, offsets, self.offset_file, errands),
            ResetHandlers(
                store,
                topics,
                groups,
                clients,
                offsets,
                self.offset_file,
                errands,
                broker_name=place.broker_name,
                recall=self.pulls.recall,
            ),
            ConsumerHandlers(
                store,
                topics,
                groups,
                clients,
                offsets,
                self.questions,
                clock,
                elapsed_ms=_elapsed_ms,
                broker_name=place.broker_name,
                broker_address=place.address,
                disagreements=self.heartbeats.disagreements,
            ),
            ProgressHandlers(
                store,
                topics,
                groups,
                clients,
                offsets,
                errands,
                clock,
                broker_name=place.broker_name,
                broker_address=place.address,
                rate=rate,
            ),
        ]

    async def load(self) -> None:
        """Take over what the files hold."""
        await self.groups.load()
        await self.offset_file.load()
        if self.offsets.cut(self._end_of):
            # Numbers above the end of a queue are given anew: they must be gone from the file before that happens.
            await self.offset_file.save_before_serving("offsets above the end of their queue")
        await self.delays.load()

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        for each in self._handlers:
            each.add_to(handlers)

    def disconnected(self, peer: Peer) -> None:
        """A connection ended."""
        self.pulls.disconnected(peer)
        self.heartbeats.disconnected(peer)

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            for work in (
                self.errands.run(),
                self.questions.run(),
                self.groups.file.run(),
                self.offset_file.run(),
                self.heartbeats.run(),
                self.delays.run(),
                self._forget_locks(),
            ):
                group.create_task(work)

    async def close(self) -> None:
        """Write down what changed since the last time; the store must still be open."""
        await self.groups.file.close()
        await self.offset_file.close()
        await self.delays.close()

    async def _forget_locks(self) -> None:
        while True:
            await asyncio.sleep(LOCK_LIFE_MS / 1000)
            self.locks.expire(_elapsed_ms())

    def _end_of(self, topic: str, queue_id: int) -> int:
        queue = self.store.queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    async def _offsets_durable(self) -> None:
        """Everything that an offset counts as read must survive what the offset survives."""
        await self.store.reached(self.store.log.tail, FLUSHED)


def _elapsed_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
