"""Apache's checkpoint: the store time up to which everything is on disk.

4096 bytes, of which the first five longs are used::

    0 log 8   8 queues 8   16 index 8   24 flushed offset of the master 8   32 confirmed offset 8

After a crash Apache recovers from three seconds before the smaller of the first two times, and deletes index files that
end after the third. So a time is written only when log, queues or index are durable up to it. We read the checkpoint
only when Apache wrote last; after our own runs we resume from `snapshot`. Java: ``StoreCheckpoint``.
"""

import struct
from typing import Final
from zlib import crc32

from msgspec import Struct

from firearrow.errors import FileMissing
from firearrow.runtime.disk.door import Disk
from firearrow.store.paths import CHECKPOINT

CHECKPOINT_BYTES: Final = 4096
MARGIN_MS: Final = 3000
_FIELDS = struct.Struct(">qqqqq")


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The values in the file."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    master_flushed: int = 0
    confirmed: int = 0

    def encode(self) -> bytes:
        """The bytes of the file."""
        fields = (self.log_ms, self.queues_ms, self.index_ms, self.master_flushed, self.confirmed)
        return _FIELDS.pack(*fields).ljust(CHECKPOINT_BYTES, b"\0")

    @property
    def safe_ms(self) -> int:
        """The store time before which all messages are in the log and in their queues, on disk."""
        return max(min(self.log_ms, self.queues_ms) - MARGIN_MS, 0)


def decode_checkpoint(data: bytes) -> Checkpoint:
    """The checkpoint in the bytes of the file; an empty one when there are too few bytes."""
    if len(data) < _FIELDS.size:
        return Checkpoint()
    log_ms, queues_ms, index_ms, master_flushed, confirmed = _FIELDS.unpack_from(data)
    return Checkpoint(
        log_ms=log_ms, queues_ms=queues_ms, index_ms=index_ms, master_flushed=master_flushed, confirmed=confirmed
    )


async def read_checkpoint(disk: Disk) -> tuple[Checkpoint, int]:
    """The checkpoint of a directory and the CRC-32 of its file."""
    try:
        data = await disk.read_whole(CHECKPOINT)
    except FileMissing:
        data = b""
    return decode_checkpoint(data), crc32(data)


async def write_checkpoint(disk: Disk, checkpoint: Checkpoint) -> int:
    """Write the checkpoint, durably; return the CRC-32 of its file."""
    data = checkpoint.encode()
    await disk.replace(CHECKPOINT, data)
    return crc32(data)
