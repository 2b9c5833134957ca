"""``firearrow group``: list, describe, reset. Works on Apache's clusters too."""

from collections.abc import Sequence
from typing import Annotated

import typer

from firearrow.admin import GroupDescription, GroupSummary, QueueMove
from firearrow.admin.groups import FIRST, LAST
from firearrow.cli.cluster import AsJson, NameServers, admin_of, fail, run
from firearrow.cli.tables import print_json, print_table, time_text
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
    everything: Annotated[bool, typer.Option("--all", help="Include the brokers' own groups.")] = False,
    as_json: AsJson = False,
) -> None:
    """List consumer groups with their members and lag."""

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
    """Show a group's members, their subscriptions, what filters did, and offset and lag in every queue."""

    async def ask() -> GroupDescription:
        async with admin_of(context, servers) as admin:
            return await admin.groups.describe(name)

    found = run(context, ask)
    if as_json:
        print_json(_details(found))
        return
    model = found.message_model.lower() or "no members now"
    typer.echo(f"group {name}: {model}, {found.lag} behind, {found.consume_tps:.1f} messages a second")
    if not found.is_enabled:
        typer.echo("consuming is switched off for this group")
    if found.disagreement:
        typer.echo(f"its members disagree: {found.disagreement}")
    members = [(each.client_id, each.address, each.language, each.version) for each in found.members]
    print_table("Members", ["client", "address", "language", "version"], members)
    print_table("Subscriptions", ["topic", "expression"], sorted(found.subscriptions.items()))
    if found.filters:
        uses = [
            (each.topic, each.filtered, each.judged, each.microseconds, each.without_verdict) for each in found.filters
        ]
        columns = ["topic", "did not pass", "judged", "CPU microseconds", "no verdict"]
        print_table("Filters, last 24 hours", columns, uses)
    rows = [
        (q.queue.topic, q.queue.broker_name, q.queue.queue_id, q.committed, q.end, q.lag, time_text(q.last_consumed_ms))
        for q in found.queues
    ]
    print_table("Queues", ["topic", "broker", "queue", "committed", "end", "lag", "consumed up to"], rows)


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
            f"--queue {text!r} is not a queue; write BROKER:NUMBER, as firearrow topic describe shows them"
        )
    return MessageQueue(topic, broker, int(number))


def _details(found: GroupDescription) -> dict[str, object]:
    return {
        "group": found.name,
        "messageModel": found.message_model,
        "consumeType": found.consume_type,
        "start": found.start,
        "lag": found.lag,
        "consumeTps": found.consume_tps,
        "maxReconsumeTimes": found.max_reconsume_times,
        "enabled": found.is_enabled,
        "disagreement": found.disagreement,
        "subscriptions": found.subscriptions,
        "filters": [
            {
                "topic": each.topic,
                "filtered": each.filtered,
                "judged": each.judged,
                "microseconds": each.microseconds,
                "withoutVerdict": each.without_verdict,
            }
            for each in found.filters
        ],
        "members": [
            {"clientId": each.client_id, "address": each.address, "language": each.language, "version": each.version}
            for each in found.members
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
            for each in found.queues
        ],
    }
