"""Whether a master's tables may be taken, and how much of its log belongs to them.

Tables travel apart from the log, so an answer says nothing of its time. A slave asks where the master stands before and
after it reads the tables. It takes offsets only when its own log has everything that the master's had after them: else
an offset could count a delivery that the slave has not got, and a new master would skip it.

Without a coordinator, tables are taken only while the connection that copies the log has found that this log is the
beginning of the master's (`agreement`). Apache's masters compare no records: what they have no more stays here.

In a group with a coordinator the answer also names the epoch: tables of a broker that does not lead the slave's epoch
are not taken. A broker leads an epoch at most once, so one that led before and after the reading led during it.
"""

import asyncio
from typing import Protocol

from msgspec.structs import replace

from firearrow.broker.replication.agreement import Agreement
from firearrow.errors import OffsetNotStored, StaleEpoch
from firearrow.fastjson import decode
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.replication.replication import EpochEntryCache
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address

MASTER_ID = 0
TIMEOUT_MS = 10_000
AGAIN_S = 1.0
NOTHING = -1
"""The number of the last change that a replica has which has taken no tables yet."""
LOG_START = "commitLogMinOffset"
LOG_END = "commitLogMaxOffset"


class TableSource(Protocol):
    """The state of a master's log and tables."""

    is_ours: bool
    """Whether the master is a FireArrow broker for sure."""
    number: int | None
    """The number of the last change of the master's tables, as told with `log_end`; None for one without numbers."""
    deleted: dict[str, int]
    """Topics that were deleted, as the master told with `log_end`, with the end of its log then."""
    log_start: int | None
    """The begin of the master's log, as told with `log_end`; None for a master that does not tell."""
    passed_on: int | None
    """The offset up to which the master's tables had its log, as told with `log_end`; None if it does not tell."""

    @property
    def agreed(self) -> int | None:
        """The state in which the log here is the beginning of the master's; None while that is not known."""
        ...

    @property
    def deletes(self) -> bool:
        """Whether what the master has no more is deleted here."""
        ...

    async def log_end(self, master: Address) -> int:
        """Return the end of the master's log; raise when its tables must not be taken."""
        ...

    async def still_agrees(self, agreed: int) -> bool:
        """Whether tables that were told in that state may be taken; wait until that is known."""
        ...

    async def changed(self, master: Address) -> None:
        """Return when there may be a change of the tables that is not known."""
        ...

    async def taken(self, master: Address, number: int) -> None:
        """Tell the master that this replica has everything up to a change, durably."""
        ...


class AnyMaster:
    """A master without a coordinator, ours or Apache's."""

    is_ours = False

    def __init__(self, caller: Caller, agreement: Agreement) -> None:
        self._caller = caller
        self._agreement = agreement
        self.number: int | None = None
        self.deleted: dict[str, int] = {}
        self.log_start: int | None = None
        self.passed_on: int | None = None

    @property
    def agreed(self) -> int | None:
        """The connection whose master goes on with the log here."""
        return self._agreement.connection

    @property
    def deletes(self) -> bool:
        """Whether the records were compared: a master of Apache's that lost its disk may have as long a log as here."""
        return self._agreement.is_compared

    async def log_end(self, master: Address) -> int:
        """Return the end of the master's log; raise `OffsetNotStored` if it is shorter than the one here."""
        mine = self._agreement.end()
        reply = await self._caller.call(master, GetBrokerRuntimeInfo(), timeout_ms=TIMEOUT_MS)
        told = decode(reply.body, KVTable).table
        end = int(told.get(LOG_END, "0"))
        if end < mine:
            raise OffsetNotStored(f"the log of {master} ends at {end} and the one here at {mine}: it has other tables")
        self.log_start = int(told[LOG_START]) if LOG_START in told else None
        return end

    async def still_agrees(self, agreed: int) -> bool:
        """Whether the connection lasts: wait until something comes over it."""
        return await self._agreement.lasts(agreed)

    async def changed(self, _master: Address) -> None:
        """Wait for ever: this master does not report changes."""
        await asyncio.get_running_loop().create_future()

    async def taken(self, _master: Address, _number: int) -> None:
        """Tell nothing: no master of such a group asks for it."""


class MasterOfEpoch:
    """The master of one epoch."""

    agreed = 0
    deletes = True
    is_ours = True

    def __init__(self, caller: Caller, epoch: int, replica: int = 0, directory: int = 0) -> None:
        """``replica`` and ``directory`` say who asks."""
        self._caller = caller
        self._epoch = epoch
        self._asked = GetBrokerEpochCache(replica=replica, epoch=epoch, directory=directory)
        self._taken = NOTHING
        self.number: int | None = None
        self.deleted: dict[str, int] = {}
        self.log_start: int | None = None
        self.passed_on: int | None = None

    async def log_end(self, master: Address) -> int:
        """Return the end of the master's log; raise `StaleEpoch` for a broker that does not lead this epoch."""
        reply = await self._caller.call(master, replace(self._asked, taken=self._taken), timeout_ms=TIMEOUT_MS)
        cache = decode(reply.body, EpochEntryCache)
        epoch = cache.epoch_list[-1].epoch if cache.epoch_list else 0
        if cache.broker_id != MASTER_ID or epoch != self._epoch:
            part = "master" if cache.broker_id == MASTER_ID else "slave"
            raise StaleEpoch(f"{master} is {part} in epoch {epoch}, not master in {self._epoch}: its tables may be old")
        self.number = reply.answer.tables
        self.deleted = cache.deleted_topics or {}
        self.log_start = cache.min_offset
        self.passed_on = cache.passed_on_offset
        return cache.max_offset

    async def still_agrees(self, _agreed: int) -> bool:
        """Return True: a master of an epoch has the log of that epoch."""
        return True

    async def changed(self, master: Address) -> None:
        """Ask the master until it tells of a change that is not known here, at most once in `AGAIN_S`."""
        now_s = asyncio.get_running_loop().time
        while (known := self.number) is not None:
            asked, began_s = replace(self._asked, taken=self._taken, known=known), now_s()
            reply = await self._caller.call(master, asked, timeout_ms=TIMEOUT_MS)
            if reply.answer.tables != known:
                return
            await asyncio.sleep(began_s + AGAIN_S - now_s())
        await asyncio.sleep(AGAIN_S)

    async def taken(self, master: Address, number: int) -> None:
        """Tell the master that this replica has everything up to a change, durably."""
        self._taken = max(number, self._taken)
        await self.log_end(master)
