"""Lite topics: very many small topics under one parent (5.5). Java: ``header.*Lite*RequestHeader``."""

from typing import ClassVar

from firearrow.protocol.bodies.pop.lite import (
    BrokerLiteInfo,
    LiteClientInfo,
    LiteGroupInfo,
    LiteSubscriptionCtlBody,
    LiteTopicInfo,
    ParentTopicInfo,
)
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class PopLiteAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The hidden messages, the time at which they were hidden, and the duration."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PopLiteMessage(Request[PopLiteAnswer], frozen=True, kw_only=True, gc=False):
    """Get and hide messages of the lite topics that a client subscribes to."""

    code: ClassVar[RequestCode] = RequestCode.POP_LITE_MESSAGE
    answer_body = bytes
    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: Int32
    invisible_time: int
    poll_time: int
    born_time: int
    attempt_id: str | None = None


class LiteSubscriptionCtl(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Change which lite topics clients subscribe to."""

    code: ClassVar[RequestCode] = RequestCode.LITE_SUBSCRIPTION_CTL
    request_body = LiteSubscriptionCtlBody


class NotifyUnsubscribeLite(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Broker to client: you no longer subscribe to this lite topic."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFY_UNSUBSCRIBE_LITE
    lite_topic: str
    consumer_group: str
    client_id: str


class GetBrokerLiteInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The number of lite topics of a broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_LITE_INFO
    answer_body = BrokerLiteInfo


class GetParentTopicInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The lite topics under one parent."""

    code: ClassVar[RequestCode] = RequestCode.GET_PARENT_TOPIC_INFO
    answer_body = ParentTopicInfo
    topic: str


class GetLiteTopicInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One lite topic."""

    code: ClassVar[RequestCode] = RequestCode.GET_LITE_TOPIC_INFO
    answer_body = LiteTopicInfo
    parent_topic: str | None = None
    lite_topic: str | None = None


class GetLiteClientInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The lite topics of one client."""

    code: ClassVar[RequestCode] = RequestCode.GET_LITE_CLIENT_INFO
    answer_body = LiteClientInfo
    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: Int32 = 1000


class GetLiteGroupInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The lag of a group in its lite topics."""

    code: ClassVar[RequestCode] = RequestCode.GET_LITE_GROUP_INFO
    answer_body = LiteGroupInfo
    group: str
    lite_topic: str | None = None
    top_k: Int32 = 0


class TriggerLiteDispatch(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Look again for messages for a group, or for one client of the group."""

    code: ClassVar[RequestCode] = RequestCode.TRIGGER_LITE_DISPATCH
    group: str
    client_id: str | None = None
