"""Brokers at name servers: registration, heartbeats, and the members of a broker name.

Java: ``header.namesrv.RegisterBrokerRequestHeader`` and its neighbours.
"""

from typing import ClassVar

import msgspec

from firearrow.protocol.bodies.naming.registration import RegisterBrokerBody
from firearrow.protocol.bodies.naming.route import GetBrokerMemberGroupBody, KVTable
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class RegisterBrokerAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The addresses of the master; only slaves get them."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class RegisterBroker(Request[RegisterBrokerAnswer], frozen=True, kw_only=True, gc=False):
    """Register a broker with its topics. The body is ``bodies.registration``'s, JSON or compressed."""

    code: ClassVar[RequestCode] = RequestCode.REGISTER_BROKER
    request_body = RegisterBrokerBody
    answer_body = KVTable
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 | None = 0
    zone_name: str | None = msgspec.field(name="__ZONE_NAME", default=None)


class UnregisterBroker(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Remove the registration of a broker."""

    code: ClassVar[RequestCode] = RequestCode.UNREGISTER_BROKER
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


class QueryDataVersionAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """Whether the name server has another edition; its edition is the body."""

    changed: bool


class QueryDataVersion(Request[QueryDataVersionAnswer], frozen=True, kw_only=True, gc=False):
    """Ask whether the name server has this edition of the topics; renews the lease like a heartbeat."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_DATA_VERSION
    request_body = DataVersion
    answer_body = DataVersion
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


class BrokerHeartbeat(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Heartbeat of a broker, to a name server or a controller."""

    code: ClassVar[RequestCode] = RequestCode.BROKER_HEARTBEAT
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None
    epoch: Int32 | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    heartbeat_timeout_mills: int | None = None
    election_priority: Int32 | None = None


class GetBrokerMemberGroup(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The members of a broker name."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_MEMBER_GROUP
    answer_body = GetBrokerMemberGroupBody
    cluster_name: str
    broker_name: str


class NotifyMinBrokerIdChange(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One-way, name server to broker: the lowest live id of the broker name has changed."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE
    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
