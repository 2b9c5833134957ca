"""The tables that the handlers of a broker share, together with the store, the settings and the doors.

A handler takes `Tables` and a few arguments of its own, and keeps what it uses for every message as attributes.
"""

import random

from msgspec import Struct

from firearrow.broker.gate.gate import Gate
from firearrow.broker.identity import Identity
from firearrow.broker.lanes import Lanes
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.state.state_file import StateFile
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.clients import ClientTable
from firearrow.broker.tables.group_book import Groups
from firearrow.broker.tables.locks import QueueLocks
from firearrow.broker.tables.new_names import NewNames
from firearrow.broker.tables.offset_rows import PATH, OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.broker.tables.topic_book import Topics
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.runtime.disk.door import Disk
from firearrow.store.placement import FLUSHED
from firearrow.store.store import Store


class Tables(Struct, frozen=True, kw_only=True, eq=False):
    """The tables, files, settings and doors that the handlers of one broker share."""

    identity: Identity
    settings: LiveSettings
    store: Store
    gate: Gate
    topics: Topics
    groups: Groups
    new_names: NewNames
    clients: ClientTable
    offsets: OffsetTable
    offset_file: StateFile
    changes: TableChanges
    locks: QueueLocks
    lanes: Lanes
    stats: BrokerStats
    disk: Disk
    clock: Clock
    chance: random.Random

    @classmethod
    def make(
        cls,
        identity: Identity,
        settings: LiveSettings,
        store: Store,
        topics: Topics,
        *,
        disk: Disk,
        clock: Clock,
        chance: random.Random,
    ) -> "Tables":
        """Return the tables of a broker. Only the topics are loaded; `Consuming` loads the other files."""
        offsets = OffsetTable(lambda: settings.value.bounds.max_consumer_offsets, f"{chance.getrandbits(64):016x}")
        changes = TableChanges()
        new_names = NewNames(lambda: settings.value.bounds, elapsed_ms)

        async def everything_durable() -> None:
            """Wait until the log is durable: an offset must not outlive the messages that it counts as read."""
            await store.reached(store.log.tail, FLUSHED)

        return cls(
            identity=identity,
            settings=settings,
            store=store,
            gate=Gate(store.log, settings, changes),
            topics=topics,
            groups=Groups(
                disk,
                clock,
                lambda: settings.broker.auto_create_subscription_group,
                new_names,
                is_copy=settings.value.replication.is_slave,
            ),
            new_names=new_names,
            clients=ClientTable(),
            offsets=offsets,
            offset_file=StateFile(
                disk,
                PATH,
                OffsetRows(offsets, store.max_offset),
                interval_ms=settings.value.consuming.flush_consumer_offset_interval,
                settled=everything_durable,
            ),
            changes=changes,
            locks=QueueLocks(most=lambda: settings.value.bounds.max_queue_locks),
            lanes=Lanes(),
            stats=BrokerStats(identity.cluster, elapsed_ms()),
            disk=disk,
            clock=clock,
            chance=chance,
        )
