"""The scrub: reads old parts of the log again, slowly, and reports records that have rotted.

A record that nobody reads could rot unnoticed until the last good copy is deleted. A pass goes from the log's start to
the flushed offset, then begins again. A bad record is treated as by a cold read: reported as damage, copied to
quarantine, skipped. When a read fails, or the quarantine has no space, that is logged and the next file is scrubbed.
"""

import asyncio
import logging
from typing import Annotated

from msgspec import Meta, Struct

from firearrow.errors import DiskError
from firearrow.runtime.turn import rest
from firearrow.store.log.block_sums import BlockSums
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.recovery.rescan import PIECE_BESIDE_OTHERS, pieces_again

logger = logging.getLogger(__name__)


class ScrubConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The speed of the scrub."""

    scrub_bytes_per_second: Annotated[
        int, Meta(ge=0, le=1 << 34, description="Bytes of the log checked again each second; 0 checks none.")
    ] = 4 << 20


class Scrub:
    """Checks the log piece by piece, over and over."""

    def __init__(self, log: CommitLog, opened: OpenedLog, config: ScrubConfig, sums: BlockSums) -> None:
        self.position = opened.segments.min_offset
        """The start of the next piece: always the start of a record."""
        self.scrubbed_bytes = 0
        self.passes = 0
        self._log = log
        self._opened = opened
        self._sums = sums
        self._rate = config.scrub_bytes_per_second

    async def run(self) -> None:
        """Check piece after piece at the configured rate, until cancelled."""
        while self._rate:
            try:
                done = await self.step()
            except DiskError as error:
                extra = {"at": self.position, "reason": str(error)}
                logger.warning("the log at %d could not be scrubbed: %s", self.position, error, extra=extra)
                size = self._opened.segments.size
                done, self.position = 0, self.position - self.position % size + size
            await rest()
            await asyncio.sleep(max(done / self._rate, 0.01) if done else 1.0)

    async def step(self) -> int:
        """Check about a piece; return its number of bytes. At the end, begin again at the log's start."""
        opened, end = self._opened, self._log.flushed
        start = self.position = max(self.position, self._log.min_offset)
        if start >= end:
            self.passes += 1
            self.position = self._log.min_offset
            return 0
        self.position = await opened.scanner.untouched(start, end, PIECE_BESIDE_OTHERS)
        if self.position == start:
            await self._look_closer(start, end)
        else:
            await self._sums.were_checked(start, self.position)
        await opened.damage.keep(opened.segments)
        done = self.position - start
        self.scrubbed_bytes += done
        return done

    async def _look_closer(self, start: int, end: int) -> None:
        opened = self._opened
        async for _, heads in pieces_again(opened.scanner, opened.damage, start, end, PIECE_BESIDE_OTHERS):
            last = heads[-1]
            self.position = last.physical_offset + last.size
            return
        self.position = end
