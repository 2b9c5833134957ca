"""Dispatch of a copied log: reads records behind the copy and passes their rows to the views.

A copy is written without taking records apart, so that a slave far behind gets the log as fast as disk and network
give it; the views follow in turns of their own, and reach the end of the log soon after the copy. Nothing waits in
memory: after a crash the log is dispatched from where the views are durable, as ever. Records are checked here; a bad
one fences the log, so that nothing more is acknowledged, and the next start judges it as recovery judges every record.

A topic that was deleted at the master and created again begins at offset 0 again: its queue is emptied here first, as
recovery does. Java: ``DefaultMessageStore.ReputMessageService``.
"""

import asyncio
import struct
from functools import lru_cache
from typing import Final

from firearrow.errors import StoreFenced
from firearrow.model.flags import HOST_V6_MASK, PREPARED
from firearrow.record.decode import peek
from firearrow.record.layout import BLANK_MAGIC, HEAD_SIZE, MAGIC_V1
from firearrow.runtime.turn import breathe
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.log.copied_log import check_records, whole_records
from firearrow.store.log.segments import Segments
from firearrow.store.placement import Placed
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.recovery.scan import row_of
from firearrow.store.views.views import Views

PIECE_BYTES: Final = 256 << 10
"""Bytes of the log that are dispatched in one turn."""
GATHER_S: Final = 0.005
"""Seconds in which rows of a log that grows gather, so that they are dispatched together."""
LONGEST_REST_S: Final = 0.02
"""Seconds for which the dispatch waits at most while the loop is busy with the copy."""
TURNS: Final = 3
"""Turns of the loop in which bytes that are there come to the log."""

# size, magic, queueId, queueOffset, physicalOffset, sysFlag, storeTimestamp, bodyLength
_unpack_row = struct.Struct(">iI4xi4xqqi16xq20xi").unpack_from


class CopyDispatch:
    """Dispatches a log that another broker wrote."""

    def __init__(self, log: CommitLog, segments: Segments, views: Views) -> None:
        self._log = log
        self._segments = segments
        self._views = views
        self._at = log.tail
        self._seen = -1
        self._advanced = asyncio.Event()

    async def run(self) -> None:
        """Follow the copy until cancelled or until the log is fenced."""
        while self._log.fenced is None:
            if self._at < self._log.kept:
                await self._take_turn()
                continue
            try:
                await self._log.reached(self._at + 1, self._log.kept_at)
            except StoreFenced:
                return

    async def reached(self, offset: int) -> None:
        """Wait until every record below ``offset`` has been dispatched; for ever if the log is fenced before."""
        while self._at < offset:
            self._advanced.clear()
            await self._advanced.wait()

    async def _take_turn(self) -> None:
        """Dispatch a piece of the log, after a pause in which the log is copied and acknowledged."""
        if self._log.kept - self._at < PIECE_BYTES:
            is_growing, self._seen = self._log.tail != self._seen, self._log.tail
            await (asyncio.sleep(GATHER_S) if is_growing else breathe())
        else:
            await self._rest()
        await self._step()
        self._advanced.set()
        await breathe()

    async def _rest(self) -> None:
        """Let a copy that is far behind go first while it grows in every turn of the loop, but not for ever."""
        loop = asyncio.get_running_loop()
        deadline, tail = loop.time() + LONGEST_REST_S, -1
        while self._log.tail != tail and loop.time() < deadline:
            tail = self._log.tail
            for _ in range(TURNS):
                await breathe()

    async def _step(self) -> None:
        """Dispatch a piece of the log: at least one record."""
        segment = self._segments.at(self._at)
        if segment is None:  # deleted, or the copy began at a later file
            self._at = max(self._segments.min_offset, self._at - self._at % self._segments.size + self._segments.size)
            return
        left, size, end, piece = min(segment.end, self._log.kept) - self._at, PIECE_BYTES, 0, b""
        while not end:
            piece = await segment.file.read(self._at - segment.start, min(size, left))
            end, size = whole_records(piece, 0, self._at, segment.end)
        check_records(piece[:end])
        await self._dispatch(self._rows_of(piece[:end]))
        self._at += end

    def _rows_of(self, piece: bytes) -> list[Placed]:
        """The rows of whole records, up to a filler."""
        rows: list[Placed] = []
        at, length, tail_of = 0, len(piece), self._views.queues.tail_of
        while length - at >= HEAD_SIZE:
            size, magic, queue_id, queue_offset, physical, sys_flag, store_ms, body_length = _unpack_row(piece, at)
            if magic == BLANK_MAGIC:
                break
            after = at + size
            if magic == MAGIC_V1 and not sys_flag & HOST_V6_MASK:
                topic_at = at + HEAD_SIZE + body_length
                properties_at = topic_at + 1 + piece[topic_at]
                tail = tail_of(_text(piece[topic_at + 1 : properties_at]), queue_id)
                properties = piece[properties_at + 2 : after]
                rows.append((tail, physical, size, queue_offset, store_ms, sys_flag, properties))
            else:
                rows.append(row_of(piece, peek(piece, at), tail_of))
            at = after
        return rows

    async def _dispatch(self, rows: list[Placed]) -> None:
        """Pass rows to the views; before the first row of a topic that was created again its queue is emptied."""
        dispatch, queues, start = self._views.dispatch, self._views.queues, 0
        for number, (tail, physical, _, queue_offset, _, sys_flag, _) in enumerate(rows):
            if queue_offset or sys_flag & PREPARED:
                continue
            dispatch(rows[start:number])
            start = number
            queue = queues.tail_of(tail.topic, tail.queue_id)
            if queue.max_offset:
                await self._views.begin_anew(queue, physical)
            fresh = queues.tail_of(tail.topic, tail.queue_id)
            if fresh is not tail:  # emptied here, or deleted since the rows were made
                rows[number:] = [(fresh, *row[1:]) if row[0] is tail else row for row in rows[number:]]
        dispatch(rows[start:])
        for tail in {row[0] for row in rows}:
            assert isinstance(tail, ConsumeQueue)
            tail.next_offset = tail.max_offset


@lru_cache(4096)
def _text(topic: bytes) -> str:
    return topic.decode()
