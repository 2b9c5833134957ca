"""The end of a target queue, read where the answer to a send does not tell which offsets hold the copies.

An answer has the offset of the first message of a batch. The others lie behind it if the batch was stored by this very
request. They may not if it was sent before: by a mirror that was killed before it saved its mark, or by an attempt
whose answer was lost. A broker of ours answers a batch that it has with the place of its first message, and what is
between may be messages of others; Apache's broker stores it again, and the first copies are noted nowhere. Then the
queue is read from the last noted copy on, and copies are told by their identity.
"""

from typing import Final

from firearrow.client.consumer.pull_consumer import LARGE_BYTES, LARGE_MESSAGES, PullConsumer
from firearrow.errors import NotNow
from firearrow.mirror.copies import messages_of, original_of
from firearrow.mirror.marks import QueueMark

MOST_LOOKS: Final = 10
"""A message is answered a moment before it can be read. After so many looks the map goes without these copies."""


class TargetTail:
    """Notes copies at the end of one target queue in its mark."""

    def __init__(self, mark: QueueMark, source: str, reader: PullConsumer) -> None:
        self._mark = mark
        self._source = source
        self._reader = reader
        self._floor = 0
        """Without a noted copy: where the queue ended before the first one. What lies before it stays unknown."""
        self._is_sure = False
        self._found = 0
        """The source offset behind the last copy that was found by reading."""
        self._looks = 0

    async def begin(self) -> None:
        """Look where the queue ends, if nothing is noted of it. Save the mark before the first copy is sent."""
        mark = self._mark
        if mark.map.runs:
            return
        if mark.floor is None:
            bounds = (await self._reader.bounds(mark.target.topic)).get(mark.target)
            mark.floor, mark.is_dirty, self._is_sure = 0 if bounds is None else bounds.end, True, True
        self._floor = mark.floor

    async def tells(self, first: int, offsets: tuple[int, ...], *, is_first_try: bool) -> bool:
        """Whether the copies of these source offsets are noted, or cannot be; if not, the answer ``first`` is exact."""
        end = max(self._floor, self._mark.map.target_end)
        if self._is_sure and is_first_try and first >= end:
            return False
        if first < self._floor or offsets[-1] < self._found:
            return True
        if not await self._read(end):
            return False
        if offsets[-1] >= self._found and self._looks < MOST_LOOKS:
            self._looks += 1
            raise NotNow(f"the copies of offsets {offsets[0]} to {offsets[-1]} cannot be read at the target yet")
        self._is_sure, self._looks = True, 0
        return True

    async def _read(self, begin: int) -> bool:
        """Note the copies from an offset on; False if the queue ends before it: it has lost its end."""
        mark = self._mark
        while True:
            pulled = await self._reader.pull_bytes(
                mark.target, begin, max_messages=LARGE_MESSAGES, max_bytes=LARGE_BYTES, wait_ms=0
            )
            if pulled.max_offset < begin:
                return False
            for message in messages_of(pulled):
                original = original_of(message, mark.source, self._source)
                if original is not None and message.queue_offset >= begin:
                    mark.map.note(original.offset, message.queue_offset)
                    mark.is_dirty = True
                    self._found = max(self._found, original.offset + 1)
            if pulled.next_offset >= pulled.max_offset or pulled.next_offset <= begin:
                return True
            begin = pulled.next_offset
