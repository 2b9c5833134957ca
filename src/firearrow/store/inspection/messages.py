"""The messages of a store one by one, for `pending`: of an open store, and of a directory."""

from collections.abc import AsyncIterator
from typing import Final

from firearrow.errors import BadRecord, OffsetNotStored
from firearrow.record.decode import RecordHead, heads, peek
from firearrow.record.layout import Buffer
from firearrow.record.properties import decode_properties
from firearrow.store.inspection.directory import QueueFileView, StoreView
from firearrow.store.inspection.pending import PendingMessage
from firearrow.store.queue.consume_queue import is_filler
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.store import Store

_AT_ONCE: Final = 64
_BYTES_AT_ONCE: Final = 4 << 20


def _kept(head: RecordHead, record: Buffer) -> PendingMessage:
    return PendingMessage(
        head.queue_offset, head.physical_offset, head.body(record), decode_properties(head.properties(record))
    )


class OpenMessages:
    """The messages of an open store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def log_start(self) -> int:
        """The physical offset at which the log begins."""
        return self._store.log.min_offset

    async def topics(self) -> list[str]:
        """The topics that have queues."""
        return self._store.queues.topics()

    async def queues(self, topic: str) -> list[int]:
        """The queues of a topic that ever had a message."""
        return [queue.queue_id for queue in self._store.queues.of_topic(topic) if queue.max_offset]

    async def after(self, topic: str, queue_id: int, offset: int) -> AsyncIterator[PendingMessage]:
        """The messages of a queue from an offset on."""
        while offset < self._store.max_offset(topic, queue_id):
            pulled = await self._store.read(topic, queue_id, ReadRequest(offset, _AT_ONCE, _BYTES_AT_ONCE))
            for buffer in pulled.buffers:
                for head in heads(buffer):
                    yield _kept(head, buffer)
            offset = max(pulled.next_offset, offset + 1)

    async def at(self, physical: int, size: int) -> PendingMessage | None:
        """The message at a place in the log, if there is one."""
        try:
            record = await self._store.lookups.by_physical(physical)
        except OffsetNotStored:
            return None
        return _kept(peek(record), record) if len(record) == size else None


class SeenMessages:
    """The messages of a directory that is open read-only."""

    def __init__(self, view: StoreView) -> None:
        self._view = view

    @property
    def log_start(self) -> int:
        """The physical offset at which the log begins."""
        return self._view.segments.min_offset

    async def topics(self) -> list[str]:
        """The topics that have queues."""
        return await self._view.topics()

    async def queues(self, topic: str) -> list[int]:
        """The queues of a topic that ever had a message."""
        return [queue.queue_id for queue in await self._view.queues(topic) if queue.end]

    async def after(self, topic: str, queue_id: int, offset: int) -> AsyncIterator[PendingMessage]:
        """The messages of a queue from an offset on."""
        for queue in await self._view.queues(topic):
            if queue.queue_id == queue_id:
                async for message in self._of(queue, max(offset, queue.start)):
                    yield message

    async def _of(self, queue: QueueFileView, offset: int) -> AsyncIterator[PendingMessage]:
        while offset < queue.end:
            entries = await self._view.entries(queue, offset, min(_AT_ONCE, queue.end - offset))
            for physical, size, _ in entries:
                message = None if is_filler(size) else await self.at(physical, size)
                if message is not None and message.queue_offset == offset:
                    yield message
                offset += 1
            if not entries:
                return

    async def at(self, physical: int, size: int) -> PendingMessage | None:
        """The message at a place in the log, if there is one."""
        try:
            record = self._view.log_bytes(physical, size)
            head = peek(record)
        except (OffsetNotStored, BadRecord):
            return None
        return _kept(head, record) if head.physical_offset == physical else None
