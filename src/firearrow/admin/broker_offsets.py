"""The offsets of queues and groups at one broker: read, written, and moved with running members."""

from firearrow.admin.brokers import Brokers, Server
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.group.offset import read_reset_offsets
from firearrow.protocol.requests.group.offset import (
    GetMaxOffset,
    GetMinOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from firearrow.protocol.requests.group.reset import InvokeBrokerToResetOffset


class BrokerOffsets:
    """Offsets at brokers, one broker at a time."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def first(self, at: Server, queue: MessageQueue) -> int:
        """Return the offset of the first message of a queue."""
        request = GetMinOffset(topic=queue.topic, queue_id=queue.queue_id)
        return (await self._brokers.ask(at, request)).answer.offset

    async def end(self, at: Server, queue: MessageQueue) -> int:
        """Return the offset after the last message of a queue."""
        request = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)
        return (await self._brokers.ask(at, request)).answer.offset

    async def at_time(self, at: Server, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message of a queue that was stored at a time or later."""
        request = SearchOffsetByTimestamp(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        return (await self._brokers.ask(at, request)).answer.offset

    async def write(self, at: Server, group: str, queue: MessageQueue, offset: int) -> None:
        """Write the offset of a group without members."""
        request = UpdateConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        await self._brokers.ask(at, request)

    async def reset(
        self, at: Server, group: str, topic: str, timestamp_ms: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Let a broker move the running members of a group to a time; -1 is the end. Return the new offsets."""
        request = InvokeBrokerToResetOffset(group=group, topic=topic, timestamp=timestamp_ms, is_force=force)
        return read_reset_offsets((await self._brokers.ask(at, request)).body).offset_table

    async def reset_queue(self, at: Server, group: str, queue: MessageQueue, offset: int) -> None:
        """Let a broker move the running members of a group to an offset of one queue (5.x)."""
        request = InvokeBrokerToResetOffset(
            group=group, topic=queue.topic, queue_id=queue.queue_id, offset=offset, timestamp=-1, is_force=True
        )
        await self._brokers.ask(at, request)
