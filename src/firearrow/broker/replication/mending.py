"""Mends rot: records that fail their check here are fetched from another broker of the group and written back.

The members come from the name servers: a slave asks its master, a master its slaves. Records are asked for one by one
by their place in the log (VIEW_MESSAGE_BY_ID), which brokers of Apache's answer as well. A member checks what it hands
out, and what arrives is checked again: every record must be whole and lie where the bad one lay, and together they must
fill the bad range. Under automatic failover the two logs must also have the range in common by their epochs, so that
bytes of a master that was replaced are never taken.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from firearrow.broker.identity import Identity
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.fastjson import decode
from firearrow.model.epochs import Epoch, Epochs, common_end
from firearrow.protocol.bodies.naming.route import GetBrokerMemberGroupBody
from firearrow.protocol.bodies.replication.replication import EpochEntryCache
from firearrow.protocol.requests.message.query import ViewMessageById
from firearrow.protocol.requests.naming.registration import GetBrokerMemberGroup
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.store.recovery.damage import BadRange
from firearrow.store.store import Store
from firearrow.telemetry.damped import DampedEvents

PERIOD_S: Final = 5.0
"""Seconds between two looks for bad ranges."""
TIMEOUT_MS: Final = 5_000

log = logging.getLogger(__name__)


class RecordMender:
    """Fetches good copies of bad records."""

    def __init__(self, store: Store, caller: Caller, name_servers: Sequence[Address], identity: Identity) -> None:
        self._store = store
        self._caller = caller
        self._name_servers = name_servers
        self._identity = identity
        self._failures = DampedEvents()

    async def run(self) -> None:
        """Mend until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            bad = self._store.mend.bad()
            if bad:
                await self._mend(bad)

    async def _mend(self, bad: list[BadRange]) -> None:
        for member in await self._members():
            for one in bad:
                try:
                    if await self._has_same(member, one):
                        await self._store.mend.put_back(one, await self._records(member, one))
                except FireArrowError as error:
                    self._failed(one, member, error)
            bad = [one for one in self._store.mend.bad() if one in bad]

    def _failed(self, bad: BadRange, member: Address, error: FireArrowError) -> None:
        if self._failures.count(asyncio.get_running_loop().time()):
            extra = {"start": bad.start, "member": str(member), "reason": str(error)}
            log.warning("the log at %d cannot be mended by %s: %s", bad.start, member, error, extra=extra)

    async def _members(self) -> list[Address]:
        """The other brokers with this broker's name."""
        own = self._identity
        asked = GetBrokerMemberGroup(cluster_name=own.cluster, broker_name=own.name)
        for server in self._name_servers:
            try:
                reply = await self._caller.call(server, asked, timeout_ms=TIMEOUT_MS)
                group = decode(reply.body, GetBrokerMemberGroupBody).broker_member_group
                found = {} if group is None else group.broker_addrs
                return [Address.parse(address) for _, address in sorted(found.items()) if address != own.address]
            except FireArrowError:
                continue
        return []

    async def _has_same(self, member: Address, bad: BadRange) -> bool:
        """Whether a member's log has the bytes of a range in common with this one."""
        mine = self._store.replica.history.epochs
        try:
            reply = await self._caller.call(member, GetBrokerEpochCache(), timeout_ms=TIMEOUT_MS)
        except RequestRefused:
            return not mine.entries  # neither has epochs: a slave of the manual modes, or its master
        cache = decode(reply.body, EpochEntryCache)
        try:
            its = Epochs(tuple(Epoch(one.epoch, one.start_offset) for one in cache.epoch_list or ()))
        except ValueError:
            return False
        common = common_end(mine, self._store.log.tail, its, cache.max_offset)
        return common is not None and bad.end <= common

    async def _records(self, member: Address, bad: BadRange) -> bytes:
        records, at = list[bytes](), bad.start
        while at < bad.end:
            reply = await self._caller.call(member, ViewMessageById(offset=at), timeout_ms=TIMEOUT_MS)
            if not reply.body:
                break
            records.append(bytes(reply.body))
            at += len(reply.body)
        return b"".join(records)
