"""Looking up single messages and the entries of queues. Java: ``header.QueryMessageRequestHeader`` and neighbours."""

from typing import ClassVar

import msgspec

from firearrow.protocol.bodies.admin.stats import QueryConsumeTimeSpanBody
from firearrow.protocol.bodies.message.query import QueryConsumeQueueBody
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class QueryMessageAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """Store time and physical offset of the newest indexed message."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


class QueryMessage(Request[QueryMessageAnswer], frozen=True, kw_only=True, gc=False):
    """Find messages by a key, or by their unique key."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_MESSAGE
    answer_body = bytes
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    index_type: str | None = None
    last_key: str | None = None
    unique_key_query: bool | None = msgspec.field(name="_UNIQUE_KEY_QUERY", default=None)


class ViewMessageById(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The message at a physical offset."""

    code: ClassVar[RequestCode] = RequestCode.VIEW_MESSAGE_BY_ID
    answer_body = bytes
    topic: str | None = None
    offset: int


class QueryConsumeQueue(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """A range of a consume queue's entries."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_QUEUE
    answer_body = QueryConsumeQueueBody
    topic: str | None = None
    queue_id: Int32 = 0
    index: int = 0
    count: Int32 = 0
    consumer_group: str | None = None


class QueryConsumeTimeSpan(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The range of times that each queue of a topic covers."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_TIME_SPAN
    answer_body = QueryConsumeTimeSpanBody
    topic: str
    group: str
