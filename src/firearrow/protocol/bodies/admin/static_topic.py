"""Static topics: logical queues that keep their ids while they move between brokers (5.x).

Java: ``remoting.protocol.statictopic``.
"""

from firearrow.protocol.bodies.body import Body, always, empty_map
from firearrow.protocol.conversation import Int32, Int64

GLOBAL_SCOPE = "__global__"


class TopicQueueMappingInfo(Body, frozen=True, kw_only=True):
    """The logical queues of a topic that one broker serves now: logical id to the broker's queue id."""

    bname: str | None = None
    curr_id_map: dict[Int32, Int32] = empty_map()
    dirty: bool = always(False)
    epoch: Int64 = always(0)
    scope: str = always(GLOBAL_SCOPE)
    topic: str | None = None
    total_queues: Int32 = always(0)


class LogicQueueMappingItem(Body, frozen=True, kw_only=True, gc=False):
    """A range of a logical queue that lies on one broker."""

    bname: str | None = None
    end_offset: Int64 = always(-1)
    gen: Int32 = always(0)
    logic_offset: Int64 = always(0)
    queue_id: Int32 = always(0)
    start_offset: Int64 = always(0)
    time_of_end: Int64 = always(-1)
    time_of_start: Int64 = always(-1)


class TopicQueueMappingDetail(Body, frozen=True, kw_only=True):
    """All ranges of the logical queues that one broker hosts or hosted."""

    bname: str | None = None
    curr_id_map: dict[Int32, Int32] = empty_map()
    dirty: bool = always(False)
    epoch: Int64 = always(0)
    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = empty_map()
    scope: str = always(GLOBAL_SCOPE)
    topic: str | None = None
    total_queues: Int32 = always(0)
