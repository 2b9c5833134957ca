"""Acknowledging popped messages, or asking for more time (5.x).

Java: ``header.AckMessageRequestHeader``, ``ChangeInvisibleTimeRequestHeader``. ``extraInfo`` is the message's POP_CK.
"""

from typing import ClassVar

from firearrow.protocol.bodies.pop.pop import BatchAckBody
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class AckMessage(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One popped message is done."""

    code: ClassVar[RequestCode] = RequestCode.ACK_MESSAGE
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: int
    lite_topic: str | None = None


class BatchAckMessage(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Many popped messages are done."""

    code: ClassVar[RequestCode] = RequestCode.BATCH_ACK_MESSAGE
    request_body = BatchAckBody


class ChangeInvisibleTimeAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The time at which the message was hidden again, and the duration."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32


class ChangeMessageInvisibleTime(Request[ChangeInvisibleTimeAnswer], frozen=True, kw_only=True, gc=False):
    """Hide a popped message for another period."""

    code: ClassVar[RequestCode] = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: int
    invisible_time: int
    lite_topic: str | None = None
    suspend: bool = False
