"""Sending messages, sending them back for redelivery, and recalling timed ones.

Java: ``header.SendMessageRequestHeader``, ``SendMessageRequestHeaderV2`` and neighbours. Only ``batch`` says
whether a body is a batch: C++ sends batches as SEND_MESSAGE_V2, Java as SEND_BATCH_MESSAGE.
"""

from typing import ClassVar

import msgspec

from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class SendAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The place of the stored message; ``msg_id`` is a comma-separated list for a batch.

    Refusals carry the last two fields as well.
    """

    msg_id: str
    queue_id: Int32
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = msgspec.field(name="MSG_REGION", default=None)
    trace_on: bool | None = msgspec.field(name="TRACE_ON", default=None)


class Send(Request[SendAnswer], frozen=True, kw_only=True, gc=False):
    """The fields of a send by their full names."""

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
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


class SendMessage(Send, frozen=True, kw_only=True, gc=False):
    """Store a message."""

    code: ClassVar[RequestCode] = RequestCode.SEND_MESSAGE
    request_body = bytes


class ShortSend(Request[SendAnswer], frozen=True, kw_only=True, gc=False):
    """The fields of a send by one letter each."""

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_topic_queue_nums: Int32 = msgspec.field(name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(name="f")
    born_timestamp: int = msgspec.field(name="g")
    flag: Int32 = msgspec.field(name="h")
    properties: str | None = msgspec.field(name="i", default=None)
    reconsume_times: Int32 | None = msgspec.field(name="j", default=None)
    unit_mode: bool | None = msgspec.field(name="k", default=None)
    max_reconsume_times: Int32 | None = msgspec.field(name="l", default=None)
    batch: bool | None = msgspec.field(name="m", default=None)
    broker_name: str | None = msgspec.field(name="n", default=None)


class SendMessageV2(ShortSend, frozen=True, kw_only=True, gc=False):
    """Store a message, with short names: what most clients send."""

    code: ClassVar[RequestCode] = RequestCode.SEND_MESSAGE_V2
    request_body = bytes


class SendBatchMessage(ShortSend, frozen=True, kw_only=True, gc=False):
    """Store a batch of messages of one topic."""

    code: ClassVar[RequestCode] = RequestCode.SEND_BATCH_MESSAGE
    request_body = bytes


class SendReplyMessage(Send, frozen=True, kw_only=True, gc=False):
    """Answer a message: hand this one to the client that asked."""

    code: ClassVar[RequestCode] = RequestCode.SEND_REPLY_MESSAGE
    request_body = bytes


class SendReplyMessageV2(ShortSend, frozen=True, kw_only=True, gc=False):
    """Answer a message, with short names."""

    code: ClassVar[RequestCode] = RequestCode.SEND_REPLY_MESSAGE_V2
    request_body = bytes


class ConsumerSendMsgBack(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Deliver a message again later. ``offset`` is its physical offset."""

    code: ClassVar[RequestCode] = RequestCode.CONSUMER_SEND_MSG_BACK
    offset: int
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class RecallMessageAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The id of the message that will not be delivered."""

    msg_id: str
    msg_region: str | None = msgspec.field(name="MSG_REGION", default=None)


class RecallMessage(Request[RecallMessageAnswer], frozen=True, kw_only=True, gc=False):
    """Recall a timed message that is not due yet."""

    code: ClassVar[RequestCode] = RequestCode.RECALL_MESSAGE
    producer_group: str | None = None
    topic: str
    recall_handle: str
