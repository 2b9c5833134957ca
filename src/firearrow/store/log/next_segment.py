"""Prepares the next segment before it is needed.

The file gets its size (and under ``zeroed`` its zeros) in ``firearrow/``, is synced, and only then renamed into
``commitlog/``, so that Apache never sees a segment of the wrong length. Zeros are written off the loop. When the log
needs the segment earlier it creates one in place, and the prepared one is dropped. A failure here is only logged: the
log will get the same error from the disk and report it.
"""

import asyncio
import logging
from typing import Final

from firearrow.errors import DiskError
from firearrow.runtime.disk.door import Disk
from firearrow.store.log.copied_log import CopiedLog
from firearrow.store.log.segments import Segments, sync_names
from firearrow.store.paths import NEXT_SEGMENT, log_path

RETRY_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class NextSegment:
    """Prepares one segment at a time."""

    def __init__(self, disk: Disk, segments: Segments, log: CopiedLog, *, zeroed: bool) -> None:
        self._disk = disk
        self._segments = segments
        self._log = log
        self._zeroed = zeroed
        self._needed = asyncio.Event()
        self._needed.set()
        self.failure: DiskError | None = None
        """The reason why the next segment is missing; None when there is one or it was not tried yet."""
        self._one_at_a_time = asyncio.Lock()
        log.on_roll = self._needed.set

    async def run(self) -> None:
        """Keep one segment ready behind the one in use, until cancelled."""
        size = self._segments.size
        while True:
            await self._needed.wait()
            self._needed.clear()
            async with self._one_at_a_time:
                active = self._log.tail // size * size
                done = [await self.prepare(start) for start in (active, active + size)]
            if not all(done):
                await asyncio.sleep(RETRY_SECONDS)
                self._needed.set()

    async def begin_at(self, offset: int) -> None:
        """Begin an empty log at ``offset``: drop the segments that were prepared for another beginning."""
        async with self._one_at_a_time:
            for segment in list(self._segments):
                await self._segments.remove(segment)
            self._log.begin_at(offset)
            await self._make(offset)
        self._needed.set()

    async def discard_leftover(self) -> None:
        """Remove the incomplete segment of an earlier run."""
        if self._disk.exists(NEXT_SEGMENT):
            await self._disk.unlink(NEXT_SEGMENT)

    async def prepare(self, start: int) -> bool:
        """Create the segment that starts at ``start``, durably, unless it exists; return whether it exists now."""
        if self._segments.at(start) is not None:
            return True
        try:
            await self._make(start)
        except DiskError as error:
            if self.failure is None:
                logger.warning("no segment was prepared: %s", error, extra={"segment": start, "reason": str(error)})
            self.failure = error
            return False
        self.failure = None
        return True

    async def _make(self, start: int) -> None:
        file = self._disk.open(NEXT_SEGMENT, create=True)
        try:
            await file.allocate(self._segments.size, zeroed=self._zeroed)
            await file.sync()
        except DiskError:
            file.close()
            await self.discard_leftover()
            raise
        if self._segments.at(start) is not None:
            file.close()
            await self.discard_leftover()
            return
        self._disk.rename(NEXT_SEGMENT, log_path(start))
        segment = self._segments.add(start, file, named=False)
        await sync_names(self._disk)
        segment.named = True
