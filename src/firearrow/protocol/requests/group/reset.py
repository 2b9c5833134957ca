"""Moving the offsets of whole groups. Java: ``header.ResetOffsetRequestHeader`` and neighbours."""

from typing import ClassVar

from firearrow.protocol.bodies.group.offset import GetConsumerStatusBody, QueryCorrectionOffsetBody, ResetOffsetBody
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Int32, Request


class ResetOffset(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The group and the time or offset that its offsets are moved to."""

    group: str
    topic: str
    queue_id: Int32 = -1
    offset: int | None = None
    timestamp: int
    is_force: bool


class ResetConsumerClientOffset(ResetOffset, frozen=True, kw_only=True, gc=False):
    """One-way, broker to consumer: go on from these offsets. ``bodies.offset`` has both forms of the body."""

    code: ClassVar[RequestCode] = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    request_body = ResetOffsetBody


class GetConsumerStatus(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The group and topic whose offsets are asked for."""

    topic: str
    group: str
    client_addr: str | None = None


class GetConsumerStatusFromClient(GetConsumerStatus, frozen=True, kw_only=True, gc=False):
    """Broker to consumer: return your offsets."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    answer_body = GetConsumerStatusBody


class InvokeBrokerToResetOffset(ResetOffset, frozen=True, kw_only=True, gc=False):
    """Move a group to a time, or one queue to an offset."""

    code: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    answer_body = ResetOffsetBody


class InvokeBrokerToGetConsumerStatus(GetConsumerStatus, frozen=True, kw_only=True, gc=False):
    """The offsets of the consumers of a group."""

    code: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    answer_body = GetConsumerStatusBody


class CloneGroupOffset(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Give one group the offsets of another."""

    code: ClassVar[RequestCode] = RequestCode.CLONE_GROUP_OFFSET
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffset(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The lowest offsets of other groups."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CORRECTION_OFFSET
    answer_body = QueryCorrectionOffsetBody
    filter_groups: str | None = None
    compare_group: str
    topic: str
