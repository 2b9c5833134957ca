"""A replica that follows the master of an epoch: greets it, finds what their logs have in common, and copies the rest.

A log that has bytes which the master's has not is cut. The cut is noted on disk first and done when the store is opened
again, so this part of the broker ends then (`on_cut`), and the next one goes on behind the cut. It ends so, too, when
the disk was full: a log that could not be written takes nothing until it is opened again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from firearrow.broker.failover.elections import OwnState
from firearrow.broker.replication.slave import MasterLink, Slave
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import ConnectionFailed, ConnectionLost, FireArrowError, ResourceShortage, StaleEpoch
from firearrow.model.group_state import GroupState
from firearrow.protocol.ha_handshake import Hello, Welcome, decode_welcome, encode_hello
from firearrow.runtime.clock import Clock
from firearrow.runtime.network import Network
from firearrow.runtime.turn import Share, soon
from firearrow.store.epochs.replica_files import MasterLog
from firearrow.store.store import Store

AGAIN_S: Final = 0.1
GREETING_S: Final = 3.0
REPORTS_A_LEASE: Final = 4
"""Reports that a replica sends to its master within one lease, also when there is nothing new."""

log = logging.getLogger(__name__)


class GroupSlave(Slave):
    """Copies the log of the master of one epoch."""

    def __init__(
        self, store: Store, settings: LiveSettings, network: Network, clock: Clock, own: OwnState, group: GroupState
    ) -> None:
        super().__init__(store, settings, network, clock)
        self._store = store
        self._pause_s = AGAIN_S
        self._hello = Hello(own.replica, group.epoch, own.directory)
        self._named = group.named
        self._has_joined = False
        self.on_gone: Callable[[], None] = lambda: None
        """Called when the master, which was connected, refuses connections: its process is dead."""
        self.on_cut: Callable[[], None] = lambda: None
        """Called when the store must be opened again, because its log owes a cut or the disk was full."""

    @property
    def _heartbeat_s(self) -> float:
        """The longest time between two reports: the master's lease by reports must not end while all is well."""
        lease_s = self._settings.value.failover.coordinator_lease_seconds
        return min(super()._heartbeat_s, lease_s / REPORTS_A_LEASE)

    def _failed(self, error: FireArrowError) -> None:
        super()._failed(error)
        if self._has_joined and is_refused(error):
            self.on_gone()
        if self._log.fenced is not None and isinstance(self._log.fenced.__cause__, ResourceShortage):
            self.on_cut()

    async def _receive(self, link: MasterLink) -> None:
        link.send(encode_hello(self._hello))
        try:
            async with asyncio.timeout(GREETING_S):
                welcome = await self._welcome(link)
        except TimeoutError:
            raise ConnectionLost(f"the master did not greet within {GREETING_S:g} s") from None
        if welcome.epoch != self._hello.epoch:
            raise StaleEpoch(f"the master is in epoch {welcome.epoch}, and this replica in {self._hello.epoch}")
        if not await self._agrees(welcome):
            self.on_cut()
            await asyncio.get_running_loop().create_future()
        self._has_joined = True
        if not self._copy.end:
            # The first report of an empty log asks for the first byte; the next one says that there is nothing yet.
            soon(Share.SERVICE, self._report, link, 0)
        await super()._receive(link)

    async def _welcome(self, link: MasterLink) -> Welcome:
        received = b""
        while (welcome := decode_welcome(received)) is None:
            await link.arrived()
            received += b"".join(link.take())
        return welcome

    async def _agrees(self, welcome: Welcome) -> bool:
        """Bring this log into agreement with the master's; return whether the master's bytes can follow it now."""
        replica, end = self._store.replica, self._copy.end
        master = MasterLog(welcome.history, welcome.end, self._named)
        if await replica.rejoin(self._log.min_offset, end, master):
            return True
        cut, extra = replica.cut.offset, {"end": end, "common": replica.cut.offset, "epoch": welcome.epoch}
        log.warning("the log is cut from %d to %d, where the master's goes another way", end, cut, extra=extra)
        return False


def is_refused(error: FireArrowError) -> bool:
    """Whether the other machine lives and nothing listens there."""
    return isinstance(error, ConnectionFailed) and isinstance(error.__cause__, ConnectionRefusedError)
