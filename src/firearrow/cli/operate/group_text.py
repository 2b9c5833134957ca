"""The printed description of a group: members, subscriptions, filters, queues and their holders."""

from typing import TYPE_CHECKING, TypeAlias

import typer

from firearrow.cli.tables import print_table, time_text
from firearrow.model import MessageQueue

if TYPE_CHECKING:
    from firearrow.admin import GroupDescription
    from firearrow.admin.group_members import HeldQueue, Holders
    from firearrow.admin.groups import QueueProgress

Described: TypeAlias = "tuple[GroupDescription, Holders]"


def print_group(described: Described) -> None:
    """Print the description of a group as tables."""
    found, holders = described
    model = found.message_model.lower() or "no members now"
    typer.echo(f"group {found.name}: {model}, {found.lag} behind, {found.consume_tps:.1f} messages a second")
    if not found.is_enabled:
        typer.echo("consuming is switched off for this group")
    if found.disagreement:
        typer.echo(f"its members disagree: {found.disagreement}")
    members = [(each.client_id, each.address, each.language, each.version) for each in found.members]
    print_table("Members", ["client", "address", "language", "version"], members)
    for silent in holders.silent:
        typer.echo(f"{silent.client_id} does not say which queues it holds: {silent.why}")
    print_table("Subscriptions", ["topic", "expression"], sorted(found.subscriptions.items()))
    if found.filters:
        uses = [
            (each.topic, each.filtered, each.judged, each.microseconds, each.without_verdict) for each in found.filters
        ]
        columns = ["topic", "did not pass", "judged", "CPU microseconds", "no verdict"]
        print_table("Filters, last 24 hours", columns, uses)
    _print_queues(found, {each.queue: each for each in holders.queues})


def _print_queues(found: "GroupDescription", held: dict[MessageQueue, "HeldQueue"]) -> None:
    names = [
        "topic",
        "broker",
        "queue",
        "committed",
        "end",
        "lag",
        "consumed up to",
        "member",
        "pulled",
        "member since",
    ]
    rows = []
    known = {each.queue: each for each in found.queues}
    for queue in sorted({*known, *held}):
        holder, each = held.get(queue), known.get(queue)
        who = (
            ("nobody", "-", "-")
            if holder is None
            else (holder.client_id, time_text(holder.last_pull_ms), time_text(holder.member_since_ms))
        )
        place = (
            ("-", "-", "-", "-")
            if each is None
            else (each.committed, each.end, each.lag, time_text(each.last_consumed_ms))
        )
        rows.append((queue.topic, queue.broker_name, queue.queue_id, *place, *who))
    print_table("Queues", names, rows)


def _place(progress: "QueueProgress | None") -> dict[str, object]:
    """Return how far a group is in a queue; nothing for one that a member holds and nobody has committed in."""
    return {
        "committed": None if progress is None else progress.committed,
        "end": None if progress is None else progress.end,
        "lag": None if progress is None else progress.lag,
        "consumedUpTo": None if progress is None else progress.last_consumed_ms,
    }


def _holder(held: "HeldQueue | None") -> dict[str, object]:
    if held is None:
        return {"member": None}
    return {
        "member": held.client_id,
        "memberSince": held.member_since_ms,
        "lastPull": held.last_pull_ms,
        "lastConsume": held.last_consume_ms,
        "cached": held.cached,
    }


def group_fields(described: Described) -> dict[str, object]:
    """Return the description of a group for JSON."""
    found, holders = described
    held = {each.queue: each for each in holders.queues}
    known = {each.queue: each for each in found.queues}
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
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                **_place(known.get(queue)),
                **_holder(held.get(queue)),
            }
            for queue in sorted({*known, *held})
        ],
        "silentMembers": {each.client_id: each.why for each in holders.silent},
    }
