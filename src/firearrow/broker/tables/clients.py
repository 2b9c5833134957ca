"""The client table: connected producers and consumers, by group and connection. Pure; time is an argument.

Every heartbeat of a client carries all its groups and subscriptions. The subscriptions of a group are those of the last
heartbeat: a topic that the heartbeat does not name is removed, a known topic is replaced only by a newer version. So
the members of a group must subscribe alike. Methods return the names of groups whose members must rebalance.
Java: ``ConsumerManager``, ``ConsumerGroupInfo``, ``ProducerManager``.

What members make the table hold is counted, by connection and in all (`held`): a heartbeat may name many topics.

Invariants: a group without members does not exist; `_consuming` and `_producing` hold a connection exactly while it is
a member of a group, so removing a connection visits only its own groups. Members stand in the order of their last
heartbeats (`_heard`), so expiring visits only those that expire; they are counted by language and version, and kept by
what they subscribe to, so nothing that an operator or a metric asks visits all members.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from sys import maxsize
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct, field

from firearrow.model.versions import version_name
from firearrow.protocol.bodies.group.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
    word,
)

K = TypeVar("K")

MEMBER_BYTES: Final = 500
"""About the memory of a member of a group."""
TOPIC_BYTES: Final = 600
"""About the memory of a subscription to a topic, without its texts."""
TAG_BYTES: Final = 60
"""About the memory of a tag, without its text."""
CODE_BYTES: Final = 40
"""About the memory of the code of a tag."""


class Client(Struct, eq=False):
    """One connection as a member of one group."""

    connection: object
    client_id: str
    language: str
    version: int
    heard_ms: int
    """The time of its last heartbeat, in elapsed milliseconds."""
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    """The subscriptions of this member, by topic."""
    weight: int = MEMBER_BYTES
    """About the memory of this member and its subscriptions."""
    saying: int = 0
    """A hash of the topics and expressions of its subscriptions: equal for members that subscribe alike."""

    @property
    def kind(self) -> "ClientKind":
        """Its language and version."""
        return self.language, version_name(self.version)


ClientKind = tuple[str, str]
"""The language and the name of the version of a client."""


class ConsumerGroup(Struct, eq=False):
    """The members of a consumer group and its subscriptions."""

    name: str
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    members: dict[object, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    filters: dict[str, tuple[SubscriptionData, object]] = field(default_factory=dict)
    """The compiled filters of subscriptions that are not by tags, by topic; `broker.pull.filters` keeps them."""
    sayings: dict[int, dict[object, Client]] = field(default_factory=dict)
    """The members by what they subscribe to: more than one entry is a disagreement."""
    connections: dict[str, dict[object, Client]] = field(default_factory=dict)
    """The members by client id; the last connection of a client is the one that counts."""
    kinds: Counter[ClientKind] = field(default_factory=Counter)
    """The number of members by language and version."""
    listing: bytes | None = None
    """The encoded list of member ids, cached until a member comes or leaves: every member asks after every change."""

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member gets every message, so that queues are not divided."""
        return self.message_model == MessageModel.BROADCASTING

    def join(self, client: Client) -> None:
        """Add a member, or replace what is known of it."""
        known = self.members.get(client.connection)
        if known is not None:
            self._forget(known)
        self.members[client.connection] = client
        self.sayings.setdefault(client.saying, {})[client.connection] = client
        self.connections.setdefault(client.client_id, {})[client.connection] = client
        self.kinds[client.kind] += 1

    def leave(self, connection: object) -> Client | None:
        """Remove a member; return what was known of it."""
        client = self.members.pop(connection, None)
        if client is not None:
            self._forget(client)
        return client

    def _forget(self, client: Client) -> None:
        """Remove a member from the indexes."""
        _forget_member(self.sayings, client.saying, client)
        _forget_member(self.connections, client.client_id, client)
        _count_down(self.kinds, client.kind)

    def member(self, client_id: str) -> Client | None:
        """Return the member with a client id, by its last connection."""
        known = self.connections.get(client_id)
        return None if known is None else next(reversed(known.values()))


class ExpiredClients(NamedTuple):
    """The clients that `expire` removed."""

    connections: tuple[object, ...]
    """Connections to be closed."""
    changed: tuple[str, ...]
    """Groups whose members must rebalance."""


class ClientTable:
    """Producers and consumers of one broker."""

    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[object, Client]] = {}
        self._consuming: dict[object, dict[str, None]] = {}
        self._producing: dict[object, dict[str, None]] = {}
        self._heard: OrderedDict[tuple[object, str, bool], Client] = OrderedDict()
        self._held_by: dict[object, int] = {}
        self.producer_kinds: Final[Counter[ClientKind]] = Counter()
        """The number of members of producer groups by language and version."""
        self.disagreeing: Final[dict[str, None]] = {}
        """The consumer groups whose members do not all subscribe alike."""
        self.held = 0
        """About the memory of all members."""
        self.on_new_expression: Final[list[Callable[[ConsumerGroup, list[str]], None]]] = []
        """Called with a group and the topics to which it subscribes by another expression now."""

    # ---- looking

    def group(self, name: str) -> ConsumerGroup | None:
        """Return a consumer group; None when it has no members."""
        return self._consumers.get(name)

    def groups(self) -> Iterator[ConsumerGroup]:
        """Iterate over the consumer groups with members."""
        return iter(self._consumers.values())

    def producers(self, name: str) -> dict[object, Client] | None:
        """Return the members of a producer group; None when it has none."""
        return self._producers.get(name)

    def producer_groups(self) -> Iterator[tuple[str, dict[object, Client]]]:
        """Iterate over the producer groups and their members."""
        return iter(self._producers.items())

    def client_id(self, connection: object) -> str | None:
        """Return the client id that a connection has told with a heartbeat; None when it has told none."""
        for name in self._producing.get(connection, ()):
            return self._producers[name][connection].client_id
        for name in self._consuming.get(connection, ()):
            return self._consumers[name].members[connection].client_id
        return None

    def held_by(self, connection: object) -> int:
        """Return about the memory of the members of a connection."""
        return self._held_by.get(connection, 0)

    def memberships(self, connection: object, consumers: Iterable[str], producers: Iterable[str]) -> int:
        """Return how many groups a connection would belong to after a heartbeat that names these."""
        consuming, producing = self._consuming.get(connection, ()), self._producing.get(connection, ())
        new = len({name for name in consumers if name not in consuming})
        new += len({name for name in producers if name not in producing})
        return len(consuming) + len(producing) + new

    def added_weight(self, connection: object, data: ConsumerData) -> int:
        """Return how much more a connection would hold after this heartbeat of a consumer."""
        group = self._consumers.get(data.group_name or "")
        known = None if group is None else group.members.get(connection)
        return weight_of(data.subscription_data_set) - (0 if known is None else known.weight)

    # ---- coming

    def consume(self, client: Client, data: ConsumerData, *, without_sub: bool = False) -> str | None:
        """Note the heartbeat of a consumer. With ``without_sub`` its earlier subscriptions stay."""
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
        if known is not None:
            client.subscriptions, client.weight, client.saying = known.subscriptions, known.weight, known.saying
        if not without_sub:
            client.weight = weight_of(data.subscription_data_set)
            client.subscriptions = {one.topic: one for one in data.subscription_data_set if one.topic}
            client.saying = saying_of(client.subscriptions)
        self._weigh(client.connection, client.weight - (0 if known is None else known.weight))
        group.join(client)
        self._note_agreement(group)
        self._consuming.setdefault(client.connection, {})[name] = None
        self._note_heard((client.connection, name, False), client)
        if not without_sub:
            differing = _differing(group, client.subscriptions)
            changed = _subscribe(group, client.subscriptions) or changed
            for notice in self.on_new_expression if differing else ():
                notice(group, differing)
        return _to_notify(group) if changed else None

    def produce(self, client: Client, name: str) -> None:
        """Note the heartbeat of a producer."""
        members = self._producers.setdefault(name, {})
        known = members.get(client.connection)
        if known is None:
            self._weigh(client.connection, MEMBER_BYTES)
        else:
            _count_down(self.producer_kinds, known.kind)
        members[client.connection] = client
        self.producer_kinds[client.kind] += 1
        self._producing.setdefault(client.connection, {})[name] = None
        self._note_heard((client.connection, name, True), client)

    def _note_heard(self, key: tuple[object, str, bool], client: Client) -> None:
        self._heard[key] = client
        self._heard.move_to_end(key)

    def _note_agreement(self, group: ConsumerGroup) -> None:
        if len(group.sayings) > 1:
            self.disagreeing[group.name] = None
        else:
            self.disagreeing.pop(group.name, None)

    # ---- going

    def stop_consuming(self, connection: object, name: str) -> str | None:
        """Remove a member from a consumer group."""
        group = self._consumers.get(name)
        client = None if group is None else group.leave(connection)
        if group is None or client is None:
            return None
        del self._heard[connection, name, False]
        self._note_agreement(group)
        self._weigh(connection, -client.weight)
        _forget(self._consuming, connection, name)
        group.listing = None
        if not group.members:
            del self._consumers[name]
            return None
        return _to_notify(group)

    def stop_producing(self, connection: object, name: str) -> None:
        """Remove a member from a producer group."""
        members = self._producers.get(name)
        client = None if members is None else members.pop(connection, None)
        if members is None or client is None:
            return
        _count_down(self.producer_kinds, client.kind)
        del self._heard[connection, name, True]
        self._weigh(connection, -MEMBER_BYTES)
        _forget(self._producing, connection, name)
        if not members:
            del self._producers[name]

    def disconnected(self, connection: object) -> tuple[str, ...]:
        """Remove a connection that ended from all its groups."""
        for name in tuple(self._producing.get(connection, ())):
            self.stop_producing(connection, name)
        changed = [self.stop_consuming(connection, name) for name in tuple(self._consuming.get(connection, ()))]
        return tuple(name for name in changed if name is not None)

    def expire(self, before_ms: int, most: int = maxsize) -> ExpiredClients:
        """Remove at most ``most`` clients whose last heartbeat was before ``before_ms``; call again for the rest."""
        silent: dict[object, None] = {}
        for (connection, _, _), client in self._heard.items():
            if client.heard_ms >= before_ms or len(silent) >= most:
                break
            silent[connection] = None
        changed: dict[str, None] = {}
        for connection in silent:
            changed.update(dict.fromkeys(self.disconnected(connection)))
        return ExpiredClients(tuple(silent), tuple(changed))

    def _weigh(self, connection: object, more: int) -> None:
        self.held += more
        held = self._held_by.pop(connection, 0) + more
        if held:
            self._held_by[connection] = held


def weight_of(subscriptions: Iterable[SubscriptionData]) -> int:
    """Return about the memory of a member with these subscriptions."""
    weight = MEMBER_BYTES
    for one in subscriptions:
        tags = len(one.tags_set) * TAG_BYTES + sum(map(len, one.tags_set)) + len(one.code_set) * CODE_BYTES
        weight += TOPIC_BYTES + len(one.topic or "") + len(one.sub_string or "") + len(one.expression_type) + tags
    return weight


def saying_of(subscriptions: dict[str, SubscriptionData]) -> int:
    """Return a hash of topics and expressions, the same whatever their order."""
    return hash(frozenset((one.topic, one.expression_type, one.sub_string or "*") for one in subscriptions.values()))


def _forget_member(index: dict[K, dict[object, Client]], key: K, client: Client) -> None:
    del index[key][client.connection]
    if not index[key]:
        del index[key]


def _count_down(counts: Counter[ClientKind], kind: ClientKind) -> None:
    counts[kind] -= 1
    if not counts[kind]:
        del counts[kind]


def _to_notify(group: ConsumerGroup) -> str | None:
    """Return the name of a group whose members must rebalance; None for a broadcasting group."""
    return None if group.is_broadcasting else group.name


def _differing(group: ConsumerGroup, wanted: dict[str, SubscriptionData]) -> list[str]:
    """Return the topics of newer subscriptions whose expression differs from the known one."""
    return [
        topic
        for topic, new in wanted.items()
        if (old := group.subscriptions.get(topic)) is not None
        and new.sub_version > old.sub_version
        and _expression(new) != _expression(old)
    ]


def _expression(subscription: SubscriptionData) -> tuple[str | None, str | None, frozenset[str]]:
    return subscription.sub_string, subscription.expression_type, frozenset(subscription.tags_set)


def _subscribe(group: ConsumerGroup, wanted: dict[str, SubscriptionData]) -> bool:
    """Update the subscriptions of a group; return whether its set of topics changed."""
    changed = False
    for topic, subscription in wanted.items():
        old = group.subscriptions.get(topic)
        if old is None or subscription.sub_version > old.sub_version:
            group.subscriptions[topic] = subscription
        changed = changed or old is None
    for topic in [topic for topic in group.subscriptions if topic not in wanted]:
        del group.subscriptions[topic]
        group.filters.pop(topic, None)
        changed = True
    return changed


def _said(known: str | None, said: str | int | None) -> str | None:
    """Return Java's name of an enum value that a peer sent; an unknown name stays as it is."""
    return str(known) if known is not None else (said if isinstance(said, str) else None)


def _forget(table: dict[object, dict[str, None]], connection: object, name: str) -> None:
    names = table[connection]
    del names[name]
    if not names:
        del table[connection]
