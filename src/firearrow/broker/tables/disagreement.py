"""Disagreements: members of one group that subscribe differently, which makes RocketMQ lose messages silently. Pure.

A group has one set of subscriptions, that of the last heartbeat. When its members subscribe differently, every
heartbeat changes what all of them get, while queues are divided as if all members read all topics: messages go to
members that do not know the topic, or are filtered by another member's tags, and count as consumed. During an upgrade
of a group this is normal for a short time; a disagreement that lasts two heartbeat periods is reported to operators.
"""

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Final, NamedTuple

from firearrow.broker.tables.clients import Client, ClientTable, ConsumerGroup

HEARTBEAT_MS: Final = 30_000
LASTING_MS: Final = 2 * HEARTBEAT_MS
MOST_EXAMPLES: Final = 100
"""Members that are compared, of those that all say something else."""


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
    """Return the first difference between the subscriptions of a group's members; None when they agree.

    One member stands for those that subscribe alike. Of a client with several connections the last one counts.
    """
    said = (_example(group, alike) for alike in islice(group.sayings.values(), MOST_EXAMPLES))
    for one, other in pairwise(client for client in said if client is not None):
        found = between(group.name, one, other)
        if found is not None:
            return found
    return None


def disagreement_with(group: ConsumerGroup, client: Client) -> Disagreement | None:
    """Return the first difference between a client's subscriptions and those of another member; None: there is none.

    One member stands for those that subscribe alike.
    """
    for alike in islice(group.sayings.values(), MOST_EXAMPLES):
        other = _example(group, alike, client.client_id)
        found = None if other is None else between(group.name, other, client)
        if found is not None:
            return found
    return None


def _example(group: ConsumerGroup, alike: dict[object, Client], without: str | None = None) -> Client | None:
    """Return a member of those that subscribe alike, by its last connection, and not the client ``without``."""
    for client in islice(alike.values(), MOST_EXAMPLES):
        if client.client_id != without and group.member(client.client_id) is client:
            return client
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

    def look(self, clients: ClientTable, now_ms: int) -> Iterator[Disagreement | None]:
        """Check the groups whose members do not all subscribe alike, one at every step: the caller may pause there.

        Yield the disagreements that have lasted too long and were not yielded before, and None for all others.
        """
        since: dict[str, int] = {}
        lasting: dict[str, Disagreement] = {}
        for name in list(clients.disagreeing):
            group = clients.group(name)
            found = None if group is None else disagreement(group)
            if found is not None:
                since[name] = self._since.get(name, now_ms)
            if found is None or now_ms - since[name] < LASTING_MS:
                yield None
                continue
            lasting[name] = found
            yield None if name in self.lasting else found
        self._since, self.lasting = since, lasting
