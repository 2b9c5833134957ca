"""``firearrow group``: list, describe, reset; `operate.group_changes` has the rest. Works on Apache's clusters too."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.cluster import AsJson, NameServers, ask, fail
from firearrow.cli.operate.group_changes import create_group, delete_group, skip_group, update_group
from firearrow.cli.operate.group_text import Described, group_fields, print_group
from firearrow.cli.operate.listing import ShowOptions, Watch
from firearrow.cli.operate.moves import print_moves, queue_of
from firearrow.cli.option_groups import grouped
from firearrow.cli.tables import print_table
from firearrow.cli.times import time_ms
from firearrow.runtime.clock import SystemClock

if TYPE_CHECKING:
    from firearrow.admin import Admin, QueueMove

group = typer.Typer(
    add_completion=False,
    help="List, create, describe, update, reset and delete consumer groups.",
    no_args_is_help=True,
)
group.command("create")(create_group)
group.command("update")(update_group)
group.command("delete")(delete_group)
group.command("skip")(skip_group)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]


@group.command("list")
def list_groups(
    context: typer.Context,
    servers: NameServers = "",
    cluster: Annotated[str, typer.Option("--cluster", "-c", help="Only groups of this cluster.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Include the brokers' own groups.")] = False,
    as_json: AsJson = False,
    watch: Watch = None,
) -> None:
    """List consumer groups with their members and lag."""
    ShowOptions(servers, as_json, watch).show(
        context,
        lambda admin: admin.groups.list(cluster=cluster, system=everything),
        fields=lambda groups: [
            {"group": each.name, "kind": each.kind, "members": each.members, "lag": each.lag}
            | {"messageModel": each.message_model}
            for each in groups
        ],
        tables=lambda groups: print_table(
            "Consumer groups",
            ["group", "members", "lag", "model"],
            [(each.name, each.members, each.lag, each.message_model.lower() or "-") for each in groups],
        ),
    )


@group.command("describe")
@grouped
def describe_group(context: typer.Context, name: Name, shown: ShowOptions) -> None:
    """Show a group's members, their subscriptions, what filters did; offset, lag and member of every queue."""

    async def ask(admin: "Admin") -> Described:
        found = await admin.groups.describe(name)
        return found, await admin.members.holders([each.client_id for each in found.members], name)

    shown.show(context, ask, fields=group_fields, tables=print_group)


@group.command("reset")
def reset_group(
    context: typer.Context,
    name: Name,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic whose offsets are moved.")],
    to: Annotated[str, typer.Option(help="first, last, a time such as 2026-11-15T10:00, or -1h for an hour ago.")] = "",
    offset: Annotated[
        int | None, typer.Option(min=0, help="Offset in --queue; stop the group's members first.")
    ] = None,
    queue: Annotated[str, typer.Option(help="The queue of --offset: BROKER:NUMBER.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the new offsets; change nothing.")] = False,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Move a group to other offsets: skip a backlog, or read again. Running members are notified."""
    if (offset is None) == (not to):
        fail(context, "no target is given; give either --to (first, last or a time), or --offset with --queue")

    if to and queue:
        fail(context, "--to moves the group in all queues of the topic; give --offset with --queue, or leave it out")

    async def move(admin: "Admin") -> Sequence["QueueMove"]:
        if offset is not None:
            act_once = admin.groups.planned_offset if dry_run else admin.groups.reset_offset
            return [await act_once(name, queue_of(topic, queue), offset)]
        act = admin.groups.planned if dry_run else admin.groups.reset
        return await act(name, topic, _timestamp(to))

    print_moves(ask(context, servers, move), name, topic, as_json=as_json, dry_run=dry_run)


def _timestamp(to: str) -> int:
    from firearrow.admin.groups import FIRST, LAST

    if to in ("first", "last"):
        return FIRST if to == "first" else LAST
    return time_ms(to, SystemClock().now_ms())
