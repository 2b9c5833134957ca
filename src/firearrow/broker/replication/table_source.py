"""Whether a master's tables may be taken, and how much of its log belongs to them.

Tables travel apart from the log, so an answer says nothing of its time. A slave asks where the master stands before and
after it reads the tables. It takes offsets only when its own log has everything that the master's had after them: else
an offset could count a delivery that the slave has not got, and a new master would skip it.

In a group with a coordinator the answer also names the epoch: tables of a broker that does not lead the slave's epoch
are not taken. A broker leads an epoch at most once, so one that led before and after the reading led during it.
"""

from typing import Protocol

from firearrow.errors import StaleEpoch
from firearrow.fastjson import decode
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.replication.replication import EpochEntryCache
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address

MASTER_ID = 0
TIMEOUT_MS = 10_000
LOG_END = "commitLogMaxOffset"


class TableSource(Protocol):
    """Where a master stands."""

    async def log_end(self, master: Address) -> int:
        """Return the end of the master's log; raise when its tables must not be taken."""
        ...


class AnyMaster:
    """A master without a coordinator, ours or Apache's."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def log_end(self, master: Address) -> int:
        """Return the end of the master's log."""
        reply = await self._caller.call(master, GetBrokerRuntimeInfo(), timeout_ms=TIMEOUT_MS)
        return int(decode(reply.body, KVTable).table.get(LOG_END, "0"))


class MasterOfEpoch:
    """The master of one epoch."""

    def __init__(self, caller: Caller, epoch: int) -> None:
        self._caller = caller
        self._epoch = epoch

    async def log_end(self, master: Address) -> int:
        """Return the end of the master's log; raise `StaleEpoch` for a broker that does not lead this epoch."""
        reply = await self._caller.call(master, GetBrokerEpochCache(), timeout_ms=TIMEOUT_MS)
        cache = decode(reply.body, EpochEntryCache)
        epoch = cache.epoch_list[-1].epoch if cache.epoch_list else 0
        if cache.broker_id != MASTER_ID or epoch != self._epoch:
            part = "master" if cache.broker_id == MASTER_ID else "slave"
            raise StaleEpoch(f"{master} is {part} in epoch {epoch}, not master in {self._epoch}: its tables may be old")
        return cache.max_offset
