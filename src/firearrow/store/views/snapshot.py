"""The snapshot: the ends of queues and index at the last flush, so that a start need not read every file.

``firearrow/views.journal`` holds frames. The first frame of a file holds every queue; each flush appends a frame with
the queues that changed since, so that its cost depends on the changes. When the changes have grown longer than the
first frame, the file is replaced by a new one. There are two copies: ``.bak`` is written second, and the copy whose
last complete frame has the greater number counts::

    0 magic 8 "FAVIEWS1"   8 number 8   16 length of the body 4   20 CRC-32 of 8..19 and the body 4   24 body

The body is lines of JSON: a `ViewsState`, then tables of queues by topic, some hundreds a line. A frame is synced
before
the next is written, so only the last can be torn; a torn frame is ignored.

After an orderly close the journal is trusted, so that a start with 50,000 queues reads one file. After a crash every
queue and the index are cut back to it, because behind it any page may be missing or newer than the log, and the log is
dispatched again from ``durable`` on.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct

from firearrow.runtime.disk.door import Disk, File
from firearrow.runtime.turn import Pace
from firearrow.store.index.key_index import IndexState
from firearrow.store.paths import OURS
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.sidecars.copies import read_copies

VIEWS: Final = f"{OURS}/views.journal"
COPIES: Final = (VIEWS, f"{VIEWS}.bak")
QUEUES_A_LINE: Final = 256
"""Queues that are encoded before the work yields to the loop: half a millisecond."""
LEAST_REPLACED: Final = 64 << 10
"""A file with fewer bytes of changes is not replaced, however short its first frame."""

_MAGIC: Final = b"FAVIEWS1"
_HEAD = struct.Struct(">8sQII")
_NUMBER_AND_LENGTH = struct.Struct(">QI")

QueueState = tuple[int, int, int]
"""Queue number, first entry of the oldest file, and the entry after the last."""
Tables = dict[str, list[QueueState]]


class ViewsState(Struct, frozen=True, kw_only=True):
    """The state of queues and index at one offset of the log, without the single queues."""

    durable: int
    """All records below are in the queues and the index, on disk."""
    store_ms: int
    """Store time of the last message below."""
    closed: bool
    """Whether the store was closed in order, so that the files hold nothing newer."""
    checkpoint_crc: int
    queue_file_bytes: int
    index_slots: int
    index_entries: int
    index: IndexState | None


class _Frame(Struct, frozen=True, kw_only=True):
    standing: ViewsState
    deleted: list[str]
    """Deleted topics; queues of such a topic in the same frame were created after the deletion."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """The contents of the journal."""

    standing: ViewsState
    topics: dict[str, dict[int, QueueState]]


class ViewsJournal:
    """The journal of one directory."""

    def __init__(self, disk: Disk, number: int) -> None:
        self._disk = disk
        self._number = number
        self._files: list[File] = []
        self._end = 0
        """The position of the next frame; 0 when the file must be replaced first."""
        self._first_bytes = 0

    @property
    def wants_all(self) -> bool:
        """Whether the next frame must hold every queue."""
        return not self._end or self._end - self._first_bytes > max(self._first_bytes, LEAST_REPLACED)

    async def write(self, standing: ViewsState, deleted: Iterable[str], queues: Iterable[ConsumeQueue]) -> None:
        """Write a frame, durably: with all ``queues`` if `wants_all`, else with those that changed."""
        is_first = self.wants_all
        # If this write fails or is cancelled, the next frame begins a new file: no frame may follow a torn one.
        end, self._end = self._end, 0
        self._number += 1
        frame = _Frame(standing=standing, deleted=list(deleted))
        data = _framed(self._number, b"\n".join([msgspec.json.encode(frame), *await _lines(queues)]))
        if is_first:
            await self._replace(data)
            self._first_bytes = end = 0
        else:
            for file in self._files:
                file.write_at(end, [data])
                await file.sync()
        self._first_bytes = self._first_bytes or len(data)
        self._end = end + len(data)

    async def _replace(self, data: bytes) -> None:
        self.close()
        for path in COPIES:
            await self._disk.replace(path, data)
            self._files.append(self._disk.open(path))

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()
        self._files, self._end = [], 0


async def _lines(queues: Iterable[ConsumeQueue]) -> list[bytes]:
    """Tables of queues as lines of JSON. Yields to the loop."""
    lines: list[bytes] = []
    tables: Tables = {}
    pace = Pace(QUEUES_A_LINE, rests=True)
    for number, queue in enumerate(queues, 1):
        if queue.durable or queue.start:
            tables.setdefault(queue.topic, []).append((queue.queue_id, queue.start, queue.durable))
        if number % QUEUES_A_LINE == 0:
            lines.append(msgspec.json.encode(tables))
            tables = {}
        await pace.did()
    return [*lines, msgspec.json.encode(tables)]


def _framed(number: int, body: bytes) -> bytes:
    return _HEAD.pack(_MAGIC, number, len(body), _sum(number, body)) + body


def _sum(number: int, body: bytes) -> int:
    return crc32(body, crc32(_NUMBER_AND_LENGTH.pack(number, len(body))))


def _bodies(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and body of every frame before the first incomplete one."""
    at = 0
    while at + _HEAD.size <= len(data):
        magic, number, length, checksum = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + length]
        if magic != _MAGIC or len(body) != length or _sum(number, body) != checksum:
            return
        yield number, body
        at += _HEAD.size + length


def _replayed(data: bytes) -> tuple[int, Snapshot | None]:
    """The number of the last complete frame of a file, and the snapshot that all frames give."""
    last, standing, topics = 0, None, dict[str, dict[int, QueueState]]()
    for number, body in _bodies(data):
        head, *lines = body.split(b"\n")
        try:
            frame = msgspec.json.decode(head, type=_Frame)
            tables = [msgspec.json.decode(line, type=Tables) for line in lines]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            break
        for topic in frame.deleted:
            topics.pop(topic, None)
        for table in tables:
            for topic, states in table.items():
                topics.setdefault(topic, {}).update((state[0], state) for state in states)
        last, standing = number, frame.standing
    return last, None if standing is None else Snapshot(standing=standing, topics=topics)


async def read_journal(disk: Disk) -> tuple[ViewsJournal, Snapshot | None]:
    """The journal and its snapshot; None when there is no complete frame."""
    number, newest = 0, None
    contents, unreadable = await read_copies(disk, COPIES)
    for data in contents:
        last, snapshot = _replayed(data or b"")
        if snapshot is not None and last > number:
            number, newest = last, snapshot
    if newest is None and unreadable is not None:
        raise unreadable
    return ViewsJournal(disk, number), newest
