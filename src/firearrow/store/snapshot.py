"""Where queues and index stood at the last flush: what a start goes by instead of looking at every file.

``firearrow/views.journal``: frames one after the other. The first of a file holds every queue; each flush appends one
with the queues that changed since, so that it costs what changed and not what there is. When those have grown longer
than the first, the file is replaced by one with a new first frame. Everything is kept twice: ``.bak`` is written
second, and of the two the one counts whose last whole frame has the greater number::

    0 magic 8 "FAVIEWS1"   8 number 8   16 length of the body 4   20 CRC-32 of 8..19 and the body 4   24 body

The body is lines of JSON: a `Standing`, then tables of queues by topic, some hundreds a line. A frame is synced before
the next is written, so a torn one is the last, and what it says is not believed.

After an orderly close the journal is believed as it is, so that a start with 50,000 queues reads one file. After a
crash every queue and the index are cut back to it, because behind it any page may be missing or be from the future, and
the log is read again from ``durable`` on.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct

from firearrow.runtime.disk import Disk, File
from firearrow.store.consumequeue import ConsumeQueue
from firearrow.store.copies import read_copies
from firearrow.store.index import IndexState
from firearrow.store.pacing import Pace
from firearrow.store.paths import OURS

VIEWS: Final = f"{OURS}/views.journal"
COPIES: Final = (VIEWS, f"{VIEWS}.bak")
QUEUES_A_LINE: Final = 256
"""Queues rendered before others get their turn on the loop: half a millisecond."""
LEAST_REPLACED: Final = 64 << 10
"""Bytes of changes up to which a file is not replaced, however short its first frame."""

_MAGIC: Final = b"FAVIEWS1"
_HEAD = struct.Struct(">8sQII")
_NUMBER_AND_LENGTH = struct.Struct(">QI")

QueueState = tuple[int, int, int]
"""Queue number, first entry of the oldest file, and the entry after the last."""
Tables = dict[str, list[QueueState]]


class Standing(Struct, frozen=True, kw_only=True):
    """Queues and index at one place of the log, but for the single queues."""

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


class _Frame(Struct, frozen=True, kw_only=True):
    standing: Standing
    deleted: list[str]
    """Topics that are gone; queues of theirs that the same frame names came after."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """What the journal says."""

    standing: Standing
    topics: dict[str, dict[int, QueueState]]


class ViewsJournal:
    """The journal of one directory."""

    def __init__(self, disk: Disk, number: int) -> None:
        self._disk = disk
        self._number = number
        self._files: list[File] = []
        self._end = 0
        """Where the next frame goes; 0 when the file must be replaced first."""
        self._first_bytes = 0

    @property
    def wants_all(self) -> bool:
        """Whether the next frame must hold every queue."""
        return not self._end or self._end - self._first_bytes > max(self._first_bytes, LEAST_REPLACED)

    async def write(self, standing: Standing, deleted: Iterable[str], queues: Iterable[ConsumeQueue]) -> None:
        """Say durably where everything stands: of all ``queues`` when the journal wanted all, else of some."""
        is_first = self.wants_all
        # Whatever of it fails or is stopped, the next frame begins a file: nothing may follow a torn or a missing one.
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
        """Give up the files."""
        for file in self._files:
            file.close()
        self._files, self._end = [], 0


async def _lines(queues: Iterable[ConsumeQueue]) -> list[bytes]:
    """Tables of queues, rendered in turns with others."""
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
    """Number and body of every frame up to the first that is not whole."""
    at = 0
    while at + _HEAD.size <= len(data):
        magic, number, length, checksum = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + length]
        if magic != _MAGIC or len(body) != length or _sum(number, body) != checksum:
            return
        yield number, body
        at += _HEAD.size + length


def _replayed(data: bytes) -> tuple[int, Snapshot | None]:
    """The number of the last whole frame of a file, and what all of them say together."""
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
    """The journal, and what it says; None when there is no whole frame."""
    number, newest = 0, None
    contents, unreadable = await read_copies(disk, COPIES)
    for data in contents:
        last, snapshot = _replayed(data or b"")
        if snapshot is not None and last > number:
            number, newest = last, snapshot
    if newest is None and unreadable is not None:
        raise unreadable
    return ViewsJournal(disk, number), newest
