"""The durable progress of a mirror: a directory with a file for each topic.

    lock            held while a mirror runs on the directory
    mirror.json     the names of the two clusters
    TOPIC.json      for each queue: its place at the target, where that queue ended before the first copy, the next
                    source offset, the source message before it, the life of the source topic, the offset map and
                    the loops

A file is replaced whole. A mark is written after the target has acknowledged the copies before it, so a restart copies
again what was acknowledged since the last save, and never leaves anything out.
"""

import asyncio
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from firearrow.errors import DiskError, FileMissing, LockHeld, SettingsError
from firearrow.mirror.copies import Names
from firearrow.mirror.offset_map import Loops, OffsetMap, Run, translate
from firearrow.mirror.placement import Placement
from firearrow.model import MessageQueue
from firearrow.runtime.disk.door import Disk, Lock

T = TypeVar("T")

LOCK: Final = "lock"
ABOUT: Final = "mirror.json"


class StoredMark(Struct, frozen=True):
    """One queue in a file."""

    broker: str
    queue: int
    target_broker: str
    target_queue: int
    next: int | None
    """The next source offset; None before the first pull."""
    runs: list[Run]
    loops: list[Run] = []
    loops_stored_ms: int = 0
    floor: int | None = None
    """The end of the target queue before the first copy; None before it is known."""
    last_ms: int = 0
    """The store time of the source message before ``next``; 0 if it is not known."""
    last_place: int = 0
    """Its physical offset at the source."""
    life: int = 0
    """The life of the source topic on its broker (``TopicConfig``); 0 if it is not known."""


class QueueMark:
    """The progress of one queue."""

    def __init__(self, source: MessageQueue, target: MessageQueue, stored: StoredMark | None = None) -> None:
        self.source: Final = source
        self.target: Final = target
        self.next = None if stored is None else stored.next
        self.map: Final = OffsetMap(() if stored is None else stored.runs)
        self.loops: Final = Loops() if stored is None else Loops(stored.loops, stored.loops_stored_ms)
        self.floor = None if stored is None else stored.floor
        self.last = (0, 0) if stored is None else (stored.last_ms, stored.last_place)
        """Store time and physical offset of the source message before ``next``; zeros if it is not known."""
        self.life = 0 if stored is None else stored.life
        self.is_dirty = False

    def translate(self, offset: int, had: int) -> int:
        """Return where a group goes on at the target; ``had`` is how far it is there already."""
        return translate(offset, had, self.map, self.loops)

    def stored(self) -> StoredMark:
        """Return the mark as its file has it."""
        return StoredMark(
            self.source.broker_name,
            self.source.queue_id,
            self.target.broker_name,
            self.target.queue_id,
            self.next,
            list(self.map.runs),
            list(self.loops.runs),
            self.loops.stored_ms,
            self.floor,
            *self.last,
            self.life,
        )


class Marks:
    """The marks of all queues, and their directory."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock: Lock | None = None
        self._saving = asyncio.Lock()
        self._topics: dict[str, dict[MessageQueue, QueueMark]] = {}

    async def open(self, names: Names) -> None:
        """Claim the directory; raise ``SettingsError`` if it belongs to another mirror, or one runs on it."""
        try:
            self._lock = self._disk.lock(LOCK)
        except LockHeld as held:
            raise SettingsError(
                "another mirror runs with this --state directory; stop it, or give this mirror its own"
            ) from held
        about = await self._read(ABOUT)
        if about is None:
            await self._disk.replace(ABOUT, msgspec.json.encode(names))
            return
        before = _decoded(about, Names, ABOUT)
        if before != names:
            raise SettingsError(
                f"the --state directory belongs to the mirror {before.source} -> {before.target}, not to "
                f"{names.source} -> {names.target}; give each mirror a directory of its own"
            )

    def close(self) -> None:
        """Give the directory back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def read(self, topic: str) -> Placement:
        """Read the marks of a topic if they are not known yet; return the places of its queues."""
        if topic not in self._topics:
            found = await self._read(f"{topic}.json")
            listed = [] if found is None else _decoded(found, list[StoredMark], f"{topic}.json")
            marks = [
                QueueMark(
                    MessageQueue(topic, each.broker, each.queue),
                    MessageQueue(topic, each.target_broker, each.target_queue),
                    each,
                )
                for each in listed
            ]
            self._topics[topic] = {mark.source: mark for mark in marks}
        return {mark.source: mark.target for mark in self._topics[topic].values()}

    def add(self, placed: Placement) -> list[QueueMark]:
        """Add the queues that have no mark yet; return the marks of all these queues."""
        found = []
        for source, target in placed.items():
            marks = self._topics.setdefault(source.topic, {})
            if source not in marks:
                marks[source] = QueueMark(source, target)
                marks[source].is_dirty = True
            found.append(marks[source])
        return found

    def of_topic(self, topic: str) -> dict[MessageQueue, QueueMark]:
        """Return the marks of a topic."""
        return self._topics.get(topic, {})

    @property
    def topics(self) -> list[str]:
        """The topics with marks."""
        return list(self._topics)

    async def save(self) -> None:
        """Write the files of all topics that have changed."""
        async with self._saving:
            await self._save()

    async def _save(self) -> None:
        for topic, marks in list(self._topics.items()):
            dirty = [mark for mark in marks.values() if mark.is_dirty]
            if not dirty:
                continue
            data = msgspec.json.encode([mark.stored() for mark in marks.values()])
            for mark in dirty:
                mark.is_dirty = False
            try:
                await self._disk.replace(f"{topic}.json", data)
            except BaseException:
                for mark in dirty:
                    mark.is_dirty = True
                raise

    async def _read(self, path: str) -> bytes | None:
        if not self._disk.exists(path):
            return None
        try:
            return await self._disk.read_whole(path)
        except FileMissing:
            return None


def _decoded(data: bytes, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as wrong:
        raise DiskError(
            f"{path} of the --state directory cannot be read: {wrong}; restore it, or remove it to copy the topic anew"
        ) from wrong
