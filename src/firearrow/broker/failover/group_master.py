"""The master of an epoch: sends its log to the replicas that promised the epoch, and keeps the in-sync set.

What is confirmed is on every replica of the set; answers to sends wait for that, and consumers see nothing behind it.
The confirmed offset never goes back within an epoch.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final

from msgspec.structs import replace

from firearrow.broker.failover.in_sync_set import InSyncSet, ReplicaCopy, confirmed, is_admitting, next_set
from firearrow.broker.failover.table_reports import TableReports
from firearrow.broker.replication.confirmation import Confirmation
from firearrow.broker.replication.feed import Feed, SentLog
from firearrow.broker.replication.master import Master
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import BadFrame
from firearrow.model.epochs import Epochs
from firearrow.model.group_state import GroupState
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.ha_handshake import HELLO, Hello, Welcome, decode_hello, encode_welcome
from firearrow.protocol.refusal import Refused
from firearrow.store.placement import FLUSHED, WRITTEN
from firearrow.store.store import Store

LOOK_S: Final = 1.0
"""The longest time between two looks at who joins and leaves the in-sync set."""

MARGIN_S: Final = 0.01

log = logging.getLogger(__name__)


class GroupFeed(Feed):
    """The stream to one replica: a greeting first, then the log."""

    def __init__(self, sent: SentLog, batch_bytes: int, master: "GroupMaster") -> None:
        super().__init__(sent, batch_bytes, master)
        self._master = master
        self._greeting = b""
        self.replica = 0
        """The replica's id; 0 before its greeting."""
        now = asyncio.get_running_loop().time()
        self._caught_up_s = now
        self._mark = (sent.bounds.end, now)
        """The end of the log at a moment: a replica that reports it was caught up then."""

    def caught_up_s(self) -> float:
        """Return the last time at which the replica had everything that the master had then."""
        has_all = self.acked >= self._sent.bounds.end
        return asyncio.get_running_loop().time() if has_all else self._caught_up_s

    def goes_on(self, caught_up_s: float) -> None:
        """Count from when an earlier connection of this replica was caught up: a new one alone makes it no better."""
        self._caught_up_s = min(self._caught_up_s, caught_up_s)

    def data_received(self, data: bytes) -> None:
        """Take the greeting, then reports."""
        if self.replica:
            super().data_received(data)
            if self.acked >= self._mark[0]:
                self._caught_up_s = self._mark[1]
                self._mark = (self._sent.bounds.end, asyncio.get_running_loop().time())
            return
        self._greeting += data
        try:
            hello = decode_hello(self._greeting)
        except BadFrame as error:
            log.warning("slave %s is not served: %s", self.address, error, extra={"slave": self.address})
            self.abort()
            return
        if hello is None:
            return
        welcome = self._master.greeted(self, hello)
        if welcome is None:
            self.abort()
            return
        self.replica = hello.replica
        self._write([encode_welcome(welcome)])
        rest = self._greeting[HELLO.size :]
        if rest:
            super().data_received(rest)


class GroupMaster(Master):
    """Serves the replicas of one epoch."""

    def __init__(self, store: Store, settings: LiveSettings, group: GroupState, look: Callable[[], None]) -> None:
        super().__init__(store, settings)
        self._store = store
        self._look = look
        self._level = FLUSHED if settings.value.log.syncs_first else WRITTEN
        self._epoch_start = store.log.tail
        self._changed = asyncio.Event()
        self._began_s = asyncio.get_running_loop().time()
        self._left_s: dict[int, float] = {}
        """The times at which replicas whose connections have ended were last caught up."""
        self._heard_s: dict[int, float] = {}
        """The times of the last reports of replicas whose connections have ended."""
        self.ailing: frozenset[int] = frozenset()
        """The replicas that reported that they cannot take messages."""
        self._confirmed = asyncio.Event()
        self.in_sync = InSyncSet(group)
        self.answers = Confirmation(lambda: settings.broker.sync_flush_timeout, self._is_near)
        self.tables: TableReports | None = None
        """The changes of the tables that replicas have; None where they are not counted."""
        self.on_look = self._acknowledged
        self.on_serves: Callable[[], None] = lambda: None
        """Called when every replica in sync has all that this master began with."""

    # ---- what feeds tell

    def connection(self) -> GroupFeed:
        """Return the protocol of a new connection."""
        return GroupFeed(self._sent, self._settings.value.replication.ha_transfer_batch_size, self)

    def greeted(self, feed: GroupFeed, hello: Hello) -> Welcome | None:
        """Return the answer to a replica's greeting; None for one of another epoch, or one that was replaced."""
        replica, mine = hello.replica, self.in_sync.group.epoch
        if hello.epoch != mine or hello.directory != self.in_sync.group.directory_of(replica):
            why = f"it is in epoch {hello.epoch}, not {mine}"
            if hello.epoch == mine:
                why = "its directory is not the one that the group knows"
            log.info("replica %d is not served: %s", replica, why, extra={"replica": replica, "reason": why})
            self._look()
            return None
        for other in self._replicas():
            if other.replica == replica and other is not feed:
                other.abort()
                other.replica = 0
        if replica in self.in_sync.group.iss:
            feed.goes_on(self._left_s.get(replica, self._began_s))
        history: Epochs = self._store.replica.history.epochs
        return Welcome(mine, self._sent.bounds.end, history)

    def acknowledged(self, feed: Feed) -> None:
        """Count what a replica has reported; one that is not in sync may join now."""
        super().acknowledged(feed)
        if isinstance(feed, GroupFeed) and feed.replica not in self.in_sync.group.iss:
            self._changed.set()

    def closed(self, feed: Feed, reason: str) -> None:
        """Forget a replica whose connection has ended, but not when it was last caught up."""
        if isinstance(feed, GroupFeed) and feed.replica:
            self._left_s[feed.replica] = feed.caught_up_s()
            if feed.has_reported:
                self._heard_s[feed.replica] = feed.read_s
        super().closed(feed, reason)
        self._changed.set()

    def _replicas(self) -> list[GroupFeed]:
        return [feed for feed in self.feeds if isinstance(feed, GroupFeed)]

    def copies(self) -> dict[int, ReplicaCopy]:
        """The replicas that copy this master now, with what they acknowledged."""
        return {
            feed.replica: ReplicaCopy(feed.acked, feed.caught_up_s(), is_connected=True)
            for feed in self._replicas()
            if feed.replica
        }

    @property
    def confirm(self) -> int:
        """The offset below which everything is on every replica in sync."""
        return self.answers.confirmed

    def _is_near(self, _end: int) -> bool:
        """Look anew where no replica is waited for; whether enough of them are near was asked before the append."""
        if len(self.in_sync.largest) == 1:
            self._acknowledged()
        return True

    @property
    def _kept(self) -> int:
        return self._store.log.flushed if self._level is FLUSHED else self._store.log.written

    def _acknowledged(self) -> None:
        copies = self.copies()
        self.answers.heard_until_s = self._heard_until_s()
        found = confirmed(self.in_sync, self._kept, copies)
        if found > self.confirm:
            self._store.log.dispatch_below(found)
            self.answers.confirm(found)
            self._confirmed.set()
            if found >= self._epoch_start:
                self.on_serves()
        self._admit(copies)

    def _heard_until_s(self) -> float:
        """Return until when no other replica can lead: a lease after the oldest last report of the members in sync.

        A connection counts for nothing: it may be half open, and a member that has promised a later epoch is silent.
        """
        master = self.in_sync.group.master
        heard = self._heard_s | {feed.replica: feed.read_s for feed in self._replicas() if feed.has_reported}
        others = [heard.get(replica, -inf) for replica in self.in_sync.largest if replica != master]
        return min(others, default=inf) + self._lease_s

    def _admit(self, copies: dict[int, ReplicaCopy]) -> None:
        if is_admitting(self.in_sync, copies):
            self.answers.refusal = None
        elif self.answers.refusal is None:
            group = self.in_sync.group
            remark = (
                f"in-sync replicas not enough: the group asks for {group.min_iss}, in sync {list(group.iss)}, "
                f"connected {sorted(copies)}; start the other brokers of the group"
            )
            self.answers.refusal = Refused(ResponseCode.SYSTEM_ERROR, remark)
        if self.tables is not None:
            self.tables.line.refusal = self.answers.refusal

    # ---- the in-sync set

    async def run(self) -> None:
        """Serve replicas until cancelled, and watch the in-sync set."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(super().run())
                tasks.create_task(self._watch())
        finally:
            self.answers.end()
            if self.tables is not None:
                self.tables.line.end()

    async def _watch(self) -> None:
        """Tell when the set should change: when a replica reports or leaves, and when one is away for too long."""
        while True:
            self._changed.clear()
            if self.wanted() is not None:
                self._look()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self._next_leave_s(), LOOK_S)):
                    await self._changed.wait()

    def _next_leave_s(self) -> float:
        """Seconds until the next replica that is not too late yet would leave the set, were it not heard of again."""
        limit_s, now = self._limit_s, asyncio.get_running_loop().time()
        ends = [copy.caught_up_s + limit_s - now for copy in self._aged_copies(limit_s).values()]
        return min((end for end in ends if end > 0), default=LOOK_S) + MARGIN_S

    @property
    def _limit_s(self) -> float:
        return self._settings.value.failover.ha_max_time_slave_not_catchup / 1000

    @property
    def _lease_s(self) -> int:
        return self._settings.value.failover.coordinator_lease_seconds

    def ailment(self) -> str:
        """Return why this master should hand over; empty while it can take messages.

        Too few of the replicas in sync are connected and have reported what they got: perhaps others can reach them. A
        new master is given the time of ``haMaxTimeSlaveNotCatchup`` to gather them, which ends when it has done so.
        """
        group, lease_s = self.in_sync.group, self._lease_s
        now = asyncio.get_running_loop().time()
        if self.confirm < self._epoch_start and now - self._began_s < self._limit_s:
            return ""
        near = self._near(lease_s)
        if len(near) >= min(group.min_iss, len(group.iss)):
            return ""
        return f"of the replicas in sync {list(group.iss)} only {near} were heard of within {lease_s} s"

    def _near(self, within_s: float) -> list[int]:
        """The members of the set, this one included, that are connected and owe no report for longer than a time."""
        now, group = asyncio.get_running_loop().time(), self.in_sync.group
        silent_s = {replica: self._left_s.get(replica, self._began_s) for replica in group.iss}
        silent_s |= {feed.replica: feed.owed_s for feed in self._replicas()} | {group.master: now}
        return [replica for replica in group.iss if now - silent_s[replica] <= within_s]

    def learn(self, group: GroupState) -> None:
        """Take a state of this epoch."""
        outsiders = self.in_sync.outsiders(group, [feed.replica for feed in self._replicas()])
        before, self.in_sync = self.in_sync.group, self.in_sync.learn(group)
        for feed in self._replicas():
            if feed.replica in outsiders:
                feed.abort()
                feed.replica = 0
        self._acknowledged()
        if self.tables is not None:
            self.tables.left(frozenset(before.iss).difference(self.in_sync.group.iss))
            self.tables.look()
        self._changed.set()

    def wanted(self) -> GroupState | None:
        """Return the state that this master wants or has proposed; None for no change.

        Nobody leaves while too few others are surely there: a master that loses sight of all of them soon hands over,
        and whoever is elected needs the members that left.
        """
        if self.in_sync.proposed:
            return self.in_sync.proposed[-1]
        now, limit_s, group = asyncio.get_running_loop().time(), self._limit_s, self.in_sync.group
        new = next_set(
            self.in_sync,
            self._with_tables(self._aged_copies(limit_s)),
            confirm=self.confirm,
            epoch_start=self._epoch_start,
            now_s=now,
            limit_s=limit_s,
        )
        is_smaller = new is not None and len(new.iss) < len(group.iss)
        return None if is_smaller and len(self._near(self._lease_s / 2)) < group.min_iss else new

    def _aged_copies(self, limit_s: float) -> dict[int, ReplicaCopy]:
        """The copies, and members that are away, with the time from which ``limit_s`` counts.

        Members that are away or silent leave the set after a lease, and those that tell that they ail at once.
        """
        earlier = max(limit_s - self._lease_s, 0)
        copies = self.copies()
        for feed in self._replicas():
            if feed.replica and feed.owed_s < inf:
                copy = copies[feed.replica]
                copies[feed.replica] = replace(copy, caught_up_s=min(copy.caught_up_s, feed.owed_s - earlier))
        for replica in self.in_sync.group.iss:
            copies.setdefault(replica, ReplicaCopy(caught_up_s=self._left_s.get(replica, self._began_s) - earlier))
        return copies | {replica: ReplicaCopy(caught_up_s=-inf) for replica in self.ailing}

    def _with_tables(self, copies: dict[int, ReplicaCopy]) -> dict[int, ReplicaCopy]:
        """The copies without replicas that would join and have not got the tables yet."""
        tables, members = self.tables, self.in_sync.group.iss
        if tables is None:
            return copies
        return {one: copy for one, copy in copies.items() if one in members or tables.has_tables(one)}

    def proposal(self) -> tuple[GroupState, GroupState] | None:
        """Return a change of the set, after the state that it replaces; from now on both count."""
        new = self.wanted()
        if new is None:
            return None
        if not self.in_sync.proposed:
            self.in_sync = self.in_sync.propose(new)
        return self.in_sync.group, new

    async def settled(self) -> None:
        """Wait until every replica in sync has what the log has now, so that all answers have left."""
        end = self._store.log.tail
        while self.confirm < end:
            self._confirmed.clear()
            await self._confirmed.wait()

    def successor(self) -> int:
        """Return the replica in sync that is connected and has most of the log; 0 for none."""
        copies = {one: copy for one, copy in self.copies().items() if one in self.in_sync.group.iss}
        return max(copies, key=lambda one: (copies[one].acked, -one), default=0)

    @property
    def is_surrounded(self) -> bool:
        """Whether every replica in sync has reported within the lease."""
        return asyncio.get_running_loop().time() <= self._heard_until_s()
