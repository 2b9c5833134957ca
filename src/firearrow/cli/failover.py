"""``firearrow failover``: the state of a group at its coordinator, and elections by name."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from firearrow.broker.failover.elections import elected_by_name
from firearrow.broker.failover.group_values import Seen, decode, encode
from firearrow.errors import FireArrowError
from firearrow.runtime.coordinator.etcd import Etcd, endpoints_of

T = TypeVar("T")

failover = typer.Typer(
    add_completion=False, help="Groups with a coordinator: their state, elections by name.", no_args_is_help=True
)

Coordinator = Annotated[
    str, typer.Option("--coordinator", help="Machines of etcd, as http://host:port divided by semicolons.")
]
Cluster = Annotated[str, typer.Option("--cluster", help="Cluster of the group (brokerClusterName).")]
BrokerName = Annotated[str, typer.Option("--broker-name", help="Name of the group (brokerName).")]


@failover.command()
def show(coordinator: Coordinator, broker_name: BrokerName, cluster: Cluster = "DefaultCluster") -> None:
    """Print the state of a group: epoch, master, in-sync set, and where its live members are."""
    seen = _run(_read(coordinator, cluster, broker_name))
    if seen.group is None:
        typer.echo(f"group {broker_name} of cluster {cluster} does not exist: its first broker makes it")
        raise typer.Exit(1)
    typer.echo(msgspec.json.encode(seen.group).decode())
    for member, about in sorted(seen.live.items()):
        typer.echo(f"replica {member} at {about.address}, its slaves at {about.ha_address}")


@failover.command()
def elect(
    coordinator: Coordinator,
    broker_name: BrokerName,
    replica: Annotated[int, typer.Option("--replica", min=1, help="brokerId of the new master.")],
    cluster: Cluster = "DefaultCluster",
    epoch: Annotated[int, typer.Option("--epoch", help="Least epoch, after etcd was restored from a backup.")] = 0,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Elect it although acknowledged messages may be lost.")
    ] = False,
) -> None:
    """Make a replica the master, in sync or not. All others join anew, and cut what it does not have."""
    _run(_elect(coordinator, cluster, broker_name, replica, epoch, accept_loss=accept_loss))


async def _read(address: str, cluster: str, name: str) -> Seen:
    coordinator = Etcd(endpoints_of(address), cluster, name, lease_s=2)
    try:
        return decode(await coordinator.read())
    finally:
        await coordinator.close()


async def _elect(address: str, cluster: str, name: str, replica: int, epoch: int, *, accept_loss: bool) -> None:
    seen = await _read(address, cluster, name)
    group = seen.group
    if group is None:
        typer.echo(f"group {name} of cluster {cluster} does not exist; check --cluster and --broker-name", err=True)
        raise typer.Exit(1)
    if replica not in group.iss and not accept_loss:
        typer.echo(
            f"replica {replica} is not in sync; {list(group.iss)} are. Messages that were acknowledged since it left "
            "the in-sync set would be lost. Start one of those, or say --accept-loss",
            err=True,
        )
        raise typer.Exit(1)
    new = elected_by_name(group, replica, epoch)
    coordinator = Etcd(endpoints_of(address), cluster, name, lease_s=2)
    try:
        is_done = await coordinator.swap(seen.raw, encode(new))
    finally:
        await coordinator.close()
    if not is_done:
        typer.echo("the group has changed meanwhile; look at it with firearrow failover show, and try again", err=True)
        raise typer.Exit(1)
    typer.echo(f"replica {replica} leads epoch {new.epoch}; before: {group}")


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except FireArrowError as error:
        typer.echo(f"firearrow failover: {error}", err=True)
        raise typer.Exit(1) from None
