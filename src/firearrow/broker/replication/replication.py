"""The part of a broker in its group: a master that serves slaves, or a slave that copies a master. Wiring only.

A master without slaves pays nothing but an open port. If that port is only the default and is taken, an ASYNC_MASTER
serves without it, with a warning.
"""

import logging
from typing import Protocol

from firearrow.broker.replication.confirmation import Confirmation
from firearrow.broker.replication.master import Master
from firearrow.broker.replication.metadata import Metadata
from firearrow.broker.replication.near_slaves import NearSlaves
from firearrow.broker.replication.slave import Slave
from firearrow.broker.settings.live import LiveSettings
from firearrow.errors import ListenFailed, SettingsError
from firearrow.protocol.requests.naming.registration import RegisterBrokerAnswer
from firearrow.runtime.network import Address, Network
from firearrow.runtime.service import Lifetime
from firearrow.store.store import Store

log = logging.getLogger(__name__)


class ReportCounter(Protocol):
    """Counts, at a master of an elected group, the table changes that its replicas have."""

    def knows(self, replica: int, epoch: int, directory: int) -> bool:
        """Whether this is a replica of the epoch, with the directory that the group knows."""
        ...

    def reported(self, replica: int, number: int) -> None:
        """Take what a known replica told: the number of the last change that it has."""
        ...


class Replication:
    """A master's or a slave's side of the group."""

    def __init__(
        self,
        settings: LiveSettings,
        network: Network,
        ha_port: int,
        *,
        master: Master | None = None,
        confirmation: Confirmation | None = None,
        slave: Slave | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        self._settings = settings
        self._ha_port = ha_port
        self._network = network
        self.master = master
        self.confirmation = confirmation
        """The line in which sends wait for slaves; None when they do not wait."""
        self.slave = slave
        self.metadata = metadata
        self.reports: ReportCounter | None = None
        """Takes the replicas' reports on their table changes; None outside of elected groups."""

    async def start(self, life: Lifetime) -> None:
        """Begin to serve slaves, or to copy a master."""
        if self.slave is not None and self.metadata is not None:
            life.spawn(self.slave.run(), "slave")
            life.spawn(self.metadata.run(), "tables of the master")
        elif self.master is not None:
            await self._listen(life, self.master)

    async def _listen(self, life: Lifetime, master: Master) -> None:
        config = self._settings.value.replication
        address = Address(self._settings.broker.bind_address, self._ha_port)
        try:
            listener = await self._network.listen(master.connection, address)
        except ListenFailed as error:
            if config.ha_listen_port or self.confirmation is not None:
                raise
            log.warning("no slave can copy this broker: %s (set haListenPort)", error, extra={"reason": str(error)})
            return
        life.spawn(master.run(), "slaves")
        life.on_stop(listener.close)

    def registered(self, answer: RegisterBrokerAnswer) -> None:
        """Take the addresses of the master from a name server's answer."""
        if self.slave is None or self.metadata is None:
            return
        try:
            if answer.ha_server_addr:
                self.slave.found(Address.parse(answer.ha_server_addr))
            if answer.master_addr:
                self.metadata.found(Address.parse(answer.master_addr))
        except SettingsError as error:
            log.warning("a name server told a wrong address of the master: %s", error, extra={"reason": str(error)})


def confirmation_by_settings(master: Master, store: Store, settings: LiveSettings) -> Confirmation | None:
    """Return the line in which sends wait for slaves; None if ``brokerRole`` does not ask for it."""
    if settings.value.replication.broker_role != "SYNC_MASTER":
        return None
    slaves = NearSlaves(lambda: master.acked, lambda: master.end, settings, store.log.dispatch_below)
    master.on_look = slaves.look
    settings.on_change.append(slaves.look)
    slaves.look()
    return slaves.line
