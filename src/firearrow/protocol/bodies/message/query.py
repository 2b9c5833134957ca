"""Entries of a consume queue. Java: ``remoting.protocol.body.QueryConsumeQueueResponseBody``."""

from firearrow.protocol.bodies.body import Body, always
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.protocol.conversation import Int32, Int64


class ConsumeQueueData(Body, frozen=True, kw_only=True, gc=False):
    """One entry of a consume queue, and whether the group's filter lets it pass."""

    bit_map: str | None = None
    eval: bool = always(False)
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64 = always(0)
    physic_size: Int32 = always(0)
    tags_code: Int64 = always(0)


class QueryConsumeQueueBody(Body, frozen=True, kw_only=True):
    """A range of a consume queue's entries."""

    filter_data: str | None = None
    max_queue_index: Int64 = always(0)
    min_queue_index: Int64 = always(0)
    queue_data: list[ConsumeQueueData] | None = None
    subscription_data: SubscriptionData | None = None
