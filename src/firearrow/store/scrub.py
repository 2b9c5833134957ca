"""Reads old parts of the log again, slowly, and reports what rotted since it was written.

A record that nobody reads rots unseen until the last good copy is gone. One pass goes from the log's start to what is
flushed; the next begins where it ended, at the start again. What is found is treated as by a cold read: reported as
damage, kept in quarantine, passed over. A disk that fails a read, or has no space for the quarantine, stops nothing
else: the failure is logged, and the next file is looked at.
"""

import asyncio
import logging
from typing import Annotated

from msgspec import Meta, Struct

from firearrow.errors import DiskError
from firearrow.store.commitlog import CommitLog
from firearrow.store.opening import OpenedLog
from firearrow.store.rescan import PIECE_BESIDE_OTHERS, pieces_again

logger = logging.getLogger(__name__)


class ScrubConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """How eagerly the log is read again."""

    scrub_bytes_per_second: Annotated[
        int, Meta(ge=0, le=1 << 34, description="Bytes of the log checked again each second; 0 checks none.")
    ] = 4 << 20


class Scrub:
    """One reader that goes round and round."""

    def __init__(self, log: CommitLog, opened: OpenedLog, config: ScrubConfig) -> None:
        self.position = opened.segments.min_offset
        """Where the next piece begins: always the start of a record."""
        self.scrubbed_bytes = 0
        self.passes = 0
        self._log = log
        self._opened = opened
        self._rate = config.scrub_bytes_per_second

    @property
    def bad_ranges(self) -> int:
        """How many bad ranges are known."""
        return len(self._opened.damage)

    async def run(self) -> None:
        """Check a piece after the other at the given rate, until cancelled."""
        while self._rate:
            try:
                done = await self.step()
            except DiskError as error:
                logger.warning("a part of the log was not scrubbed", extra={"at": self.position, "reason": str(error)})
                size = self._opened.segments.size
                done, self.position = 0, self.position - self.position % size + size
            await asyncio.sleep(max(done / self._rate, 0.01) if done else 1.0)

    async def step(self) -> int:
        """Check about a piece; return how many bytes. At the end, go back to the start."""
        opened, end = self._opened, self._log.flushed
        start = self.position = max(self.position, self._log.min_offset)
        if start >= end:
            self.passes += 1
            self.position = self._log.min_offset
            return 0
        self.position = await opened.scanner.untouched(start, end, PIECE_BESIDE_OTHERS)
        if self.position == start:
            await self._look_closer(start, end)
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
