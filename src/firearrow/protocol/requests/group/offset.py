"""Offsets: of groups, and of queues by position or time. Java: ``header.*Offset*Header``."""

from enum import StrEnum
from typing import ClassVar

from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request


class BoundaryType(StrEnum):
    """One of the messages around a time: the first not before it, or the last not after it."""

    LOWER = "lower"
    UPPER = "upper"


class OffsetAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """An offset."""

    offset: int


class QueryConsumerOffset(Request[OffsetAnswer], frozen=True, kw_only=True, gc=False):
    """The offset of a group in a queue. QUERY_NOT_FOUND when the group has none."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUMER_OFFSET
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Store the offset of a group in a queue; usually one-way."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_CONSUMER_OFFSET
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: int


class SearchOffsetByTimestamp(Request[OffsetAnswer], frozen=True, kw_only=True, gc=False):
    """The offset in a queue at a time."""

    code: ClassVar[RequestCode] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    topic: str
    lite_topic: str | None = None
    queue_id: Int32
    timestamp: int
    boundary_type: BoundaryType | None = None


class GetMaxOffset(Request[OffsetAnswer], frozen=True, kw_only=True, gc=False):
    """One past the last message of a queue."""

    code: ClassVar[RequestCode] = RequestCode.GET_MAX_OFFSET
    topic: str
    queue_id: Int32
    committed: bool = True


class GetMinOffset(Request[OffsetAnswer], frozen=True, kw_only=True, gc=False):
    """The first message of a queue."""

    code: ClassVar[RequestCode] = RequestCode.GET_MIN_OFFSET
    topic: str
    queue_id: Int32


class EarliestStoretimeAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The store time of the first message, -1 if there is none."""

    timestamp: int


class GetEarliestMsgStoretime(Request[EarliestStoretimeAnswer], frozen=True, kw_only=True, gc=False):
    """The store time of the first message of a queue."""

    code: ClassVar[RequestCode] = RequestCode.GET_EARLIEST_MSG_STORETIME
    topic: str
    queue_id: Int32
