"""A small store to be spoilt byte by byte: made once, copied for every flip, and examined through every way in.

Knows for every byte of every file what it means, so that what a flip must lead to follows from where it fell.
"""

import asyncio
import os
import shutil
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from msgspec.structs import replace

from campaigns.faults.recipe import Recipe, number_of, unique_key
from campaigns.faults.session import NEVER_MS, Options, Session
from firearrow.broker.state.state_file import StateFile
from firearrow.broker.tables.topics import PATH as TOPICS
from firearrow.broker.tables.topics import TopicTable
from firearrow.errors import OffsetNotStored
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.record.decode import RecordHead, peek
from firearrow.record.layout import BLANK_SIZE
from firearrow.store.inspection.directory import StoreView
from firearrow.store.inspection.inspect import StoreVerification, overview, verify
from firearrow.store.queue.consume_queue import ENTRY_BYTES
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.recovery.damage import BadRange

MESSAGES: Final = 36
SEGMENT_BYTES: Final = 4096
OFFSETS: Final = {0: 1, 1: 2}
"""The messages that a group has read of one topic, by queue."""


class Meaning(Enum):
    """The use of a byte."""

    RECORD = "log record"
    BLANK = "filler's head"
    LOG_REST = "rest of a log file"
    ENTRY = "queue entry"
    QUEUE_REST = "rest of a queue file"
    INDEX = "index"
    CONFIG = "JSON of Apache's"
    CHECKPOINT = "checkpoint"
    CHECKPOINT_REST = "rest of the checkpoint"
    OURS = "our own files"
    LOCK = "lock"


WITHOUT_MEANING: Final = frozenset({Meaning.LOG_REST, Meaning.QUEUE_REST, Meaning.CHECKPOINT_REST, Meaning.LOCK})
"""Nothing reads these bytes: a flip there needs no detection, and must do no harm."""


@dataclass
class Examined:
    """The messages that could be read from a store."""

    queue_ends: dict[tuple[str, int], int] = field(default_factory=dict)
    by_queue: dict[int, bytes] = field(default_factory=dict)
    by_place: dict[int, bytes] = field(default_factory=dict)
    by_key: dict[int, bytes] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    damage: list[BadRange] = field(default_factory=list)


class RotStore:
    """The store, whole, and what is in it."""

    def __init__(self, scratch: str, seed: int, *, closed: bool) -> None:
        self.root = os.path.join(scratch, "whole")
        self._recipe = Recipe(seed, largest=300)
        self._options = Options(root=self.root, segment_bytes=SEGMENT_BYTES, dispatch_ms=NEVER_MS, interval_ms=10)
        asyncio.run(self._make(closed=closed))
        shutil.copytree(self.root, f"{self.root}.read")
        self.whole = asyncio.run(self.examine(f"{self.root}.read"))
        self.heads = {physical: peek(record) for physical, record in self.whole.by_place.items()}
        assert len(self.heads) == MESSAGES
        self.files = {path: os.path.getsize(os.path.join(self.root, path)) for path in _files_below(self.root)}

    async def _make(self, *, closed: bool) -> None:
        session = await Session.open(self._options)
        for number in range(MESSAGES):
            (place,) = session.append([self._recipe.message(number).draft()])
            await session.reached(place.end)
            if number % 5 == 0:
                await session.settle()
        await self._write_tables(session, whole=closed)
        await session.settle()
        await (session.close() if closed else session.abandon())

    async def _write_tables(self, session: Session, *, whole: bool) -> None:
        """Tables as a broker keeps them: in files, or half in files and half in journals."""
        table = TopicTable()
        topics = StateFile(session.disk, TOPICS, table)
        for number, (queue_id, offset) in enumerate(OFFSETS.items()):
            table.put(TopicConfig(topic_name=f"orders-{number}"), number)
            await topics.save()
            session.read_to["orders", queue_id] = offset
            await session.commit()
        if whole:
            await topics.close()

    # ---- what bytes mean

    def record_at(self, physical: int) -> RecordHead | None:
        """The record that a byte of the log belongs to."""
        for start, head in self.heads.items():
            if start <= physical < start + head.size:
                return head
        return None

    def meaning(self, path: str, position: int) -> Meaning:
        """Return the use of a byte."""
        kind, _, rest = path.partition("/")
        if kind == "commitlog":
            physical = int(rest) + position
            if self.record_at(physical) is not None:
                return Meaning.RECORD
            return Meaning.BLANK if self._in_blank(physical) else Meaning.LOG_REST
        if kind == "consumequeue":
            topic, queue_id, start = rest.split("/")
            end = self.whole.queue_ends[topic, int(queue_id)] * ENTRY_BYTES
            return Meaning.ENTRY if int(start) + position < end else Meaning.QUEUE_REST
        if kind == "checkpoint":
            return Meaning.CHECKPOINT if position < 40 else Meaning.CHECKPOINT_REST
        whole_files = {"index": Meaning.INDEX, "config": Meaning.CONFIG, "lock": Meaning.LOCK}
        return whole_files.get(kind, Meaning.OURS)

    def _in_blank(self, physical: int) -> bool:
        ends = {start + head.size for start, head in self.heads.items()}
        return any(end <= physical < end + BLANK_SIZE for end in ends if end < max(ends) and end not in self.heads)

    # ---- spoiling and looking

    def spoilt(self, target: str, path: str, position: int) -> None:
        """A copy with one bit of one byte turned over, and nothing else: not even the file's time."""
        shutil.copytree(self.root, target)
        name = os.path.join(target, path)
        times = os.stat(name)
        with open(name, "r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ 1 << position % 8]))
        os.utime(name, ns=(times.st_atime_ns, times.st_mtime_ns))

    def is_right(self, target: str, path: str, position: int) -> bool:
        """Whether a byte of a copy is what it is in the whole store."""
        found = []
        for root in (self.root, target):
            with open(os.path.join(root, path), "rb") as file:
                file.seek(position)
                found.append(file.read(1))
        return found[0] == found[1]

    async def examine(
        self, root: str, *, window: int = 64 << 20, scrub: bool = False, boot: str = "boot-1"
    ) -> Examined:
        """Open a copy and ask for everything in every way."""
        session = await Session.open(replace(self._options, root=root, verify_window=window, boot_id=boot))
        found = Examined()
        try:
            if scrub:
                while not session.store.scrub.passes:
                    await session.store.scrub.step()
            else:
                await self._ask(session, found)
            topics = TopicTable()
            await StateFile(session.disk, TOPICS, topics).load()
            offsets = sorted(session.offsets.rows())
            found.tables = {"topics": topics.topics, "version": topics.version, "offsets": offsets}
            # What is cut off behind the log's end was never part of it.
            found.damage = [bad for bad in session.opened.damage.as_list() if bad.kind == "damage"]
        finally:
            await session.close()
        return found

    async def _ask(self, session: Session, found: Examined) -> None:
        store = session.store
        for queue in store.queues:
            found.queue_ends[queue.topic, queue.queue_id] = queue.max_offset
        for topic, queue_id in list(found.queue_ends):
            offset = 0
            while offset < found.queue_ends[topic, queue_id]:
                pulled = await store.read(topic, queue_id, ReadRequest(offset, 32, 1 << 20))
                for record in _records(b"".join(pulled.buffers)):
                    found.by_queue[peek(record).physical_offset] = record
                assert pulled.next_offset > offset, f"{topic}/{queue_id} stands still at {offset}: {pulled.status}"
                offset = pulled.next_offset
        places = self.whole.by_queue if hasattr(self, "whole") else found.by_queue
        for physical in places:
            try:
                found.by_place[physical] = await store.lookups.by_physical(physical)
            except OffsetNotStored:
                continue
        for number in range(MESSAGES):
            topic = self._recipe.message(number).topic
            for record in (await store.lookups.by_key(topic, unique_key(number), 64, 0, 1 << 60)).records:
                assert number_of(peek(record).body(record)) == number
                found.by_key[peek(record).physical_offset] = record

    async def verified(self, root: str) -> StoreVerification:
        """Return the output of ``store inspect --verify`` for a copy that was not opened."""
        disk = replace(self._options, root=root).disk()
        try:
            view = await StoreView.open(disk)
            result = await verify(view, await overview(view))
            view.close()
        finally:
            await disk.close()
        return result


def _files_below(root: str) -> list[str]:
    names = [os.path.join(directory, name) for directory, _, names in os.walk(root) for name in names]
    return sorted(os.path.relpath(name, root) for name in names)


def _records(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        head = peek(data, at)
        found.append(data[at : head.end])
        at = head.end
    return found
