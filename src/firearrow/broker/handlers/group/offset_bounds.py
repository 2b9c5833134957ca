"""The offsets that a broker keeps: of queues that exist, in groups with a legal name, and at most so many in all."""

from collections.abc import Iterable, Mapping

from firearrow.broker.tables.offsets import OffsetTable
from firearrow.model.names import group_fault
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.store.store import Store


class OffsetBounds:
    """Refuses offsets that would be kept for nobody, and one more when there are too many."""

    def __init__(self, store: Store, offsets: OffsetTable) -> None:
        self._store = store
        self._offsets = offsets

    def check_queue(self, topic: str, config: TopicConfig, queue_id: int) -> None:
        """Refuse a queue that the topic has neither now nor from a time when it had more queues."""
        queues = max(config.read_queue_nums, config.write_queue_nums)
        if not 0 <= queue_id < queues and self._store.queues.find(topic, queue_id) is None:
            remark = f"queueId[{queue_id}] is illegal: topic {topic} has {queues} queues here; ask for its route again"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)

    def check_room(self, group: str, topic: str, queue_ids: Iterable[int]) -> None:
        """Refuse offsets of these queues when there is no room for those among them that are new."""
        if not self._offsets.has_room(group, topic, *queue_ids):
            raise self._full()

    def check_room_of_all(self, group: str, new: Mapping[str, int]) -> None:
        """Refuse new offsets, counted by topic in the order in which they come, when there is no room for the last."""
        if not self._offsets.has_room_for_all(group, new):
            raise self._full()

    def _full(self) -> Refused:
        remark = f"there are {len(self._offsets)} offsets and no other is kept: delete groups that nobody uses, or "
        return Refused(ResponseCode.SYSTEM_BUSY, remark + "raise maxConsumerOffsets")

    def check_group(self, group: str) -> None:
        """Refuse a group with an illegal name."""
        if fault := group_fault(group):
            raise Refused(ResponseCode.INVALID_PARAMETER, fault)
