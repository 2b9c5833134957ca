"""Members of one group that do not want the same: the way in which RocketMQ loses messages in silence. Pure.

A group has one subscription, the one that was said last. When its members say different things, each heartbeat changes
what all of them get, and queues are divided as if everybody read everything: messages go to members that do not know
their topic, or are filtered by somebody else's tags, and are counted as consumed. While a group is being upgraded that
is so for a moment; when it lasts for two heartbeat periods, somebody should be told.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from firearrow.broker.clients import Client, ClientTable, ConsumerGroup

HEARTBEAT_MS: Final = 30_000
LASTING_MS: Final = 2 * HEARTBEAT_MS


class Disagreement(NamedTuple):
    """What two members of a group say differently."""

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
    """The first thing that members of a group do not agree on."""
    latest = {client.client_id: client for client in group.members.values()}
    for one, other in pairwise(latest.values()):
        found = between(group.name, one, other)
        if found is not None:
            return found
    return None


def between(group: str, one: Client, other: Client) -> Disagreement | None:
    """The first thing that two members do not agree on."""
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
    """Which groups do not agree, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self.lasting: dict[str, Disagreement] = {}
        """Those that have lasted for too long, by group."""

    def look(self, clients: ClientTable, now_ms: int) -> list[Disagreement]:
        """Look at every group; return what has just lasted for too long and was not told before."""
        found = {group.name: one for group in clients.groups() if (one := disagreement(group)) is not None}
        self._since = {name: self._since.get(name, now_ms) for name in found}
        lasting = {name: one for name, one in found.items() if now_ms - self._since[name] >= LASTING_MS}
        fresh = [one for name, one in lasting.items() if name not in self.lasting]
        self.lasting = lasting
        return fresh
