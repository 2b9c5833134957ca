"""The handlers of a broker as requests reach them: behind access, if it is on, and behind quotas. Wiring only."""

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from firearrow.access.access import AccessControl, access_of, open_to_all
from firearrow.broker.assembly import Assembly
from firearrow.broker.gate.promises import to_replicas
from firearrow.broker.handlers.message.pull import PullHandlers
from firearrow.broker.replication.replication import Replication
from firearrow.broker.stored_topics import StoredTopics
from firearrow.broker.transaction.producers import ConnectedProducers
from firearrow.quotas.metrics import QuotaMetrics
from firearrow.quotas.throttle import Throttle
from firearrow.remoting.endpoint import AddressCounts
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.service import Lifetime
from firearrow.telemetry.metrics import Registry


class Front(Struct, frozen=True, eq=False):
    """The parts that the ports of a broker share: the handlers, and the count of connections of every address."""

    handlers: Handlers
    per_address: AddressCounts

    def to_replicas(self) -> "Front":
        """Return the front of a master that serves no clients yet: replicas copy tables, other requests are refused."""
        return replace(self, handlers=to_replicas(self.handlers))

    def without(self, codes: Collection[int]) -> "Front":
        """Return this front without the handlers of these codes."""
        return replace(self, handlers=self.handlers.without(codes))


async def guarded(
    life: Lifetime,
    handlers: Handlers,
    assembly: Assembly,
    registry: Registry,
    producers: ConnectedProducers,
    pulls: PullHandlers,
    replication: Replication,
) -> Front:
    """Return the handlers behind their guards; where rules count, producers are asked about their own topics alone."""
    config = assembly.settings.value.access
    access = None
    if not open_to_all(config, "broker", assembly.settings.broker.bind_address):
        access = access_of(config, assembly.disk, assembly.identity.cluster, assembly.clock)
        await access.open()
        life.spawn(access.run(), "access")
        registry.add(access.witness.families)
        producers.may_see = access.guard.may_see
        assembly.lanes.user_of = access.guard.user_of
        access.on_change = pulls.recall_all
        access.gate = assembly.gate
        if isinstance(access, AccessControl):
            access.copies.add_to(handlers)
            outgoing = assembly.settings.value.client_tls
            access.copies.checks_servers = outgoing.enabled and outgoing.verify_server
            if replication.metadata is not None:
                replication.metadata.accounts = access.copies

    def user() -> str | None:
        asker = None if access is None else access.guard.asker
        return None if asker is None else asker.name

    per_address = AddressCounts()
    handlers = _throttled(handlers, assembly, Throttle(user, assembly.clients.client_id), per_address, registry)
    if access is not None:
        stored, identity = StoredTopics(assembly.store.lookups, assembly.lanes), assembly.identity
        handlers = access.before(handlers, stored, identity.name, str(identity.address))
    return Front(handlers, per_address)


def _throttled(
    handlers: Handlers, assembly: Assembly, throttle: Throttle, per_address: AddressCounts, registry: Registry
) -> Handlers:
    """Return the handlers behind a throttle that follows the settings."""

    def configure() -> None:
        quotas = assembly.settings.value.quotas
        throttle.configure(quotas)
        per_address.limit = quotas.quota_connections_per_address

    configure()
    assembly.settings.on_change.append(configure)
    registry.add(QuotaMetrics(throttle, per_address).families)
    return throttle.before(handlers)
