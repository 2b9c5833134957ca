"""Clients joining, leaving, and finding each other. Java: ``header.HeartbeatRequestHeader`` and neighbours."""

from typing import ClassVar

import msgspec

from firearrow.protocol.bodies.group.heartbeat import CheckClientBody, ConsumerIdList, HeartbeatData
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Request


class HeartbeatAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """Whether the short form is understood, and whether subscriptions changed (5.x)."""

    is_support_heart_beat_v2: bool | None = msgspec.field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = msgspec.field(name="IS_SUB_CHANGE", default=None)


class HeartBeat(Request[HeartbeatAnswer], frozen=True, kw_only=True, gc=False):
    """A client is alive, with these groups."""

    code: ClassVar[RequestCode] = RequestCode.HEART_BEAT
    request_body = HeartbeatData


class UnregisterClient(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """A client leaves a producer or a consumer group."""

    code: ClassVar[RequestCode] = RequestCode.UNREGISTER_CLIENT
    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroup(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The client ids of a group's members."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    answer_body = ConsumerIdList
    consumer_group: str


class NotifyConsumerIdsChanged(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One-way, broker to consumer: the members of the group changed."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    consumer_group: str


class CheckClientConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Check whether the filter expression of a subscription compiles."""

    code: ClassVar[RequestCode] = RequestCode.CHECK_CLIENT_CONFIG
    request_body = CheckClientBody
