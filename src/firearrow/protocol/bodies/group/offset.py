"""Offsets of groups, moved and copied in bulk.

Java: ``remoting.protocol.body.ResetOffsetBody``, ``ResetOffsetBodyForC``, ``GetConsumerStatusBody``,
``ConsumerOffsetSerializeWrapper``, ``QueryCorrectionOffsetBody``; ``store.DelayOffsetSerializeWrapper``.

New offsets are pushed to consumers in two forms: a map keyed by queues, which is not JSON, for Java and Go, and a list
for C++. ``read_reset_offsets`` takes both.
"""

from typing import ClassVar

import msgspec

from firearrow import fastjson
from firearrow.errors import BadBody
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.body import Body, always, empty_map
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.conversation import Int32, Int64


class ResetOffsetBody(Body, frozen=True, kw_only=True):
    """The offsets to go on from, by queue."""

    keyed_by_queues: ClassVar[bool] = True
    offset_table: dict[MessageQueue, Int64] = empty_map()


class QueueOffsetForC(Body, frozen=True, kw_only=True, gc=False):
    """One queue and the offset to go on from. Java: ``MessageQueueForC``."""

    broker_name: str | None = None
    offset: Int64 = always(0)
    queue_id: Int32 = always(0)
    topic: str | None = None


class ResetOffsetBodyForC(Body, frozen=True, kw_only=True):
    """The offsets to go on from, as the C++ client reads them."""

    offset_table: list[QueueOffsetForC] | None = None


def read_reset_offsets(data: bytes) -> ResetOffsetBody:
    """Read either form."""
    try:
        return fastjson.decode(data, ResetOffsetBody)
    except BadBody:
        listed = fastjson.decode(data, ResetOffsetBodyForC).offset_table or []
    return ResetOffsetBody(
        offset_table={
            MessageQueue(item.topic or "", item.broker_name or "", item.queue_id): item.offset for item in listed
        }
    )


class GetConsumerStatusBody(Body, frozen=True, kw_only=True):
    """The progress of clients: one client's own queues, or a broker's collection by client id."""

    keyed_by_queues: ClassVar[bool] = True
    consumer_table: dict[str, dict[MessageQueue, Int64]] = empty_map()
    message_queue_table: dict[MessageQueue, Int64] = empty_map()


class ConsumerOffsetTable(Body, frozen=True, kw_only=True):
    """All offsets of a broker by ``topic@group`` and queue id. Java: ``ConsumerOffsetSerializeWrapper``.

    ``firearrowMoved``: offsets to which operators moved groups, and which the consumers have not taken yet.
    """

    data_version: DataVersion | None = None
    moved: dict[str, dict[Int32, Int64]] | None = msgspec.field(name="firearrowMoved", default=None)
    offset_table: dict[str, dict[Int32, Int64]] = empty_map()


class DelayOffsetTable(Body, frozen=True, kw_only=True):
    """The offset of each delay level. Java: ``DelayOffsetSerializeWrapper``."""

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = empty_map()


class QueryCorrectionOffsetBody(Body, frozen=True, kw_only=True):
    """Offsets by queue id."""

    correction_offsets: dict[Int32, Int64] = empty_map()
