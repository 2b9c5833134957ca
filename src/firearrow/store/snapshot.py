"""Where queues and index stood at the last flush: what a start goes by instead of looking at every file.

``firearrow/views.json``, sealed JSON. After an orderly close it is believed as it is, so that a start with 50,000
queues reads one file. After a crash every queue and the index are cut back to it, because behind it any page may be
missing or be from the future, and the log is read again from ``durable`` on.
"""

from typing import Final

from msgspec import Struct

from firearrow.runtime.disk import Disk
from firearrow.store.index import IndexState
from firearrow.store.paths import OURS
from firearrow.store.sealed import read_sealed, write_sealed

VIEWS: Final = f"{OURS}/views.json"

QueueState = tuple[int, int, int]
"""Queue number, first entry of the oldest file, and the entry after the last."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """Queues and index at one place of the log."""

    durable: int
    """Everything below is in the queues and the index, on disk."""
    store_ms: int
    """Store time of the last message below."""
    closed: bool
    """Whether the store was closed in order, so that nothing lies behind."""
    checkpoint_crc: int
    queue_file_bytes: int
    index_slots: int
    index_entries: int
    index: IndexState | None
    topics: dict[str, list[QueueState]]


async def read_snapshot(disk: Disk) -> Snapshot | None:
    """The last snapshot, or None when there is no whole one."""
    return await read_sealed(disk, VIEWS, Snapshot)


async def write_snapshot(disk: Disk, snapshot: Snapshot) -> None:
    """Put a snapshot in place, durably."""
    await write_sealed(disk, VIEWS, snapshot)
