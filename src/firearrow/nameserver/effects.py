"""Inputs of the table of routes, and the effects that its methods return."""

from collections.abc import Mapping

import msgspec

from firearrow.nameserver.brokers import Member
from firearrow.nameserver.queues import TopicQueues
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo
from firearrow.protocol.bodies.version import DataVersion


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a registration: the broker's topics, and the edition of its table.

    ``topics`` are (name, queues); ``filter_servers`` is None if the broker sent none.
    """

    version: DataVersion
    topics: list[tuple[str, TopicQueues]]
    mappings: Mapping[str, TopicQueueMappingInfo] = {}
    filter_servers: list[str] | None = None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest id of a broker name changed; ``to`` are the members to notify (NOTIFY_MIN_BROKER_ID_CHANGE)."""

    to: tuple[str, ...]
    min_broker_id: int
    min_broker_address: str
    offline_address: str | None = None
    ha_address: str | None = None


class RegistrationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a registration. The master's addresses are for slaves."""

    master_address: str | None = None
    ha_address: str | None = None
    is_new: bool = False
    notices: tuple[Notice, ...] = ()


class RemovalOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of removals: removed members, broker names without members, connections to close, notices to send."""

    members: tuple[Member, ...] = ()
    names: tuple[str, ...] = ()
    connections: tuple[object, ...] = ()
    notices: tuple[Notice, ...] = ()
