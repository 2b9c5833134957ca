"""The handlers of a broker as requests reach them: behind the guard, if access is on. Wiring only."""

from firearrow.access.access import Access, access_of, open_to_all
from firearrow.broker.replication.replication import Replication
from firearrow.broker.stored_topics import StoredTopics
from firearrow.broker.tables.tables import Tables
from firearrow.broker.transaction.producers import ConnectedProducers
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.service import Lifetime
from firearrow.telemetry.metrics import Registry


async def guarded(
    life: Lifetime,
    handlers: Handlers,
    tables: Tables,
    registry: Registry,
    producers: ConnectedProducers,
    replication: Replication,
) -> Handlers:
    """Return the handlers behind the guard; where rules count, producers are asked about their own topics alone."""
    config = tables.settings.value.access
    if open_to_all(config, "broker", tables.settings.broker.bind_address):
        return handlers
    access = access_of(config, tables.disk, tables.identity.cluster, tables.clock)
    await access.open()
    life.spawn(access.run(), "access")
    registry.add(access.witness.families)
    producers.may_see = access.guard.may_see
    if isinstance(access, Access):
        access.copies.add_to(handlers)
        if replication.metadata is not None:
            replication.metadata.accounts = access.copies
    stored, identity = StoredTopics(tables.store.lookups, tables.jobs), tables.identity
    return access.before(handlers, stored, identity.name, str(identity.address))
