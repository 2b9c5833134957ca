"""A broker whose part in its group comes from a coordinator: master in one epoch, slave in another.

Each part is a whole broker on the same directory and ports. When the duty changes, the broker is closed and opened
again in its new part: what a start recovers, and nothing else, is what a new master begins with. The promise of an
epoch is on disk before a part begins. Java: ``ReplicasManager``.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from msgspec.structs import replace

from firearrow.broker.broker import Broker
from firearrow.broker.failover.elections import FollowStep, LeadStep, OwnState
from firearrow.broker.failover.group_part import GroupPart
from firearrow.broker.failover.group_values import MemberFacts
from firearrow.broker.failover.membership import ReplicaMembership
from firearrow.broker.failover.run_file import RunFile
from firearrow.broker.identity import Identity
from firearrow.broker.metrics.metrics import NO_PART, BrokerMetrics
from firearrow.broker.settings.config import BrokerSettings
from firearrow.errors import DiskError, FireArrowError, ResourceShortage
from firearrow.model.group_state import ReplicaPromise
from firearrow.runtime.clock import Clock
from firearrow.runtime.coordinator.door import Coordinator
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Network
from firearrow.runtime.service import Lifetime
from firearrow.store.epochs.directory_number import directory_number
from firearrow.store.epochs.promise import PromiseFile
from firearrow.store.paths import COMMIT_LOG
from firearrow.telemetry.damped import DampedEvents

T = TypeVar("T")

MASTER_ID: Final = 0
"""The broker id under which name servers know a master."""
SPACE_S: Final = 1.0
"""The pause after a part that ended for lack of space."""
LEAVE_S: Final = 5.0
"""The time for which a broker that is stopped tries to hand its part over."""

log = logging.getLogger(__name__)


class GroupBroker:
    """A broker that leads or follows as its group decides."""

    def __init__(
        self,
        settings: BrokerSettings,
        machine: Machine,
        coordinator: Coordinator,
        *,
        network: Network,
        disk: Disk,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._coordinator = coordinator
        self._network = network
        self._disk = disk
        self._clock = clock
        self._chance = chance
        self._shortages = DampedEvents()
        self._idle = BrokerMetrics(settings, self._identity(), NO_PART)
        """The metrics while the broker has no part: probes are answered then, too."""
        self._served: Broker | None = None
        self._part: GroupPart | None = None
        self._serves: asyncio.Future[Identity] | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Identity]:
        """Serve within the block, which begins with the broker's first part."""
        self._serves = asyncio.get_running_loop().create_future()
        async with Lifetime("group") as life:
            life.on_stop(self._coordinator.close)
            await self._idle.open(life, self._network)
            syncs = self._settings.log.syncs_first
            boot_id = self._machine.boot_id
            run_file = await self._with_space(lambda: RunFile.load(self._disk, boot_id, syncs=syncs))
            promise = await self._with_space(lambda: PromiseFile.load(self._disk))
            membership = await self._with_space(lambda: self._membership(run_file, promise))
            if not membership.own.may_lack:
                await self._with_space(run_file.begin)
            life.on_stop(run_file.end)
            life.on_stop(membership.leave)
            life.spawn(membership.run(), "membership")
            life.spawn(self._take_parts(membership, promise), "parts")
            life.on_stop(self._leave)
            yield await self._serves

    @property
    def metrics(self) -> BrokerMetrics | None:
        """The metrics of the present part."""
        return None if self._served is None else self._served.metrics

    async def drain(self) -> None:
        """Let producers move to other brokers; nothing to do: the group elects another master at once."""

    async def _leave(self) -> None:
        """Give the present part up in order before everything ends, if the group lets that happen in time."""
        part, broker = self._part, self._served
        if part is None or broker is None:
            return
        try:
            async with asyncio.timeout(LEAVE_S):
                if part.leads:
                    await broker.hush()
                await part.leave()
        except (FireArrowError, TimeoutError) as error:
            why = str(error) or f"the group did not answer within {LEAVE_S:g} s"
            log.warning("ends without leaving its group: %s", why, extra={"reason": why})

    async def _membership(self, run_file: RunFile, promise: PromiseFile) -> ReplicaMembership:
        settings = self._settings
        own = OwnState(
            settings.broker.broker_id,
            ReplicaPromise(promise.epoch, promise.master),
            directory=await directory_number(self._disk, self._chance),
            has_log=self._disk.exists(COMMIT_LOG) and bool(await self._disk.list(COMMIT_LOG)),
            may_lack=run_file.may_lack,
        )
        identity = self._identity()
        return ReplicaMembership(
            self._coordinator,
            own,
            MemberFacts(identity.address, identity.ha_address, tells_tables=True),
            run_file,
            lease_s=settings.failover.coordinator_lease_seconds,
            min_iss=settings.replication.in_sync_replicas,
        )

    def _identity(self) -> Identity:
        broker, machine = self._settings.broker, self._machine
        return Identity(
            name=broker.broker_name or machine.name,
            cluster=broker.broker_cluster_name,
            ip=broker.broker_ip1 or machine.ip,
            port=broker.listen_port,
            ha_ip=broker.broker_ip2,
            ha_listen_port=self._settings.replication.ha_listen_port,
        )

    async def _take_parts(self, membership: ReplicaMembership, promise: PromiseFile) -> None:
        while True:
            duty, shortages = await _duty(membership), ""
            try:
                await promise.make(duty.group.epoch, duty.group.master)
                await membership.took_up(duty.group, leads=isinstance(duty, LeadStep))
                await self._take_part(GroupPart(duty, membership, self._idle))
            except* DiskError as errors:
                others = errors.split(_is_shortage)[1]
                if others is not None:
                    raise others from None
                shortages = "; ".join(map(str, errors.exceptions))
            membership.gave_up()
            if shortages:
                await self._wait_for_space(membership, shortages)

    async def _with_space(self, write: Callable[[], Awaitable[T]]) -> T:
        """Write a small file of the start, again and again while the disk is full: a kill may have left it so."""
        while True:
            try:
                return await write()
            except ResourceShortage as shortage:
                self._tell_of_shortage(str(shortage))
                await asyncio.sleep(SPACE_S)

    def _tell_of_shortage(self, shortages: str) -> None:
        if self._shortages.count(asyncio.get_running_loop().time()):
            number, extra = self._settings.broker.broker_id, {"reason": shortages}
            log.error("replica %d takes no part for now: %s", number, shortages, extra=extra)

    async def _wait_for_space(self, membership: ReplicaMembership, shortages: str) -> None:
        """Wait a moment before another try; what this part did not write is recovered as after a crash."""
        self._tell_of_shortage(shortages)
        membership.ailment = lambda: shortages
        await asyncio.sleep(SPACE_S)

    async def _take_part(self, part: GroupPart) -> None:
        group = part.duty.group
        what = "leads" if part.leads else f"follows replica {group.master} in"
        log.info("replica %d %s epoch %d", self._settings.broker.broker_id, what, group.epoch)
        broker = Broker(
            self._settings_of(part),
            self._machine,
            network=self._network,
            disk=self._disk,
            clock=self._clock,
            chance=self._chance,
            part=part,
        )
        self._served, self._part = broker, part
        try:
            async with broker.serving() as identity:
                if self._serves is not None and not self._serves.done():
                    self._serves.set_result(identity)
                await part.over()
                broker.stays_registered = True
        finally:
            self._part = None

    def _settings_of(self, part: GroupPart) -> BrokerSettings:
        settings = self._settings
        role = replace(settings.replication, broker_role="SYNC_MASTER" if part.leads else "SLAVE")
        broker_id = MASTER_ID if part.leads else settings.broker.broker_id
        return replace(settings, replication=role, broker=replace(settings.broker, broker_id=broker_id))


def _is_shortage(error: BaseException) -> bool:
    """Whether a part ended for lack of space: a log that could not be written says so in its cause."""
    return isinstance(error, ResourceShortage) or isinstance(error.__cause__, ResourceShortage)


async def _duty(membership: ReplicaMembership) -> LeadStep | FollowStep:
    """Wait until there is a part to take."""
    changed = asyncio.Event()
    membership.on_duty = changed.set
    while not isinstance(membership.duty, LeadStep | FollowStep):
        changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await changed.wait()
    return membership.duty
