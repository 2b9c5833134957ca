"""Popping messages: the broker distributes them and hides each for a time (5.x).

Java: ``header.PopMessageRequestHeader`` and neighbours, ``header.ExtraInfoUtil`` for the three texts of the answer.
"""

from typing import ClassVar

from firearrow.protocol.bodies.pop.pop import (
    Assignments,
    MessageRequestModeTable,
    QueryAssignmentBody,
    SetMessageRequestModeBody,
)
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class PopAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The hidden messages, the time at which they were hidden, and the duration."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PopMessage(Request[PopAnswer], frozen=True, kw_only=True, gc=False):
    """Get and hide messages of a topic, or wait for some. Queue -1 is any."""

    code: ClassVar[RequestCode] = RequestCode.POP_MESSAGE
    answer_body = bytes
    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: int
    poll_time: int
    born_time: int
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PeekMessage(Request[PopAnswer], frozen=True, kw_only=True, gc=False):
    """Look at messages without hiding them."""

    code: ClassVar[RequestCode] = RequestCode.PEEK_MESSAGE
    answer_body = bytes
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


class NotificationAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """Whether there are messages to pop."""

    has_msg: bool
    polling_full: bool = False


class Notification(Request[NotificationAnswer], frozen=True, kw_only=True, gc=False):
    """Wait until there are messages to pop."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFICATION
    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: int
    born_time: int
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class PollingInfoAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The number of waiting pops."""

    polling_num: Int32


class PollingInfo(Request[PollingInfoAnswer], frozen=True, kw_only=True, gc=False):
    """The number of pops that wait for a queue."""

    code: ClassVar[RequestCode] = RequestCode.POLLING_INFO
    consumer_group: str
    topic: str
    queue_id: Int32


class PopRollback(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Move the records of popped messages from one kind of store to the other."""

    code: ClassVar[RequestCode] = RequestCode.POP_ROLLBACK


class QueryAssignment(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The queues that this client shall consume, and by pull or pop."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_ASSIGNMENT
    request_body = QueryAssignmentBody
    answer_body = Assignments


class SetMessageRequestMode(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Choose how a group fetches a topic."""

    code: ClassVar[RequestCode] = RequestCode.SET_MESSAGE_REQUEST_MODE
    request_body = SetMessageRequestModeBody


class GetAllMessageRequestMode(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The way in which every group fetches; asked by slaves."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
    answer_body = MessageRequestModeTable
