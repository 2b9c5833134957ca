"""Assignments of queues, and acknowledgements in bulk (5.x).

Java: ``remoting.protocol.body.QueryAssignment*Body``, ``SetMessageRequestModeRequestBody``, ``BatchAck*``.
"""

from enum import StrEnum

import msgspec

from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import Body, always, empty_map
from firearrow.protocol.conversation import Int32, Int64


class MessageRequestMode(StrEnum):
    """The way in which a group fetches messages."""

    PULL = "PULL"
    POP = "POP"


class QueryAssignmentBody(Body, frozen=True, kw_only=True, gc=False):
    """Request of QUERY_ASSIGNMENT. ``message_model`` is a ``heartbeat.MessageModel``."""

    client_id: str | None = None
    consumer_group: str | None = None
    message_model: str | None = None
    strategy_name: str | None = None
    topic: str | None = None


class MessageQueueAssignment(Body, frozen=True, kw_only=True):
    """One queue that a client shall consume, and how. ``mode`` is a ``MessageRequestMode``."""

    attachments: dict[str, str] | None = None
    message_queue: MessageQueue | None = None
    mode: str = always(MessageRequestMode.PULL.value)


class Assignments(Body, frozen=True, kw_only=True):
    """Answer to QUERY_ASSIGNMENT. Java: ``QueryAssignmentResponseBody``."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeBody(Body, frozen=True, kw_only=True, gc=False):
    """The way in which a group shall fetch a topic."""

    consumer_group: str | None = None
    mode: str = always(MessageRequestMode.PULL.value)
    pop_share_queue_num: Int32 = always(0)
    topic: str | None = None


class MessageRequestModeTable(Body, frozen=True, kw_only=True):
    """The way in which groups fetch, by topic and group. Java: ``MessageRequestModeSerializeWrapper``."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeBody]] = empty_map()


class BatchAck(Body, frozen=True, kw_only=True, gc=False):
    """Acknowledgements within one pop of one queue.

    ``bits`` is Java's ``BitSet.toByteArray``: bit ``i`` of byte ``i // 8`` stands for the ``i``-th popped message, and
    trailing zero bytes are absent. ``retry`` is "0" for the topic itself, "1" or "2" for its retry topic v1 or v2.
    """

    bits: bytes | None = msgspec.field(name="b", default=None)
    consumer_group: str | None = msgspec.field(name="c", default=None)
    invisible_time: Int64 = msgspec.field(name="it", default_factory=lambda: 0)
    pop_time: Int64 = msgspec.field(name="pt", default_factory=lambda: 0)
    queue_id: Int32 = msgspec.field(name="q", default_factory=lambda: 0)
    retry: str | None = msgspec.field(name="r", default=None)
    revive_queue_id: Int32 = msgspec.field(name="rq", default_factory=lambda: 0)
    start_offset: Int64 = msgspec.field(name="so", default_factory=lambda: 0)
    topic: str | None = msgspec.field(name="t", default=None)


class BatchAckBody(Body, frozen=True, kw_only=True):
    """Request of BATCH_ACK_MESSAGE."""

    acks: list[BatchAck] | None = None
    broker_name: str | None = None
