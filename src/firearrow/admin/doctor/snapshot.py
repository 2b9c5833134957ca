"""The input of a cluster's check: name servers, brokers, topics, groups, dead letters, this host. Plain data."""

from collections.abc import Mapping

from msgspec import Struct

from firearrow.admin.broker_state import BrokerState
from firearrow.runtime.host import HostLimits


class NameServerReport(Struct, frozen=True, kw_only=True):
    """A name server. ``fault`` says why it did not answer."""

    address: str
    fault: str = ""
    brokers: frozenset[str] = frozenset()
    """Addresses of the brokers that it knows."""
    allows_strict_order: bool | None = None
    """Its setting ``orderMessageEnable``; None if it does not tell."""


class BrokerReport(Struct, frozen=True, kw_only=True):
    """A registered broker."""

    state: BrokerState
    clock_ahead_ms: int | None = None
    """Its clock less that of this host; None if it does not tell."""
    slaves_behind: Mapping[str, int] = {}
    """Bytes by which slaves are behind, by address."""


class HiddenQueueReport(Struct, frozen=True):
    """Messages that a group has not consumed, in queues that the topic has lost by shrinking."""

    group: str
    queues: tuple[int, ...]
    messages: int


class TopicReport(Struct, frozen=True, kw_only=True):
    """A topic: permissions as brokers have them, and as name servers tell clients."""

    name: str
    perms: Mapping[str, int] = {}
    routed_perms: Mapping[str, int] = {}
    wants_strict_order: bool = False
    order_text: str = ""
    """``broker:queues;...`` at the name servers."""
    hidden: Mapping[str, tuple[HiddenQueueReport, ...]] = {}
    """Messages that no consumer sees any more, by broker."""


class QueueReport(Struct, frozen=True, kw_only=True):
    """A queue of a group. ``member`` is empty if no member says that it holds the queue."""

    topic: str
    broker: str
    queue: int
    lag: int
    member: str = ""
    cached: int = 0
    last_consume_ms: int = 0


class GroupReport(Struct, frozen=True, kw_only=True):
    """A consumer group."""

    name: str
    is_enabled: bool = True
    disagreement: str = ""
    """The difference between subscriptions, as a broker says it or as found between the members' own."""
    members: tuple[str, ...] = ()
    silent: Mapping[str, str] = {}
    """Members that did not answer, and why."""
    queues: tuple[QueueReport, ...] = ()
    is_broadcasting: bool = False


class DeadLetterReport(Struct, frozen=True, kw_only=True):
    """The dead letters of a group."""

    group: str
    messages: int
    last_ms: int


class ClusterSnapshot(Struct, frozen=True, kw_only=True):
    """A cluster at one moment."""

    now_ms: int
    name_servers: tuple[NameServerReport, ...] = ()
    brokers: tuple[BrokerReport, ...] = ()
    topics: tuple[TopicReport, ...] = ()
    groups: tuple[GroupReport, ...] = ()
    dead_letters: tuple[DeadLetterReport, ...] = ()
    host: HostLimits = HostLimits()
    left_out: str = ""
    """The parts that were not looked at, because there are too many."""
