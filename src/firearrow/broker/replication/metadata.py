"""A slave's copies of its master's tables: topics, groups, offsets, delay offsets, the timers' checkpoint, users.

The tables are asked for when the master is found, every `PERIOD_S` (in a group with a coordinator `GROUP_PERIOD_S`),
and soon after a record of an unknown topic came. `table_source` tells which tables may be taken, and when.
Offsets that a group has committed here while the master was away stay until the master's own change: a row that is
the same as at the last look is not taken again. Java: ``SlaveSynchronize``, which overwrites them every time.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final, NamedTuple

from firearrow.access.copies import AccountCopies
from firearrow.broker.delivery.schedule import DelayedDelivery
from firearrow.broker.replication.table_source import AnyMaster, TableSource
from firearrow.broker.tables.tables import Tables
from firearrow.errors import FireArrowError, RequestRefused
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
from firearrow.runtime.network import Address
from firearrow.store.placement import Rows
from firearrow.store.timer.files import keep_copied_check
from firearrow.store.timer.layout import TimerCheck
from firearrow.telemetry.damped import Damped

PERIOD_S: Final = 10.0
GROUP_PERIOD_S: Final = 1.0
PAUSE_S: Final = 0.2
"""The least time between two looks."""
PAUSES: Final = 20
"""A look is followed by a pause of so many times its length, so that large tables do not load the master."""
TIMEOUT_MS: Final = 10_000
SEPARATOR: Final = "@"

log = logging.getLogger(__name__)


class Told(NamedTuple):
    """What a master told of deliveries, at some time before its log ended at ``log_end``."""

    log_end: int
    offsets: dict[str, dict[int, int]]
    delays: DelayOffsetTable
    timers: TimerCheck | None


class Metadata:
    """Keeps the tables of a slave equal to those of its master."""

    def __init__(
        self,
        tables: Tables,
        delays: DelayedDelivery,
        caller: Caller,
        source: TableSource | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        self._tables = tables
        self._source = source or AnyMaster(caller)
        self._period_s = period_s
        self._told: Told | None = None
        self._topics = tables.topics
        self._delays = delays
        self._caller = caller
        self._wanted = asyncio.Event()
        self._failures = Damped()
        self._offsets_seen: dict[str, dict[int, int]] = {}
        self._timers_seen: TimerCheck | None = None
        self.accounts: AccountCopies | None = None
        """Where users and rules of the master are taken; None when access is off, or 4.9's file says who is known."""
        self.master: Address | None = None
        """The address of the master; None while it is not known."""
        tables.store.views.dispatch.views.append(self._arrived)

    def found(self, master: Address) -> None:
        """Copy the tables of the master at this address from now on."""
        if master != self.master:
            self.master = master
            self._wanted.set()

    def _arrived(self, rows: Rows) -> None:
        known = self._topics.table
        if any(row[0].topic not in known for row in rows):
            self._wanted.set()

    async def run(self) -> None:
        """Copy the tables until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period_s):
                    await self._wanted.wait()
            self._wanted.clear()
            began = asyncio.get_running_loop().time()
            took = 0.0
            if self.master is not None:
                try:
                    await self._copy(self.master)
                    took = asyncio.get_running_loop().time() - began
                    await self._take_told()
                except FireArrowError as error:
                    self._failed(self.master, error)
            await asyncio.sleep(max(PAUSE_S, min(PAUSES * took, PERIOD_S)))

    def _failed(self, master: Address, error: FireArrowError) -> None:
        if self._failures.count(asyncio.get_running_loop().time()):
            extra = {"master": str(master), "reason": str(error)}
            log.warning("the tables of master %s are not copied for now: %s", master, error, extra=extra)

    async def _copy(self, master: Address) -> None:
        await self._source.log_end(master)
        topics = await self._caller.call(master, GetAllTopicConfig(), timeout_ms=TIMEOUT_MS)
        groups = await self._caller.call(master, GetAllSubscriptionGroupConfig(), timeout_ms=TIMEOUT_MS)
        offsets = await self._caller.call(master, GetAllConsumerOffset(), timeout_ms=TIMEOUT_MS)
        delays = await self._caller.call(master, GetAllDelayOffset(), timeout_ms=TIMEOUT_MS)
        timers = await self._timers_of(master)
        accounts = await self._accounts_of(master)
        log_end = await self._source.log_end(master)
        self._topics.adopt(decode(topics.body, TopicConfigAndMappingTable))
        self._tables.groups.adopt(decode(groups.body, SubscriptionGroupTable))
        if self.accounts is not None and accounts is not None:
            self.accounts.take(accounts)
        if self._told is None:  # else the log has not got what belongs to those of an earlier look
            table = decode(offsets.body, ConsumerOffsetTable).offset_table
            self._told = Told(log_end, table, decode(delays.body, DelayOffsetTable), timers)

    async def _timers_of(self, master: Address) -> TimerCheck | None:
        try:
            reply = await self._caller.call(master, GetTimerCheckPoint(), timeout_ms=TIMEOUT_MS)
        except RequestRefused as refused:
            if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:  # Apache's 4.9 has no timers
                raise
            return None
        return TimerCheck.decode(reply.body)

    async def _accounts_of(self, master: Address) -> bytes | None:
        if self.accounts is None or not self.accounts.may_ask(master):
            return None
        try:
            reply = await self._caller.call(master, CopyAccounts(), timeout_ms=TIMEOUT_MS)
        except RequestRefused as refusal:
            self.accounts.refused(refusal)
            return None
        return bytes(reply.body)

    async def _take_told(self) -> None:
        """Take what was told of deliveries once the log here has all that belongs to it; later, if that takes long."""
        told = self._told
        if told is None:
            return
        try:
            async with asyncio.timeout(PERIOD_S):
                await self._tables.store.reached(told.log_end, self._tables.store.log.kept_at)
        except TimeoutError:
            return
        self._told = None
        self._take_offsets(told.offsets)
        self._take_delays(told.delays)
        await self._take_timers(told.timers)

    async def _take_timers(self, check: TimerCheck | None) -> None:
        """Keep how far the master's timers are: a slave that is started as master makes its wheel from the log."""
        if check is not None and check.queue_offset and check != self._timers_seen:
            await keep_copied_check(self._tables.disk, check)
            self._timers_seen = check

    def _take_offsets(self, table: dict[str, dict[int, int]]) -> None:
        commit = self._tables.offsets.commit
        for name, queues in table.items():
            topic, found, group = name.partition(SEPARATOR)
            if found and self._offsets_seen.get(name) != queues:
                for queue_id, offset in queues.items():
                    commit(group, topic, queue_id, offset)
        self._offsets_seen = table
        self._tables.offset_file.changed()

    def _take_delays(self, table: DelayOffsetTable) -> None:
        offsets = self._delays.offsets
        for level, offset in table.offset_table.items():
            if offsets[level] != offset:
                offsets.advance(level, offset)
        self._delays.file.changed()
