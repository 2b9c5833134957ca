"""Clients, their groups, connections and subscriptions.

Java: ``remoting.protocol.heartbeat``, ``remoting.protocol.body.ConsumerConnection`` and its neighbours. Words such as a
consume type are plain strings, because a newer peer may know more of them; the enums here name those known today. The
C++ client sends them as numbers, the ordinal of Java's enum: ``word`` gives the name for either.
"""

from enum import StrEnum
from typing import TypeVar

import msgspec

from firearrow.protocol.bodies.body import Body, always, empty_list, empty_map
from firearrow.protocol.conversation import Int32, Int64


class ConsumeType(StrEnum):
    """The way in which a group gets its messages, in Java's order."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """The way in which a group shares messages, in Java's order. LITE_SELECTIVE is new in 5.5."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"
    LITE_SELECTIVE = "LITE_SELECTIVE"


class ConsumeFromWhere(StrEnum):
    """The start of a group without offsets, in Java's order. The three in the middle are deprecated."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


E = TypeVar("E", bound=StrEnum)


def word(kind: type[E], value: str | int | None) -> E | None:
    """Return the member of ``kind`` with this name or ordinal; None if there is no such member."""
    if isinstance(value, int):
        members = list(kind)
        return members[value] if 0 <= value < len(members) else None
    return kind.__members__.get(value) if value is not None else None


class SubscriptionData(Body, frozen=True, kw_only=True):
    """The messages of one topic that a group wants. ``code_set`` holds the hash codes of ``tags_set``."""

    class_filter_mode: bool = always(False)
    code_set: list[Int32] = empty_list()
    expression_type: str = always("TAG")
    sub_string: str | None = None
    sub_version: Int64 = always(0)
    tags_set: list[str] = empty_list()
    topic: str | None = None


class ConsumerData(Body, frozen=True, kw_only=True):
    """One consumer group of a client."""

    consume_from_where: str | Int32 | None = None
    consume_type: str | Int32 | None = None
    group_name: str | None = None
    message_model: str | Int32 | None = None
    subscription_data_set: list[SubscriptionData] = empty_list()
    unit_mode: bool = always(False)


class ProducerData(Body, frozen=True, kw_only=True, gc=False):
    """One producer group of a client."""

    group_name: str | None = None


class HeartbeatData(Body, frozen=True, kw_only=True):
    """A client and all its groups. The last two members are new in 5.x."""

    client_id: str | None = msgspec.field(name="clientID", default=None)
    consumer_data_set: list[ConsumerData] = empty_list()
    heartbeat_fingerprint: Int32 = always(0)
    producer_data_set: list[ProducerData] = empty_list()
    without_sub: bool = always(False)


class CheckClientBody(Body, frozen=True, kw_only=True):
    """Request of CHECK_CLIENT_CONFIG: may this subscription be compiled?"""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription_data: SubscriptionData | None = None


class ConsumerIdList(Body, frozen=True, kw_only=True):
    """The client ids of a consumer group. Java: ``GetConsumerListByGroupResponseBody``."""

    consumer_id_list: list[str] | None = None


class ClientConnection(Body, frozen=True, kw_only=True, gc=False):
    """One connection of a client."""

    client_addr: str | None = None
    client_id: str | None = None
    language: str | None = None
    version: Int32 = always(0)


class ConsumerConnection(Body, frozen=True, kw_only=True):
    """The connections and subscriptions of a consumer group.

    ``subscription_disagreement`` is ours: what members say differently, where they do. Java ignores it.
    """

    connection_set: list[ClientConnection] = empty_list()
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_disagreement: str | None = None
    subscription_table: dict[str, SubscriptionData] = empty_map()


class ProducerConnection(Body, frozen=True, kw_only=True):
    """The connections of a producer group."""

    connection_set: list[ClientConnection] = empty_list()


class ProducerInfo(Body, frozen=True, kw_only=True, gc=False):
    """One producer that is connected."""

    client_id: str | None = None
    language: str | None = None
    last_update_timestamp: Int64 = always(0)
    remote_ip: str | None = msgspec.field(name="remoteIP", default=None)
    version: Int32 = always(0)


class ProducerTable(Body, frozen=True, kw_only=True):
    """All producers of a broker by group. Java: ``ProducerTableInfo``."""

    data: dict[str, list[ProducerInfo]] | None = None
