"""Requests that a broker sends or forwards to its clients. Java: ``CLI/impl/ClientRemotingProcessor``.

Other requests to clients are in ``heartbeat`` (40), ``transaction`` (39), ``reset`` (220, 221).
"""

from typing import ClassVar

from firearrow.protocol.bodies.group.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Int32, Request


class GetConsumerRunningInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Administrator to broker, broker to consumer: return your running info."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_RUNNING_INFO
    answer_body = ConsumerRunningInfo
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectly(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Administrator to broker, broker to consumer with the record: consume this now."""

    code: ClassVar[RequestCode] = RequestCode.CONSUME_MESSAGE_DIRECTLY
    request_body = bytes
    answer_body = ConsumeMessageDirectlyResult
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class PushReplyMessageToClient(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Broker to producer: the answer to your message."""

    code: ClassVar[RequestCode] = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    request_body = bytes
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: int
