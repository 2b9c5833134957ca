"""Makes what the parts of a broker share, and the parts that write, and gives each of them what it uses.

Wiring only, no decisions. Only the composition roots know the assembly: a handler takes what it uses itself.
"""

import random
from typing import Final, Protocol

from firearrow.broker.dedup.row_windows import RowWindows
from firearrow.broker.delivery.schedule import DelayedDelivery
from firearrow.broker.failover.group_part import GroupPart
from firearrow.broker.gate.gate import Gate
from firearrow.broker.handlers.admin.replication import ReplicationHandlers
from firearrow.broker.handlers.message.recall import RecallHandlers
from firearrow.broker.handlers.message.send import SendHandlers
from firearrow.broker.handlers.message.send_bulk import BulkSends
from firearrow.broker.handlers.message.send_checked import CheckedSends
from firearrow.broker.handlers.message.send_rows import RowSends
from firearrow.broker.handlers.message.transaction import TransactionHandlers
from firearrow.broker.identity import Identity
from firearrow.broker.lanes import Lanes
from firearrow.broker.replication.comparing_slave import ComparingSlave
from firearrow.broker.replication.master import Master
from firearrow.broker.replication.metadata import PERIOD_S, CopiedTables, Metadata
from firearrow.broker.replication.replication import Replication, confirmation_by_settings
from firearrow.broker.replication.table_source import AnyMaster, TableSource
from firearrow.broker.send.admission import Admission
from firearrow.broker.send.checked_topics import CheckedTopics
from firearrow.broker.send.incoming import usage_text
from firearrow.broker.send.replies import SendReplies
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.clients import ClientTable
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.locks import QueueLocks
from firearrow.broker.tables.new_names import NewNames
from firearrow.broker.tables.offset_book import OffsetBook
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.broker.timer.timers import Timers
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.transactions import Transactions
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.network import Network
from firearrow.runtime.turn import TurnBudgets
from firearrow.store.store import Store


class HandlerOwner(Protocol):
    """A part of the broker that has handlers to register."""

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this part."""
        ...


class Assembly:
    """The tables, settings and doors of one broker."""

    def __init__(
        self, identity: Identity, settings: LiveSettings, store: Store, topics: TopicBook, *, disk: Disk, clock: Clock,
        chance: random.Random
    ) -> None:  # fmt: skip
        """Make the tables. Only the topics are loaded; `ConsumerSide` loads the other files."""
        self.identity: Final = identity
        self.settings: Final = settings
        self.store: Final = store
        self.topics: Final = topics
        self.disk: Final = disk
        self.clock: Final = clock
        self.chance: Final = chance
        self.offsets: Final = OffsetBook.make(disk, store, settings, f"{chance.getrandbits(64):016x}")
        self.changes: Final = TableChanges()
        self.new_names: Final = NewNames(lambda: settings.value.bounds, elapsed_ms)
        self.gate: Final = Gate(store.log, settings, self.changes)
        self.groups: Final = GroupBook(
            disk,
            clock,
            lambda: settings.broker.auto_create_subscription_group,
            self.new_names,
            is_copy=settings.value.replication.is_slave,
        )
        self.clients: Final = ClientTable()
        self.locks: Final = QueueLocks(most=lambda: settings.value.bounds.max_queue_locks)
        self.lanes: Final = Lanes()
        self.budgets: Final = TurnBudgets(clock.cpu_ns)
        self.stats: Final = BrokerStats(identity.cluster, elapsed_ms())

    # ---- what appends to the log

    def transactions(self) -> Transactions:
        """Return the transactions."""
        journal = Journal(
            store=self.store, settings=self.settings, offsets=self.offsets, clock=self.clock, identity=self.identity,
            stats=self.stats, chance=self.chance
        )  # fmt: skip
        return Transactions(
            journal, settings=self.settings, clock=self.clock, gate=self.gate, clients=self.clients, topics=self.topics,
            store=self.store
        )  # fmt: skip

    def sends(self, timers: Timers) -> SendHandlers:
        """Return what takes the messages of producers."""
        store, settings, gate, stats, topics = self.store, self.settings, self.gate, self.stats, self.topics
        replies = SendReplies(gate, settings, self.identity.store_host, lambda: usage_text(self.disk.usage()))
        admission = Admission(settings, self.budgets, lambda: replies.marks.on_answers)
        windows = RowWindows(settings=settings, store=store, clock=self.clock, changes=self.changes, topics=topics)
        rows = RowSends(windows, replies, store)
        known = CheckedTopics(topics=topics, settings=settings, stats=stats, clock=self.clock, store=store)
        checked = CheckedSends(
            known, replies, rows, timers.is_congested, store=store, identity=self.identity, chance=self.chance,
            gate=gate, topics=topics, groups=self.groups, new_names=self.new_names, locks=self.locks, settings=settings,
            clock=self.clock, stats=stats
        )  # fmt: skip
        bulk = BulkSends(known.by_name, replies, admission, store=store, settings=settings, stats=stats, gate=gate)
        return SendHandlers(
            admission, replies, known.by_name, rows=rows, checked=checked, bulk=bulk, store=store, gate=gate
        )

    def writers(self, sends: SendHandlers, transactions: Transactions) -> list[HandlerOwner]:
        """Return the handlers of what appends to the log."""
        recalls = RecallHandlers(
            store=self.store, gate=self.gate, settings=self.settings, topics=self.topics, clock=self.clock,
            identity=self.identity, disk=self.disk
        )  # fmt: skip
        ends = TransactionHandlers(transactions, gate=self.gate, store=self.store, lanes=self.lanes)
        return [sends, ends, recalls]

    # ---- other brokers and name servers

    def replication(
        self, part: GroupPart | None, network: Network, caller: Caller, delays: DelayedDelivery
    ) -> Replication:
        """Return the replication of a part in a group, or without one that which ``brokerRole`` asks for."""
        store, settings, ha_port = self.store, self.settings, self.identity.ha_port
        tables = CopiedTables(topics=self.topics, groups=self.groups, offsets=self.offsets, delays=delays)

        def copying(source: TableSource, period_s: float = PERIOD_S) -> Metadata:
            return Metadata(tables, caller, source, period_s, store=store, disk=self.disk)

        if part is not None and part.leads:
            return part.leading(store, settings, network, ha_port, topics=self.topics, changes=self.changes)
        if part is not None:
            return part.following(store, settings, network, ha_port, clock=self.clock, caller=caller, copying=copying)
        if settings.value.replication.is_slave:
            slave = ComparingSlave(
                network, store=store, settings=settings, clock=self.clock, disk=self.disk, chance=self.chance
            )
            metadata = copying(AnyMaster(caller, slave.agreement))
            slave.agreement.on_reached = metadata.look
            return Replication(settings, network, ha_port, slave=slave, metadata=metadata)
        master = Master(store, settings)
        confirmation = confirmation_by_settings(master, store, settings)
        return Replication(settings, network, ha_port, master=master, confirmation=confirmation)

    def copies(self, replication: Replication, delays: DelayedDelivery) -> ReplicationHandlers:
        """Return what answers the brokers of a group."""
        return ReplicationHandlers(
            replication, delays.offsets, store=self.store, identity=self.identity, settings=self.settings,
            changes=self.changes
        )  # fmt: skip
