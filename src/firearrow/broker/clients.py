"""Who is connected: producers and consumers by group and connection. Pure; time is an argument.

A client says everything about itself in every heartbeat. A group's subscription is what its members last said: topics
that a heartbeat does not name are gone, a known topic is replaced only by a newer version. That is why members of one
group must subscribe alike. Verbs return the groups whose members must be told to divide their queues anew, by name.
Java: ``ConsumerManager``, ``ConsumerGroupInfo``, ``ProducerManager``.

Invariants: a group without members does not exist; a connection is in `_groups_of` exactly while it is a member
anywhere, so the end of a connection costs what it belonged to and no scan.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct, field

from firearrow.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
    word,
)


class Client(Struct, eq=False):
    """One connection as a member of one group."""

    connection: object
    client_id: str
    language: str
    version: int
    heard_ms: int
    """When it last said that it is alive, in elapsed time."""
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    """What this member itself wants, by topic."""


class ConsumerGroup(Struct, eq=False):
    """The members of a consumer group and what they want."""

    name: str
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    members: dict[object, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    listing: bytes | None = None
    """The answer to who is in the group, until somebody comes or leaves: every member asks after every change."""

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member gets every message, so that nothing is divided."""
        return self.message_model == MessageModel.BROADCASTING

    @property
    def is_passive(self) -> bool:
        """Whether its members are push consumers."""
        return self.consume_type == ConsumeType.CONSUME_PASSIVELY

    def member(self, client_id: str) -> Client | None:
        """The member of that id."""
        for client in self.members.values():
            if client.client_id == client_id:
                return client
        return None


class Expired(NamedTuple):
    """What silence led to."""

    connections: tuple[object, ...]
    """To be closed."""
    changed: tuple[str, ...]
    """Groups whose members must be told."""


class ClientTable:
    """Producers and consumers of one broker."""

    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[object, Client]] = {}
        self._consuming: dict[object, dict[str, None]] = {}
        self._producing: dict[object, dict[str, None]] = {}

    # ---- looking

    def group(self, name: str) -> ConsumerGroup | None:
        """A consumer group that is on line."""
        return self._consumers.get(name)

    def groups(self) -> Iterator[ConsumerGroup]:
        """Every consumer group on line."""
        return iter(self._consumers.values())

    def producers(self, name: str) -> dict[object, Client] | None:
        """The members of a producer group that is on line."""
        return self._producers.get(name)

    def producer_groups(self) -> Iterator[tuple[str, dict[object, Client]]]:
        """Every producer group on line, with its members."""
        return iter(self._producers.items())

    def groups_of_topic(self, topic: str) -> list[str]:
        """The consumer groups on line that subscribe to a topic."""
        return [group.name for group in self._consumers.values() if topic in group.subscriptions]

    # ---- coming

    def consume(self, client: Client, data: ConsumerData, *, without_sub: bool = False) -> str | None:
        """A client is alive as a consumer. ``without_sub``: it wants what it wanted before."""
        name = data.group_name or ""
        group = self._consumers.get(name)
        if group is None:
            group = self._consumers[name] = ConsumerGroup(name)
        group.consume_type = _said(word(ConsumeType, data.consume_type), data.consume_type)
        group.message_model = _said(word(MessageModel, data.message_model), data.message_model)
        group.consume_from_where = _said(word(ConsumeFromWhere, data.consume_from_where), data.consume_from_where)
        known = group.members.get(client.connection)
        changed = known is None
        if known is None or known.client_id != client.client_id:
            group.listing = None
        client.subscriptions = known.subscriptions if known is not None else {}
        group.members[client.connection] = client
        self._consuming.setdefault(client.connection, {})[name] = None
        if not without_sub:
            client.subscriptions = {one.topic: one for one in data.subscription_data_set if one.topic}
            changed = _subscribe(group, client.subscriptions) or changed
        return _told(group) if changed else None

    def produce(self, client: Client, name: str) -> None:
        """A client is alive as a producer."""
        self._producers.setdefault(name, {})[client.connection] = client
        self._producing.setdefault(client.connection, {})[name] = None

    # ---- going

    def stop_consuming(self, connection: object, name: str) -> str | None:
        """A member leaves a consumer group."""
        group = self._consumers.get(name)
        if group is None or group.members.pop(connection, None) is None:
            return None
        _forget(self._consuming, connection, name)
        group.listing = None
        if not group.members:
            del self._consumers[name]
            return None
        return _told(group)

    def stop_producing(self, connection: object, name: str) -> None:
        """A member leaves a producer group."""
        members = self._producers.get(name)
        if members is None or members.pop(connection, None) is None:
            return
        _forget(self._producing, connection, name)
        if not members:
            del self._producers[name]

    def disconnected(self, connection: object) -> tuple[str, ...]:
        """A connection ended: it leaves everything."""
        for name in tuple(self._producing.get(connection, ())):
            self.stop_producing(connection, name)
        changed = [self.stop_consuming(connection, name) for name in tuple(self._consuming.get(connection, ()))]
        return tuple(name for name in changed if name is not None)

    def expire(self, before_ms: int) -> Expired:
        """Everybody who was last heard before that time is gone."""
        silent: dict[object, None] = {}
        for members in self._all_members():
            silent |= {client.connection: None for client in members if client.heard_ms < before_ms}
        changed: dict[str, None] = {}
        for connection in silent:
            changed.update(dict.fromkeys(self.disconnected(connection)))
        return Expired(tuple(silent), tuple(changed))

    def _all_members(self) -> Iterator[Iterable[Client]]:
        for group in self._consumers.values():
            yield group.members.values()
        for members in self._producers.values():
            yield members.values()


def _told(group: ConsumerGroup) -> str | None:
    """The group whose members must be told; nobody where nothing is divided."""
    return None if group.is_broadcasting else group.name


def _subscribe(group: ConsumerGroup, wanted: dict[str, SubscriptionData]) -> bool:
    """Let the group want this; whether its set of topics changed."""
    changed = False
    for topic, subscription in wanted.items():
        old = group.subscriptions.get(topic)
        if old is None or subscription.sub_version > old.sub_version:
            group.subscriptions[topic] = subscription
        changed = changed or old is None
    for topic in [topic for topic in group.subscriptions if topic not in wanted]:
        del group.subscriptions[topic]
        changed = True
    return changed


def _said(known: str | None, said: str | int | None) -> str | None:
    """The word for what a peer said; a word that a newer peer may know stays as it is."""
    return str(known) if known is not None else (said if isinstance(said, str) else None)


def _forget(table: dict[object, dict[str, None]], connection: object, name: str) -> None:
    names = table[connection]
    del names[name]
    if not names:
        del table[connection]
