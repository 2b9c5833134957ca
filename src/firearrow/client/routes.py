"""Routes: the queues of a topic, and the addresses to write to or read from. Pure: `instance` asks for them.

A ``Route`` is made of what a name server answers. Queues to write: of every broker that permits it and whose master is
known, or exactly those of ``orderTopicConf`` for a topic of strict order, whether their broker is there or not (a send
to a missing one fails rather than moves). Queues to read: of every broker that permits it. Both lists are in Java's
order: by broker name, then number.

A ``RouteTable`` holds the routes of all topics in use and, merged from them, the addresses of brokers by name and id;
the latest route of a broker counts. A topic that name servers no longer know keeps its route, because a name server
that has just started knows nothing yet; routes of other topics count more for its brokers.

Java: ``MQClientInstance.topicRouteData2TopicPublishInfo``, ``topicRouteData2TopicSubscribeInfo``,
``findBrokerAddressInSubscribe``.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec import Struct

from firearrow import fastjson
from firearrow.errors import BadBody, SettingsError
from firearrow.model import MessageQueue
from firearrow.model.flags import PERM_READ, PERM_WRITE
from firearrow.protocol.bodies.naming.route import ClusterInfo, QueueData, TopicRouteData
from firearrow.runtime.network import Address

T = TypeVar("T")

MASTER_ID: Final = 0
MAX_QUEUES: Final = 65_536
"""Most queues of one topic on one broker: a larger number in an answer is wrong, and would exhaust memory."""
MOST_BROKERS: Final = 4_096
"""Most brokers of one topic or cluster: a client connects to all of them."""
MOST_QUEUES: Final = 4 * MAX_QUEUES
"""Most queues of one topic on all brokers."""
LONGEST_COUNT: Final = 9
"""Digits of a number of queues."""
LONGEST_SHOWN: Final = 200
MOST_BYTES: Final = 4 << 20
"""Bytes of a route: one of `MOST_BROKERS` brokers has a quarter of that."""
MOST_IN_DIALECT: Final = 1 << 20
"""Bytes of a route in fastjson's own form, as name servers of 4.9 send it: it is slow to read."""

BrokerAddresses = Mapping[str, Mapping[int, Address]]


class Route(Struct, frozen=True):
    """The queues of one topic, and the addresses of their brokers."""

    topic: str
    write_queues: tuple[MessageQueue, ...]
    read_queues: tuple[MessageQueue, ...]
    brokers: BrokerAddresses
    is_strictly_ordered: bool = False
    closed: frozenset[str] = frozenset()
    """Brokers that do not permit reads of the topic."""


def decoded(body: bytes, kind: type[T]) -> T:
    """Return what a name server told; raise ``BadBody`` when it is longer than any cluster needs."""
    if len(body) > MOST_BYTES:
        raise BadBody(f"a name server answered with {len(body)} bytes; at most {MOST_BYTES} are read")
    return fastjson.decode(body, kind, most_in_dialect=MOST_IN_DIALECT)


def read_route(topic: str, data: TopicRouteData) -> Route:
    """Return the route that a name server's answer stands for."""
    _check_count(f"topic {topic}", sum(len(broker.broker_addrs) for broker in data.broker_datas))
    queue_count = sum(max(queue.read_queue_nums, queue.write_queue_nums, 1) for queue in data.queue_datas)
    if queue_count > MOST_QUEUES:
        raise BadBody(f"a name server says that topic {topic} has {queue_count} queues; at most {MOST_QUEUES} are used")
    brokers = {
        broker.broker_name: {number: _address(text) for number, text in sorted(broker.broker_addrs.items())}
        for broker in data.broker_datas
        if broker.broker_name
    }
    queues = sorted((q for q in data.queue_datas if q.broker_name), key=lambda q: q.broker_name or "")
    if data.order_topic_conf:
        ordered = _ordered(topic, data.order_topic_conf)
        return Route(topic, ordered, _readable(topic, queues), brokers, True, _closed(queues))
    return Route(topic, _writable(topic, queues, brokers), _readable(topic, queues), brokers, closed=_closed(queues))


def read_masters(data: ClusterInfo) -> list[Address]:
    """Return the address of every broker's master."""
    brokers = sorted((data.broker_addr_table or {}).items())
    _check_count("the cluster", len(brokers))
    return [_address(broker.broker_addrs[MASTER_ID]) for _, broker in brokers if MASTER_ID in broker.broker_addrs]


def _check_count(what: str, count: int) -> None:
    if count > MOST_BROKERS:
        raise BadBody(f"a name server says that {what} is on {count} brokers; at most {MOST_BROKERS} are used")


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except SettingsError as wrong:
        raise BadBody(f"a name server sent an invalid address: {wrong}") from wrong


def _numbered(topic: str, broker: str, count: int) -> list[MessageQueue]:
    if not 0 <= count <= MAX_QUEUES:
        raise BadBody(f"a name server says that broker {broker} has {count} queues of {topic}")
    return [MessageQueue(topic, broker, number) for number in range(count)]


def _writable(topic: str, queues: list[QueueData], brokers: BrokerAddresses) -> tuple[MessageQueue, ...]:
    found = []
    for data in queues:
        broker = data.broker_name or ""
        if data.perm & PERM_WRITE and MASTER_ID in brokers.get(broker, {}):
            found += _numbered(topic, broker, data.write_queue_nums)
    return tuple(found)


def _readable(topic: str, queues: list[QueueData]) -> tuple[MessageQueue, ...]:
    found = []
    for data in queues:
        if data.perm & PERM_READ:
            found += _numbered(topic, data.broker_name or "", data.read_queue_nums)
    return tuple(found)


def _closed(queues: list[QueueData]) -> frozenset[str]:
    return frozenset(data.broker_name or "" for data in queues if not data.perm & PERM_READ)


def _ordered(topic: str, text: str) -> tuple[MessageQueue, ...]:
    found = []
    for part in filter(None, text.split(";")):
        broker, _, count = part.rpartition(":")
        if not broker or not count.isascii() or not count.isdigit() or len(count) > LONGEST_COUNT:
            said = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
            raise BadBody(f"the order configuration of {topic} is {said!r}; it should read broker:queues;broker:queues")
        found += _numbered(topic, broker, int(count))
        if len(found) > MOST_QUEUES:
            raise BadBody(f"the order configuration of {topic} has more than {MOST_QUEUES} queues")
    return tuple(found)


def borrowed(route: Route, topic: str, queues: int) -> Route:
    """Return the route of a topic that does not exist yet: the auto-create topic's, at most ``queues`` a broker."""
    write = tuple(MessageQueue(topic, q.broker_name, q.queue_id) for q in route.write_queues if q.queue_id < queues)
    return Route(topic, write, (), route.brokers)


class RouteTable:
    """The routes of the topics in use."""

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}
        self._heard: dict[str, BrokerAddresses] = {}
        """The brokers of each topic; the latest is last."""
        self._brokers: dict[str, Mapping[int, Address]] = {}

    def get(self, topic: str) -> Route | None:
        """Return the latest route, or None."""
        return self._routes.get(topic)

    def topics(self) -> list[str]:
        """The topics with a route, in the order in which they were added."""
        return list(self._routes)

    def update(self, route: Route) -> bool:
        """Store a route; return whether it changed."""
        topic, known = route.topic, self._routes.get(route.topic)
        self._heard.pop(topic, None)
        self._heard[topic] = route.brokers
        if known == route:
            if any(self._brokers.get(name) != members for name, members in route.brokers.items()):
                self._merge()
            return False
        self._routes[topic] = route
        self._merge()
        return True

    def _merge(self) -> None:
        self._brokers = {}
        for brokers in self._heard.values():
            self._brokers.update(brokers)

    @property
    def brokers(self) -> BrokerAddresses:
        """Every broker of every topic: name, then id, then address."""
        return self._brokers

    def master(self, broker: str) -> Address | None:
        """The address of a broker's master, if it has one."""
        return self._brokers.get(broker, {}).get(MASTER_ID)

    def readable(self, broker: str, preferred: int = MASTER_ID) -> tuple[int, Address] | None:
        """Return the id and address to read from: the preferred id, else the next, else any."""
        known = self._brokers.get(broker)
        if not known:
            return None
        for number in (preferred, preferred + 1) if preferred != MASTER_ID else (preferred,):
            if number in known:
                return number, known[number]
        return next(iter(known.items()))
