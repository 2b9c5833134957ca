"""The part of a broker in its group: a master that serves slaves, or a slave that copies a master. Wiring only.

A master without slaves pays nothing but an open port. If that port is only the default and is taken, an ASYNC_MASTER
serves without it, with a warning.
"""

import logging
from typing import Protocol

from firearrow.broker.delivery.schedule import DelayedDelivery
from firearrow.broker.replication.comparing_slave import ComparingSlave
from firearrow.broker.replication.confirmation import Confirmation
from firearrow.broker.replication.master import Master
from firearrow.broker.replication.metadata import Metadata
from firearrow.broker.replication.near_slaves import NearSlaves
from firearrow.broker.replication.slave import Slave
from firearrow.broker.replication.table_source import AnyMaster
from firearrow.broker.tables.tables import Tables
from firearrow.errors import ListenFailed, SettingsError
from firearrow.protocol.requests.naming.registration import RegisterBrokerAnswer
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address, Network
from firearrow.runtime.service import Lifetime

log = logging.getLogger(__name__)


class Reports(Protocol):
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
        tables: Tables,
        network: Network,
        *,
        master: Master | None = None,
        confirmation: Confirmation | None = None,
        slave: Slave | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        self._settings = tables.settings
        self._identity = tables.identity
        self._network = network
        self.master = master
        self.confirmation = confirmation
        """The line in which sends wait for slaves; None when they do not wait."""
        self.slave = slave
        self.metadata = metadata
        self.reports: Reports | None = None
        """Takes the replicas' reports on their table changes; None outside of elected groups."""

    @classmethod
    def by_settings(cls, tables: Tables, network: Network, caller: Caller, delays: DelayedDelivery) -> "Replication":
        """Return the replication that ``brokerRole`` asks for."""
        settings, store = tables.settings, tables.store
        if settings.value.replication.is_slave:
            slave = ComparingSlave(tables, network)
            metadata = Metadata(tables, delays, caller, AnyMaster(caller, slave.agreement))
            slave.agreement.on_reached = metadata.look
            return cls(tables, network, slave=slave, metadata=metadata)
        master = Master(store, settings)
        return cls(tables, network, master=master, confirmation=_confirmation(master, tables))

    async def start(self, life: Lifetime) -> None:
        """Begin to serve slaves, or to copy a master."""
        if self.slave is not None and self.metadata is not None:
            life.spawn(self.slave.run(), "slave")
            life.spawn(self.metadata.run(), "tables of the master")
        elif self.master is not None:
            await self._listen(life, self.master)

    async def _listen(self, life: Lifetime, master: Master) -> None:
        config = self._settings.value.replication
        address = Address(self._settings.broker.bind_address, self._identity.ha_port)
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


def _confirmation(master: Master, tables: Tables) -> Confirmation | None:
    settings = tables.settings
    if settings.value.replication.broker_role != "SYNC_MASTER":
        return None
    slaves = NearSlaves(lambda: master.acked, lambda: master.end, settings, tables.store.log.dispatch_below)
    master.on_look = slaves.look
    settings.on_change.append(slaves.look)
    slaves.look()
    return slaves.line
