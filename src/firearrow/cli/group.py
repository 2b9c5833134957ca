"""``firearrow group``: list, describe, reset. Works on Apache's clusters too."""

from collections.abc import Sequence
from typing import Annotated

import typer

from firearrow.admin import GroupDescription, GroupSummary, QueueMove
from firearrow.admin.groups import FIRST, LAST
from firearrow.cli.reaching import AsJson, NameServers, admin_of, fail, run
from firearrow.cli.showing import print_json, print_table, time_text
from firearrow.cli.times import time_ms
from firearrow.errors import SettingsError
from firearrow.model import MessageQueue
from firearrow.runtime.clock import SystemClock

group = typer.Typer(add_completion=False, help="List, describe and reset consumer groups.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]


@group.command("list")
def list_groups(
    context: typer.Context,
    servers: NameServers = "",
    cluster: Annotated[str, typer.Option("--cluster", "-c", help="Only groups of this cluster.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Groups of the brokers themselves too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List consumer groups with their members and how far they are behind."""

    async def ask() -> Sequence[GroupSummary]:
        async with admin_of(context, servers) as admin:
            return await admin.groups.list(cluster=cluster, system=everything)

    groups = run(context, ask)
    if as_json:
        print_json(
            [
                {"group": each.name, "kind": each.kind, "members": each.members, "lag": each.lag}
                | {"messageModel": each.message_model}
                for each in groups
            ]
        )
        return
    rows = [(each.name, each.members, each.lag, each.message_model.lower() or "-") for each in groups]
    print_table("Consumer groups", ["group", "members", "lag", "model"], rows)


@group.command("describe")
def describe_group(context: typer.Context, name: Name, servers: NameServers = "", as_json: AsJson = False) -> None:
    """Show a group's members, what they subscribe to, and how far it is in every queue."""

    async def ask() -> GroupDescription:
        async with admin_of(context, servers) as admin:
            return await admin.groups.describe(name)

    told = run(context, ask)
    if as_json:
        print_json(_details(told))
        return
    model = told.message_model.lower() or "nobody is in it now"
    typer.echo(f"group {name}: {model}, {told.lag} behind, {told.consume_tps:.1f} messages a second")
    if not told.is_enabled:
        typer.echo("consuming is switched off for this group")
    if told.disagreement:
        typer.echo(f"its members disagree: {told.disagreement}")
    members = [(each.client_id, each.address, each.language, each.version) for each in told.members]
    print_table("Members", ["client", "address", "language", "version"], members)
    print_table("Subscriptions", ["topic", "expression"], sorted(told.subscriptions.items()))
    rows = [
        (q.queue.topic, q.queue.broker_name, q.queue.queue_id, q.committed, q.end, q.lag, time_text(q.last_consumed_ms))
        for q in told.queues
    ]
    print_table("Queues", ["topic", "broker", "queue", "committed", "end", "lag", "consumed up to"], rows)


@group.command("reset")
def reset_group(
    context: typer.Context,
    name: Name,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic in which the group is moved.")],
    to: Annotated[str, typer.Option(help="first, last, a time such as 2026-11-15T10:00, or -1h for an hour ago.")] = "",
    offset: Annotated[int | None, typer.Option(min=0, help="An offset, of --queue; the group must be stopped.")] = None,
    queue: Annotated[str, typer.Option(help="BROKER:NUMBER, with --offset.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show where it would go; change nothing.")] = False,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Let a group go on from elsewhere: skip a backlog, or read again. Members that run are told."""
    if (offset is None) == (not to):
        fail(context, "say where to: either --to first, last or a time, or --offset with --queue")

    async def move() -> Sequence[QueueMove]:
        async with admin_of(context, servers) as admin:
            if offset is not None:
                act_once = admin.groups.planned_offset if dry_run else admin.groups.reset_offset
                return [await act_once(name, _queue(topic, queue), offset)]
            act = admin.groups.planned if dry_run else admin.groups.reset
            return await act(name, topic, _timestamp(to))

    moves = run(context, move)
    if as_json:
        print_json(
            [
                {"broker": each.queue.broker_name, "queue": each.queue.queue_id}
                | {"before": each.before, "after": each.after}
                for each in moves
            ]
        )
        return
    rows = [
        (each.queue.broker_name, each.queue.queue_id, "-" if each.before is None else each.before, each.after)
        for each in moves
    ]
    title = f"Group {name} would go on in {topic}" if dry_run else f"Group {name} goes on in {topic}"
    print_table(title, ["broker", "queue", "before", "after"], rows)


def _timestamp(to: str) -> int:
    if to in ("first", "last"):
        return FIRST if to == "first" else LAST
    return time_ms(to, SystemClock().now_ms())


def _queue(topic: str, text: str) -> MessageQueue:
    broker, colon, number = text.rpartition(":")
    if not (colon and broker and number.isascii() and number.isdigit()):
        raise SettingsError(
            f"--queue {text!r} is no queue; write BROKER:NUMBER, as firearrow topic describe shows them"
        )
    return MessageQueue(topic, broker, int(number))


def _details(told: GroupDescription) -> dict[str, object]:
    return {
        "group": told.name,
        "messageModel": told.message_model,
        "consumeType": told.consume_type,
        "start": told.start,
        "lag": told.lag,
        "consumeTps": told.consume_tps,
        "maxReconsumeTimes": told.max_reconsume_times,
        "enabled": told.is_enabled,
        "disagreement": told.disagreement,
        "subscriptions": told.subscriptions,
        "members": [
            {"clientId": each.client_id, "address": each.address, "language": each.language, "version": each.version}
            for each in told.members
        ],
        "queues": [
            {
                "topic": each.queue.topic,
                "broker": each.queue.broker_name,
                "queue": each.queue.queue_id,
                "committed": each.committed,
                "end": each.end,
                "lag": each.lag,
                "consumedUpTo": each.last_consumed_ms,
            }
            for each in told.queues
        ],
    }
