"""The part that a broker takes in its group for one duty: replication as the master or a slave of an epoch.

A part ends when the duty is another one, or when the store has to be opened again.
"""

import asyncio
import logging
from collections.abc import Callable

from firearrow.broker.failover.elections import FollowStep, LeadStep
from firearrow.broker.failover.group_master import GroupMaster
from firearrow.broker.failover.group_slave import GroupSlave
from firearrow.broker.failover.group_values import MemberFacts
from firearrow.broker.failover.membership import ReplicaMembership
from firearrow.broker.failover.table_reports import TableReports
from firearrow.broker.metrics.metrics import BrokerMetrics
from firearrow.broker.replication.metadata import GROUP_PERIOD_S, Metadata
from firearrow.broker.replication.replication import Replication
from firearrow.broker.replication.table_source import MasterOfEpoch, TableSource
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import SettingsError
from firearrow.protocol.requests.naming.registration import RegisterBrokerAnswer
from firearrow.remoting.caller import Caller
from firearrow.runtime.clock import Clock
from firearrow.runtime.network import Address, Network
from firearrow.store.placement import Rows, UniformRows
from firearrow.store.store import Store

log = logging.getLogger(__name__)


class GroupPart:
    """The part of a broker in its group until its duty changes."""

    def __init__(self, duty: LeadStep | FollowStep, membership: ReplicaMembership, idle: BrokerMetrics) -> None:
        self.duty = duty
        self.idle = idle
        """The metrics while the broker has no part; they own the port, which stays open from part to part."""
        self._membership = membership
        self._over = asyncio.Event()
        self._serves = asyncio.Event()
        self._master: GroupMaster | None = None
        self._slave: GroupSlave | None = None

    @property
    def leads(self) -> bool:
        """Whether the broker is the master."""
        return isinstance(self.duty, LeadStep)

    async def begin(self, store: Store) -> None:
        """Note, durably, that the log is open, and where the epoch begins, before a master appends anything."""
        await self._membership.opened_log()
        if self.leads:
            await store.replica.lead(self.duty.group.epoch, store.log.min_offset, store.log.tail)
            store.log.dispatch_below(store.log.tail)

    def leading(
        self,
        store: Store,
        settings: LiveSettings,
        network: Network,
        ha_port: int,
        *,
        topics: TopicBook,
        changes: TableChanges,
    ) -> Replication:
        """Return the replication of a master."""
        member = self._membership
        master = GroupMaster(store, settings, self.duty.group, member.look)
        self._master = master
        member.on_group = master.learn
        member.proposal = master.proposal
        member.is_surrounded = lambda: master.is_surrounded
        member.ailment = lambda: str(store.trouble or master.ailment())
        member.on_live = lambda: self._know_ailing(master)
        master.tables = TableReports(changes, lambda: master.in_sync, lambda: settings.broker.sync_flush_timeout)
        master.on_serves = self._serves.set
        store.views.dispatch.views.append(_MissingTopics(topics, changes).arrived)
        replication = Replication(settings, network, ha_port, master=master, confirmation=master.answers)
        replication.reports = master.tables
        return replication

    def _know_ailing(self, master: GroupMaster) -> None:
        live = self._membership.live
        master.ailing = frozenset(replica for replica, about in live.items() if about.ails)
        if master.tables is not None:
            master.tables.old = frozenset(replica for replica, about in live.items() if not about.tells_tables)
            master.tables.look()

    def following(
        self,
        store: Store,
        settings: LiveSettings,
        network: Network,
        ha_port: int,
        *,
        clock: Clock,
        copying: Callable[[TableSource, float], Metadata],
        caller: Caller,
    ) -> Replication:
        """Return the replication of a slave; ``copying`` makes what copies the tables of a source again and again."""
        group, member = self.duty.group, self._membership
        slave = GroupSlave(store, settings, network, clock, member.own, group)
        self._slave = slave
        slave.on_gone = lambda: member.master_is_gone(group.epoch)
        slave.on_cut = self._end
        member.ailment = lambda: str(store.trouble or "")
        source = MasterOfEpoch(caller, group.epoch, member.own.replica, member.own.directory)
        metadata = copying(source, GROUP_PERIOD_S)
        replication = _FollowingReplication(settings, network, ha_port, slave=slave, metadata=metadata)
        member.on_live = lambda: replication.follow(member.live.get(group.master))
        member.on_live()
        return replication

    async def serves(self) -> bool:
        """Wait until clients may be served; return False when this part is over before that.

        A master's log may have an end that no other replica has. Consumers must not see it before all replicas in sync
        have it: another one could be elected without it, and give its queue offsets to other messages.
        """
        self._watch()
        if self.leads:
            await self._serves.wait()
        return not self._over.is_set()

    def changed(self) -> None:
        """End this part if the duty is another one."""
        duty = self._membership.duty
        if type(duty) is not type(self.duty) or duty.group.epoch != self.duty.group.epoch:
            self._end()

    def _end(self) -> None:
        self._over.set()
        self._serves.set()

    async def leave(self) -> None:
        """Give this part up in order, so that nobody waits for this broker: the process ends.

        A master, which takes no message any more, waits until every replica in sync has its log, and has another one of
        them elected. A slave leaves the in-sync set.
        """
        member = self._membership
        if self._master is not None:
            await self._master.settled()
            chosen = self._master.successor()
            if chosen:
                await member.hand_over(chosen)
        elif self._slave is not None:
            self._slave.rest()
            await member.leave_set()

    async def over(self) -> None:
        """Wait until this part is over."""
        self._watch()
        await self._over.wait()

    def _watch(self) -> None:
        self._membership.on_duty = self.changed
        self.changed()


class _MissingTopics:
    """Makes topics and queues anew that died with a master: messages that were delayed or prepared there come later."""

    def __init__(self, topics: TopicBook, changes: TableChanges) -> None:
        self._topics = topics
        self._changes = changes

    def arrived(self, rows: Rows) -> None:
        """Make the topics of new records that have none. Records from before a deletion make no topic again."""
        places = [(rows.tail, rows.places[-1])] if type(rows) is UniformRows else [(row[0], row[1]) for row in rows]
        missing = [
            (tail.topic, tail.queue_id)
            for tail, physical in places
            if self._is_missing(tail.topic, tail.queue_id) and physical >= self._changes.life_begins_at(tail.topic)
        ]
        if missing:
            self._topics.restore(missing)

    def _is_missing(self, topic: str, queue_id: int) -> bool:
        known = self._topics.get(topic)
        return known is None or queue_id >= known.read_queue_nums


class _FollowingReplication(Replication):
    """Replication that knows its master from the coordinator."""

    def follow(self, master: MemberFacts | None) -> None:
        """Copy the master at this place."""
        if master is None or self.slave is None or self.metadata is None:
            return
        try:
            self.slave.found(Address.parse(master.ha_address))
            self.metadata.found(Address.parse(master.address))
        except SettingsError as error:
            log.warning("the coordinator told a wrong address of the master: %s", error, extra={"reason": str(error)})

    def registered(self, answer: RegisterBrokerAnswer) -> None:
        """Take nothing from name servers: they may name an older master."""
