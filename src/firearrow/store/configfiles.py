"""Apache's JSON files below ``config/``: topics, groups, and how far consumers and delays have come.

Written as fastjson writes them, indented with tabs, numbers as keys bare, so that Apache reads what we write; read in
all of fastjson's forms. Each is replaced atomically and kept twice, as ``.bak`` too. A sealed file of our own holds the
checksums of both: a file that does not have its checksum has rotted, unless it is newer than the checksum, for then
somebody else wrote it.

Progress is never durable ahead of the log that it depends on: `Progress` waits for the log before it writes, and
`cut_back` takes back, before serving, what a crash has left ahead of a queue's end. Otherwise the next messages of that
queue would be skipped for ever. Java: ``ConfigManager``, ``ConsumerOffsetManager``, ``ScheduleMessageService``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from firearrow import fastjson
from firearrow.errors import BadBody, DiskError, FileMissing
from firearrow.runtime.disk import Disk
from firearrow.store.paths import CONFIG, OURS
from firearrow.store.sealed import read_sealed, write_sealed

TOPICS: Final = "topics.json"
GROUPS: Final = "subscriptionGroup.json"
CONSUMER_OFFSETS: Final = "consumerOffset.json"
DELAY_OFFSETS: Final = "delayOffset.json"
CONSUMER_OFFSET_INTERVAL_MS: Final = 5_000
DELAY_OFFSET_INTERVAL_MS: Final = 10_000

SUMS: Final = f"{OURS}/config.json"

Document: TypeAlias = dict[str, Any]
ConsumerOffsets: TypeAlias = dict[str, dict[str, dict[int, int]]]
"""Group, topic, queue number, offset of the next message."""
DelayOffsets: TypeAlias = dict[int, int]
"""Level, offset of the next parked message."""

logger = logging.getLogger(__name__)


class _Sums(msgspec.Struct):
    files: dict[str, tuple[int, int]] = {}
    """Checksum and time of the last change, by name."""


class ConfigFiles:
    """The files of one store."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._sums: dict[str, tuple[int, int]] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def load(self, name: str) -> Document | None:
        """What a file says: the file itself if it is whole, else its copy; None when there is neither."""
        sums = await self._known_sums()
        found: list[tuple[str, Document]] = []
        for candidate in (name, f"{name}.bak"):
            document, trusted = await self._read(candidate, sums)
            if document is not None:
                if trusted:
                    return document
                found.append((candidate, document))
        if not found:
            return None
        logger.error("a configuration file does not have its checksum, nor its copy", extra={"file": found[0][0]})
        return found[0][1]

    async def save(self, name: str, document: Document) -> None:
        """Put a document in place, durably, and then its copy."""
        data = pretty(document)
        async with self._one_at_a_time:
            sums = await self._known_sums()
            self._disk.make_directory(CONFIG)
            for target in (name, f"{name}.bak"):
                path = f"{CONFIG}/{target}"
                await self._disk.replace(path, data)
                sums[target] = (crc32(data), self._disk.status(path).modified_ms)
            self._disk.make_directory(OURS)
            await write_sealed(self._disk, SUMS, _Sums(sums))

    async def _known_sums(self) -> dict[str, tuple[int, int]]:
        if self._sums is None:
            contents = await read_sealed(self._disk, SUMS, _Sums)
            self._sums = contents.files if contents else {}
        return self._sums

    async def _read(self, name: str, sums: Mapping[str, tuple[int, int]]) -> tuple[Document | None, bool]:
        """What a file says, and whether it is what was written last."""
        path = f"{CONFIG}/{name}"
        try:
            data = await self._disk.read_whole(path)
            modified_ms = self._disk.status(path).modified_ms
        except FileMissing:
            return None, False
        try:
            document = fastjson.read(data)
        except BadBody as bad:
            logger.warning("a configuration file cannot be read", extra={"file": name, "reason": str(bad)})
            return None, False
        crc, written_ms = sums.get(name, (crc32(data), 0))
        if not isinstance(document, dict):
            return None, False
        return document, crc == crc32(data) or modified_ms > written_ms


# ---- forms


def pretty(value: object, depth: int = 0) -> bytes:
    """JSON as fastjson indents it: members on lines of their own, numbers as keys bare and on one line."""
    if isinstance(value, dict):
        return _pretty_map(value, depth)
    if isinstance(value, list | tuple):
        inner = b",".join(b"\n" + b"\t" * (depth + 1) + pretty(item, depth + 1) for item in value)
        return b"[" + inner + (b"\n" + b"\t" * depth if value else b"") + b"]"
    return msgspec.json.encode(value)


def _pretty_map(value: dict[Any, Any], depth: int) -> bytes:
    members = []
    for key, item in value.items():
        if isinstance(key, int):
            members.append(b"%d:%b" % (key, pretty(item, depth + 1)))
        else:
            members.append(b"\n" + b"\t" * (depth + 1) + msgspec.json.encode(str(key)) + b":" + pretty(item, depth + 1))
    return b"{" + b",".join(members) + (b"\n" + b"\t" * depth if members else b"") + b"}"


def consumer_offsets(document: Document) -> ConsumerOffsets:
    """The offsets in ``consumerOffset.json``; what makes no sense is left out."""
    offsets: ConsumerOffsets = {}
    for name, queues in _table(document).items():
        topic, at, group = str(name).partition("@")
        if at and isinstance(queues, Mapping):
            offsets.setdefault(group, {})[topic] = _numbers(queues)
    return offsets


def consumer_offsets_document(offsets: ConsumerOffsets, version: Document | None = None) -> Document:
    """What ``consumerOffset.json`` says of offsets."""
    table = {
        f"{topic}@{group}": dict(sorted(queues.items()))
        for group, topics in sorted(offsets.items())
        for topic, queues in sorted(topics.items())
    }
    return ({"dataVersion": version} if version else {}) | {"offsetTable": table}


def delay_offsets(document: Document) -> DelayOffsets:
    """The offsets in ``delayOffset.json``."""
    return _numbers(_table(document))


def delay_offsets_document(offsets: DelayOffsets, version: Document | None = None) -> Document:
    """What ``delayOffset.json`` says of offsets."""
    return ({"dataVersion": version} if version else {}) | {"offsetTable": dict(sorted(offsets.items()))}


def _table(document: Document) -> Mapping[Any, Any]:
    table = document.get("offsetTable")
    return table if isinstance(table, Mapping) else {}


def _numbers(table: Mapping[Any, Any]) -> dict[int, int]:
    numbers: dict[int, int] = {}
    for key, value in table.items():
        try:
            numbers[int(key)] = int(value)
        except (TypeError, ValueError):
            continue
    return numbers


# ---- taking back


def cut_back(offsets: ConsumerOffsets, end_of: Callable[[str, int], int]) -> list[tuple[str, str, int, int, int]]:
    """Take offsets behind the end of their queue back to it, in place.

    Return what changed: group, topic, queue number, old and new offset.
    """
    changed = []
    for group, topics in offsets.items():
        for topic, queues in topics.items():
            for queue_id, offset in queues.items():
                end = end_of(topic, queue_id)
                if offset > end:
                    queues[queue_id] = end
                    changed.append((group, topic, queue_id, offset, end))
    return changed


def cut_back_delays(offsets: DelayOffsets, end_of: Callable[[int], int]) -> list[tuple[int, int, int]]:
    """Take delay offsets behind the end of their queue back to it, in place; return level, old and new offset."""
    changed = []
    for level, offset in offsets.items():
        end = end_of(level - 1)
        if offset > end:
            offsets[level] = end
            changed.append((level, offset, end))
    return changed


# ---- writing behind


class Progress:
    """Writes one file some time after it changed, and after the log that it depends on is durable."""

    def __init__(
        self,
        files: ConfigFiles,
        name: str,
        render: Callable[[], Document],
        log_flushed: Callable[[], Awaitable[None]],
        interval_ms: int,
    ) -> None:
        self._files = files
        self._name = name
        self._render = render
        self._log_flushed = log_flushed
        self._interval_ms = interval_ms
        self._changed = asyncio.Event()

    def touch(self) -> None:
        """It changed: write it soon."""
        self._changed.set()

    async def flush(self) -> None:
        """Write it now if it changed. What it says now is what is written, once the log is durable up to now."""
        if not self._changed.is_set():
            return
        self._changed.clear()
        document = self._render()
        try:
            await self._log_flushed()
            await self._files.save(self._name, document)
        except BaseException:
            self._changed.set()
            raise

    async def run(self) -> None:
        """Write at intervals until cancelled. A write that fails is tried again at the next."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                await self.flush()
            except DiskError:
                logger.exception("progress could not be written; it is tried again", extra={"file": self._name})
