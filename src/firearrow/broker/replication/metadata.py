"""A slave's copies of its master's tables: topics, groups, offsets, delay offsets, the timers' checkpoint, users.

The tables are asked for when the master is found, every `PERIOD_S`, and soon after a record of an unknown topic came.
In a group with a coordinator they are asked for every `GROUP_PERIOD_S`: the offsets that changed, and topics and groups
if their version is another one, so that a look costs as much as what changed. `table_source` tells which tables may be
taken, and when.

What the master has no more is deleted here as well: topics with their queues (`topic_copies`), groups, and offsets
(`offset_copies`). Java: ``SlaveSynchronize``, which deletes no offsets.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec import Struct

from firearrow.access.copies import AccountCopies
from firearrow.broker.delivery.schedule import DelayedDelivery
from firearrow.broker.replication.offset_copies import OffsetCopies, ToldOffsets, joined
from firearrow.broker.replication.table_pages import TablePages
from firearrow.broker.replication.table_source import NOTHING, TableSource
from firearrow.broker.replication.topic_copies import TopicCopies
from firearrow.broker.state.saved import keep
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.offset_book import OffsetBook
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import ConnectionLost, FireArrowError, RequestRefused
from firearrow.fastjson import decode
from firearrow.protocol.bodies.admin.topic import TopicConfigAndMappingTable
from firearrow.protocol.bodies.group.group import SubscriptionGroupTable
from firearrow.protocol.bodies.group.offset import ConsumerOffsetTable, DelayOffsetTable
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.auth import CopyAccounts
from firearrow.protocol.requests.admin.topic import GetAllTopicConfig
from firearrow.protocol.requests.group.group import GetAllSubscriptionGroupConfig
from firearrow.protocol.requests.replication.replication import (
    GetAllConsumerOffset,
    GetAllDelayOffset,
    GetTimerCheckPoint,
)
from firearrow.remoting.caller import Caller
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.network import Address
from firearrow.store.placement import Rows
from firearrow.store.store import Store
from firearrow.store.timer.files import keep_copied_check
from firearrow.store.timer.layout import TimerCheck
from firearrow.telemetry.damped import DampedEvents

PERIOD_S: Final = 10.0
GROUP_PERIOD_S: Final = 1.0
PAUSE_S: Final = 0.2
"""The least time between two looks."""
PAUSES: Final = 20
"""A look at whole tables is followed by a pause of so many times its length: they must not load the master."""
TIMEOUT_MS: Final = 10_000
NOT_COPIED: Final = (ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
"""The answers of a master that never gives its users away, or not over a connection like this one."""

log = logging.getLogger(__name__)


class MasterChanges(NamedTuple):
    """The deliveries and deletions that a master told, while the end of its log went from one offset to another."""

    agreed: int
    """The state of `TableSource.agreed` while the master told."""
    told_at: int
    """The end of the master's log before it told."""
    passed_on: int | None
    """The offset up to which the master's tables had its log before it told: its topics are complete up to there.

    None for a master that does not tell.
    """
    log_start: int | None
    """The begin of the master's log before it told; None for a master that does not tell."""
    log_end: int
    """The end of the master's log after it told."""
    number: int | None
    """The number of the last change before the master told; None without numbers, or if a part of it is not here."""
    deleted: dict[str, int]
    """Topics that were deleted before the master told, with the end of the log then."""
    offsets: ToldOffsets
    delays: DelayOffsetTable
    timers: TimerCheck | None


class CopiedTables(Struct, frozen=True, kw_only=True, eq=False):
    """The tables that a slave copies from its master."""

    topics: TopicBook
    groups: GroupBook
    offsets: OffsetBook
    delays: DelayedDelivery


class Metadata:
    """Keeps the tables of a slave equal to those of its master."""

    def __init__(
        self,
        tables: CopiedTables,
        caller: Caller,
        source: TableSource,
        period_s: float = PERIOD_S,
        *,
        store: Store,
        disk: Disk,
    ) -> None:
        self._tables = tables
        self._source = source
        self._period_s = period_s
        self._told: MasterChanges | None = None
        self._store = store
        self._disk = disk
        self._caller = caller
        self._pages = TablePages(caller)
        self._wanted = asyncio.Event()
        self._failures = DampedEvents()
        self._offsets = OffsetCopies(tables.offsets.table, self._knows)
        self._topic_copies = TopicCopies(store, tables.offsets.table, tables.topics)
        self._timers_seen: TimerCheck | None = None
        self._told_taken = NOTHING
        self._has_copied = False
        self.accounts: AccountCopies | None = None
        """Takes users and rules of the master; None when access is off, or the accounts are those of 4.9's file."""
        self.master: Address | None = None
        """The address of the master; None while it is not known."""
        store.views.dispatch.views.append(self._arrived)
        store.queues.on_anew.append(self._begins_anew)

    def found(self, master: Address) -> None:
        """Copy the tables of the master at this address from now on."""
        if master != self.master:
            self.master = master
            self.look()

    def look(self) -> None:
        """Copy the tables soon."""
        self._wanted.set()

    def _arrived(self, rows: Rows) -> None:
        known = self._tables.topics.table
        if any(row[0].topic not in known for row in rows):
            if self._source.is_ours:  # such a master makes topics of records that come late, so this one may be gone
                self._topic_copies.look_again()
            self._wanted.set()

    def _knows(self, topic: str, group: str) -> bool:
        return topic in self._tables.topics.table and group in self._tables.groups.table

    def _begins_anew(self, topic: str, queue_id: int, end: int) -> None:
        """Delete the offsets in a queue whose topic was deleted and created again."""
        self._tables.offsets.table.forget_queue(topic, queue_id)
        self._tables.offsets.file.changed()
        self._offsets.ended(topic, end)

    async def run(self) -> None:
        """Copy the tables until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._copy_again_and_again())
            tasks.create_task(self._watch())

    async def _watch(self) -> None:
        """Look soon when the master tells of a change."""
        while True:
            if self.master is None or not self._has_copied:
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                await self._source.changed(self.master)
                self._wanted.set()
                await asyncio.sleep(PAUSE_S)
            except FireArrowError:  # the copy tells of it
                await asyncio.sleep(self._period_s)

    async def _copy_again_and_again(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(began + self._period_s):
                    await self._wanted.wait()
            self._wanted.clear()
            began = loop.time()
            took = 0.0
            agreed = self._source.agreed
            if self.master is not None and agreed is not None:
                try:
                    await self._copy(self.master, agreed)
                    took = loop.time() - began
                    await self._take_told()
                except FireArrowError as error:
                    self._failed(self.master, error)
            await asyncio.sleep(PAUSE_S if self._source.is_ours else max(PAUSE_S, min(PAUSES * took, PERIOD_S)))

    def _failed(self, master: Address, error: FireArrowError) -> None:
        if self._failures.count(asyncio.get_running_loop().time()):
            extra = {"master": str(master), "reason": str(error)}
            log.warning("the tables of master %s are not copied for now: %s", master, error, extra=extra)

    async def _copy(self, master: Address, agreed: int) -> None:
        told_at = await self._source.log_end(master)
        number, deleted, log_start = self._source.number, self._source.deleted, self._source.log_start
        passed_on = self._source.passed_on if self._source.is_ours else told_at
        topics, groups, offsets, delays, timers, accounts = await asyncio.gather(
            self._topics_of(master),
            self._groups_of(master),
            self._offsets_of(master),
            self._caller.call(master, GetAllDelayOffset(), timeout_ms=TIMEOUT_MS),
            self._timers_of(master),
            self._accounts_of(master),
        )
        log_end = await self._source.log_end(master)
        if self._source.agreed != agreed:
            raise ConnectionLost(f"the connection that copies the log of {master} ended while the tables were read")
        if topics is not None and (gone := self._tables.topics.adopt(topics, is_first=not self._has_copied)):
            self._topic_copies.look_again(gone)
        if groups is not None:
            self._tables.groups.adopt(groups, is_first=not self._has_copied)
        if self.accounts is not None and accounts is not None and not await self.accounts.take(accounts):
            number = None  # a change of users that the master counts is not here
        if self._told is not None and self._told.agreed != agreed:
            self._drop_told()
        if self._told is None:  # else the log has not got what belongs to those of an earlier look
            delayed = decode(delays.body, DelayOffsetTable)
            self._told = MasterChanges(
                agreed, told_at, passed_on, log_start, log_end, number, deleted, offsets, delayed, timers
            )

    def _drop_told(self) -> None:
        """Take nothing of what was told, and find again what the master has no more."""
        self._told = None
        self._topic_copies.look_again()

    async def _topics_of(self, master: Address) -> TopicConfigAndMappingTable | None:
        """Return the topics of the master; None when they are those that are known here."""
        if self._source.is_ours and self._has_copied:
            first = await self._caller.call(
                master, GetAllTopicConfig(topic_seq=0, max_topic_num=1), timeout_ms=TIMEOUT_MS
            )
            if decode(first.body, TopicConfigAndMappingTable).data_version == self._tables.topics.table.version:
                return None
        return await self._pages.topics(master)

    async def _groups_of(self, master: Address) -> SubscriptionGroupTable | None:
        """Return the groups of the master; None when they are those that are known here."""
        if self._source.is_ours and self._has_copied:
            none = GetAllSubscriptionGroupConfig(group_seq=0, max_group_num=0)
            empty = await self._caller.call(master, none, timeout_ms=TIMEOUT_MS)
            if decode(empty.body, SubscriptionGroupTable).data_version == self._tables.groups.table.version:
                return None
        return await self._pages.groups(master)

    async def _offsets_of(self, master: Address) -> ToldOffsets:
        """Return the offsets of the master: those that changed since the last look, or all."""
        told: ToldOffsets | None = None
        while True:
            asked = GetAllConsumerOffset(since=self._offsets.mark if told is None else told.mark, in_parts=True)
            reply = await self._caller.call(master, asked, timeout_ms=TIMEOUT_MS)
            table = decode(reply.body, ConsumerOffsetTable)
            moved = (table.moved or {}) if self._source.is_ours else None
            told = joined(told, ToldOffsets(table.offset_table, reply.answer.mark, reply.answer.since, moved))
            if not reply.answer.more:
                return told

    async def _timers_of(self, master: Address) -> TimerCheck | None:
        try:
            reply = await self._caller.call(master, GetTimerCheckPoint(), timeout_ms=TIMEOUT_MS)
        except RequestRefused as refused:
            if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:  # Apache's 4.9 has no timers
                raise
            return None
        return TimerCheck.decode(reply.body)

    async def _accounts_of(self, master: Address) -> bytes | None:
        """Return users and rules of the master; None where the settings of this broker or of the master forbid that."""
        if self.accounts is None or not self.accounts.may_ask(master):
            return None
        try:
            reply = await self._caller.call(master, CopyAccounts(), timeout_ms=TIMEOUT_MS)
        except RequestRefused as refusal:
            self.accounts.refused(refusal)
            if refusal.code not in NOT_COPIED:
                raise
            return None
        return bytes(reply.body)

    async def _take_told(self) -> None:
        """Take what was told once the queues here have all that belongs to it; later, if that takes long."""
        told = self._told
        if told is None:
            return
        try:
            async with asyncio.timeout(PERIOD_S):
                await self._store.dispatched(told.log_end)
                may_take = await self._source.still_agrees(told.agreed)
        except TimeoutError:
            return
        if not may_take:
            self._drop_told()
            return
        self._told = None
        self._store.retention.master_start = told.log_start
        await self._topic_copies.end_lives(told.deleted)
        if self._source.deletes and told.passed_on is not None:
            # only now the queues here have all records of before the master told its topics
            await self._topic_copies.delete_strays(told.passed_on, known=not self._source.is_ours)
        has_all = await self._offsets.take(told.offsets, told.told_at, deletes=self._source.deletes)
        self._tables.offsets.file.changed()
        self._take_delays(told.delays)
        await self._take_timers(told.timers)
        await self._tell_taken(told.number if has_all else None)

    async def _tell_taken(self, number: int | None) -> None:
        """Tell the master which changes are durable here, when there are new ones."""
        self._has_copied = True
        if number is None or number <= self._told_taken or self.master is None:
            return
        tables = self._tables
        for file in (tables.topics.file, tables.groups.file, tables.offsets.file):
            await keep(file.changed)
        self._told_taken = number
        await self._source.taken(self.master, number)

    async def _take_timers(self, check: TimerCheck | None) -> None:
        """Keep how far the master's timers are: a slave that is started as master makes its wheel from the log."""
        if check is not None and check.queue_offset and check != self._timers_seen:
            await keep_copied_check(self._disk, check)
            self._timers_seen = check

    def _take_delays(self, table: DelayOffsetTable) -> None:
        offsets = self._tables.delays.offsets
        for level, offset in table.offset_table.items():
            if offsets[level] != offset:
                offsets.advance(level, offset)
        self._tables.delays.file.changed()
