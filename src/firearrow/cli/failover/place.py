"""A group at its coordinator, from options or the settings file of one of its brokers; reads and acts there."""

import getpass
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
import typer
from msgspec.structs import replace

from firearrow.broker.failover.group_values import decode, encode
from firearrow.cli.broker import read_settings
from firearrow.cli.cluster import fail
from firearrow.cli.option_groups import OptionGroup
from firearrow.errors import BadBody, CoordinatorFailed, FireArrowError, NotNow, SettingsError
from firearrow.model.group_state import GroupState

if TYPE_CHECKING:
    from firearrow.broker.failover.group_values import GroupView
    from firearrow.broker.settings.config import BrokerSettings
    from firearrow.runtime.coordinator.door import GroupSnapshot
    from firearrow.runtime.coordinator.etcd import Etcd

CALL_S: Final = 5.0
"""Seconds that an operator waits for one machine of the coordinator; brokers are less patient."""

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="Settings file of a broker of the group: it names coordinator, group and TLS files."
    ),
]


@dataclass(frozen=True)
class PlaceOptions(OptionGroup):
    """A group and its coordinator, given by name or by a settings file."""

    config: Config = None
    coordinator: Annotated[
        str, typer.Option("--coordinator", help="Machines of etcd, as http://host:port divided by semicolons.")
    ] = ""
    broker_name: Annotated[str, typer.Option("--broker-name", help="Name of the group (brokerName).")] = ""
    cluster: Annotated[str, typer.Option("--cluster", help="Cluster of the group (brokerClusterName).")] = ""

    def place(self, context: typer.Context) -> "GroupPlace":
        """Return the group; end the command when options and file do not name one."""
        try:
            return place_of(self.config, self.coordinator, self.broker_name, self.cluster)
        except FireArrowError as error:
            fail(context, str(error))


class Act(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of an operator's act, kept beside the group."""

    time: str
    who: str
    act: str
    before: GroupState | None
    after: GroupState
    told: list[str] = []
    """The lines that the operator was shown before the act."""


class GroupPlace(NamedTuple):
    """A group at its coordinator."""

    settings: "BrokerSettings"

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.settings.broker.broker_name

    @property
    def min_iss(self) -> int:
        """The number of replicas that must be in sync, for a new group."""
        return self.settings.replication.in_sync_replicas

    def __str__(self) -> str:
        """Return the name of the group in errors."""
        return f"group {self.name} of cluster {self.settings.broker.broker_cluster_name}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Etcd"]:
        """Connect to the coordinator."""
        from firearrow.runtime.coordinator.etcd import Etcd, endpoints_of

        failover = self.settings.failover
        cluster = self.settings.broker.broker_cluster_name
        endpoints = endpoints_of(failover.coordinator_address)
        lease_s = failover.coordinator_lease_seconds
        etcd = Etcd(endpoints, cluster, self.name, lease_s=lease_s, tls=failover.tls, call_s=CALL_S)
        try:
            yield etcd
        finally:
            await etcd.close()

    async def seen(self) -> "GroupView":
        """Return the state of the group; it may not exist."""
        return decode(await self._snapshot())

    async def seen_sound_or_not(self) -> "GroupView":
        """Return the state of the group, None where it does not exist or no replica obeys it; `GroupView.raw` has
        it."""
        snapshot = await self._snapshot()
        try:
            return decode(snapshot)
        except BadBody:
            return replace(decode(snapshot._replace(group=None)), raw=snapshot.group)

    async def _snapshot(self) -> "GroupSnapshot":
        """Ask every machine of the coordinator in turn."""
        from firearrow.runtime.coordinator.etcd import endpoints_of

        machines = len(endpoints_of(self.settings.failover.coordinator_address))
        async with self.open() as etcd:
            for _ in range(machines - 1):
                with suppress(CoordinatorFailed):
                    return await etcd.read()
            return await etcd.read()

    async def act(self, what: str, seen: "GroupView", new: GroupState, told: list[str]) -> None:
        """Swap a state in, with a record of who did it; raise ``NotNow`` when the group has changed meanwhile."""
        moment = datetime.now(UTC).isoformat(timespec="microseconds")
        record = Act(moment, f"{getpass.getuser()}@{platform.node()}", what, seen.group, new, told)
        async with self.open() as etcd:
            is_done = await etcd.act(seen.raw, encode(new), moment, msgspec.json.encode(record))
        if not is_done:
            raise NotNow("the group has changed meanwhile; look at it with firearrow failover show, and try again")


def place_of(config: Path | None, coordinator: str, broker_name: str, cluster: str) -> GroupPlace:
    """Return the group that options and a settings file name; raise ``SettingsError`` when they do not."""
    flags = {
        "coordinator_address": coordinator or None,
        "broker_name": broker_name or None,
        "broker_cluster_name": cluster or None,
        "broker_id": 1 if coordinator else None,  # a member's settings need one; which does not matter here
    }
    settings = read_settings(config, flags)
    if not settings.failover.coordinator_address:
        raise SettingsError("no coordinator is given: write --coordinator http://host:port, or -c FILE of a broker")
    if not settings.broker.broker_name:
        raise SettingsError("no group is given: write --broker-name NAME, or -c FILE of a broker with brokerName")
    return GroupPlace(settings)
