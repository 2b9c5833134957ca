"""Disagreements: members of one group that subscribe differently, which makes RocketMQ lose messages silently. Pure.

A group has one set of subscriptions, that of the last heartbeat. When its members subscribe differently, every
heartbeat changes what all of them get, while queues are divided as if all members read all topics: messages go to
members that do not know the topic, or are filtered by another member's tags, and count as consumed. During an upgrade
of a group this is normal for a short time; a disagreement that lasts two heartbeat periods is reported to operators.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from firearrow.broker.tables.clients import Client, ClientTable, ConsumerGroup

HEARTBEAT_MS: Final = 30_000
LASTING_MS: Final = 2 * HEARTBEAT_MS


class Disagreement(NamedTuple):
    """The first difference between the subscriptions of two members of a group."""

    group: str
    field: str
    """``topics``, or ``expressionType`` or ``expression`` of a topic."""
    one: str
    other: str

    def __str__(self) -> str:
        return (
            f"members of the group {self.group} differ in {self.field}: {self.one}, {self.other}; messages are lost "
            "until all of them subscribe alike"
        )


def disagreement(group: ConsumerGroup) -> Disagreement | None:
    """Return the first difference between the subscriptions of a group's members; None when they agree."""
    latest = {client.client_id: client for client in group.members.values()}
    for one, other in pairwise(latest.values()):
        found = between(group.name, one, other)
        if found is not None:
            return found
    return None


def between(group: str, one: Client, other: Client) -> Disagreement | None:
    """Return the first difference between the subscriptions of two members; None when they agree."""
    if one.subscriptions.keys() != other.subscriptions.keys():
        return Disagreement(group, "topics", _said(one, one.subscriptions), _said(other, other.subscriptions))
    for topic, wanted in one.subscriptions.items():
        others = other.subscriptions[topic]
        if wanted.expression_type != others.expression_type:
            field = f"expressionType of {topic}"
            return Disagreement(
                group, field, _said(one, [wanted.expression_type]), _said(other, [others.expression_type])
            )
        if (wanted.sub_string or "*") != (others.sub_string or "*"):
            field = f"expression of {topic}"
            return Disagreement(
                group, field, _said(one, [wanted.sub_string or "*"]), _said(other, [others.sub_string or "*"])
            )
    return None


def _said(client: Client, values: Iterable[str]) -> str:
    return f"{client.client_id} says {', '.join(sorted(values)) or 'nothing'}"


class Disagreements:
    """The groups with a disagreement, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self.lasting: dict[str, Disagreement] = {}
        """Disagreements that have lasted too long, by group."""

    def look(self, clients: ClientTable, now_ms: int) -> list[Disagreement]:
        """Check every group; return the disagreements that have lasted too long and were not returned before."""
        found = {group.name: one for group in clients.groups() if (one := disagreement(group)) is not None}
        self._since = {name: self._since.get(name, now_ms) for name in found}
        lasting = {name: one for name, one in found.items() if now_ms - self._since[name] >= LASTING_MS}
        fresh = [one for name, one in lasting.items() if name not in self.lasting]
        self.lasting = lasting
        return fresh
