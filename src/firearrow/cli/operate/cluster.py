"""``firearrow cluster``: the clusters that name servers know, and the brokers of one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from firearrow.cli.operate.listing import ShowOptions
from firearrow.cli.operate.states import print_states, state_fields
from firearrow.cli.option_groups import grouped
from firearrow.cli.tables import print_table

if TYPE_CHECKING:
    from firearrow.admin import Admin, BrokerMember
    from firearrow.admin.broker_state import BrokerState

cluster = typer.Typer(add_completion=False, help="List and describe clusters.", no_args_is_help=True)


@cluster.command("list")
@grouped
def list_clusters(context: typer.Context, shown: ShowOptions) -> None:
    """List the clusters that the name servers know."""

    async def ask(admin: "Admin") -> list[tuple[str, int, int, int]]:
        return _counts(await admin.brokers.list())

    names = ["cluster", "brokers", "masters", "slaves"]
    shown.show(
        context,
        ask,
        fields=lambda found: [dict(zip(names, row, strict=True)) for row in found],
        tables=lambda found: print_table("Clusters", names, found),
    )


@cluster.command("describe")
@grouped
def describe_cluster(
    context: typer.Context, name: str = typer.Argument(metavar="CLUSTER", help="The cluster."), *, shown: ShowOptions
) -> None:
    """Show the brokers of a cluster: versions, messages a second, disk, time since start."""

    async def ask(admin: "Admin") -> Sequence["BrokerState"]:
        return await admin.operations.states(await admin.brokers.list(name))

    shown.show(
        context,
        ask,
        fields=lambda found: {"cluster": name, "brokers": [state_fields(state) for state in found]},
        tables=lambda found: print_states(f"Cluster {name}", found),
    )


def _counts(members: Sequence["BrokerMember"]) -> list[tuple[str, int, int, int]]:
    rows = []
    for name in sorted({member.cluster for member in members}):
        chosen = [member for member in members if member.cluster == name]
        masters = sum(member.is_master for member in chosen)
        rows.append((name, len({member.name for member in chosen}), masters, len(chosen) - masters))
    return rows
