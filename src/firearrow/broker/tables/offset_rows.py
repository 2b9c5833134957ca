"""The file format of group offsets: Apache's ``consumerOffset.json``, and the lines of its journal. Pure.

The file: ``{"dataVersion": {...}, "offsetTable": {"topic@group": {queue: offset}}}``, and moved offsets in the same
form under ``firearrowMoved``, which Apache's broker ignores. A line: topic, group, queue and offset; or topic, group
and maps of all queues, committed and moved; or topic and group alone, when the offsets are deleted. A written offset is
never above the end of its queue.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from firearrow import fastjson
from firearrow.broker.state.state_file import ROWS_AT_ONCE, decode_line
from firearrow.broker.tables.offsets import ALL_QUEUES, SEPARATOR, Change, EndOf, OffsetTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.offset import ConsumerOffsetTable
from firearrow.protocol.bodies.version import DataVersion

PATH: Final = "config/consumerOffset.json"


class _OffsetLine(msgspec.Struct, array_like=True):
    topic: str
    group: str
    queue_id: int = ALL_QUEUES
    offset: int = 0
    queues: dict[int, int] | None = None
    moved: dict[int, int] | None = None


class OffsetRows:
    """Writes an offset table to its file and journal, and reads it."""

    def __init__(self, offsets: OffsetTable, end_of: EndOf) -> None:
        self._offsets = offsets
        self._end_of = end_of

    @property
    def changes(self) -> dict[Change, None]:
        """Offsets that changed since the file was written."""
        return self._offsets.changes

    @changes.setter
    def changes(self, changes: dict[Change, None]) -> None:
        self._offsets.changes = changes

    # ---- the file

    def pieces(self) -> Iterator[bytes]:
        """Yield the file in pieces of about `ROWS_AT_ONCE` offsets."""
        offsets = self._offsets
        offsets.version = DataVersion(counter=offsets.version.counter + 1, timestamp=offsets.version.timestamp)
        gathered, count, comma = [b'{"dataVersion":%b,"offsetTable":{' % encode_body(offsets.version)], 0, b""
        for topic, group in offsets.pairs():
            for part, rows in self._row(topic, group, comma):
                gathered.append(part)
                count += rows
                comma = b","
                if count >= ROWS_AT_ONCE:
                    yield b"".join(gathered)
                    gathered, count = [], 0
        moved = {f"{topic}{SEPARATOR}{group}": self._moved_of(topic, group) for topic, group in offsets.moved_pairs()}
        gathered.append(b'},"firearrowMoved":%b}' % msgspec.json.encode(moved) if moved else b"}}")
        yield b"".join(gathered)

    def _moved_of(self, topic: str, group: str) -> dict[int, int]:
        moved = self._offsets.moved_of(topic, group)
        return {one: self._shown(topic, one, offset) for one, offset in moved.items()}

    def _row(self, topic: str, group: str, comma: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the offsets of a group in a topic as parts of the file, with the number of offsets in every part."""
        queues = self._offsets.queues_of(topic, group)
        if queues is None:
            return
        before = b"%b%b:{" % (comma, msgspec.json.encode(f"{topic}{SEPARATOR}{group}"))
        items = iter(list(queues.items()))
        while some := list(islice(items, ROWS_AT_ONCE)):
            yield before + b",".join([b'"%d":%d' % (one, self._shown(topic, one, at)) for one, at in some]), len(some)
            before = b","
        yield b"}" if before == b"," else before + b"}", 1

    def _shown(self, topic: str, queue_id: int, offset: int) -> int:
        return min(offset, self._end_of(topic, queue_id))

    def restore(self, data: bytes) -> None:
        """Load the table from the bytes of its file."""
        stored = fastjson.decode(data, ConsumerOffsetTable)
        self._offsets.version = stored.data_version or DataVersion()
        moved = stored.moved or {}
        for key, queues in stored.offset_table.items():
            topic, found, group = key.rpartition(SEPARATOR)
            if found:
                self._offsets.put_row(topic, group, queues)
                self._offsets.put_moved(topic, group, moved.get(key))

    # ---- the journal

    def line(self, key: Change) -> bytes:
        """Return the journal line of a change."""
        topic, group, queue_id = key
        queues = self._offsets.queues_of(topic, group)
        if queues is None:
            return msgspec.json.encode(_OffsetLine(topic, group))
        if queue_id not in queues:  # all queues, or one whose offset was deleted after its change was noted
            shown = {one: self._shown(topic, one, offset) for one, offset in queues.items()}
            return msgspec.json.encode(
                _OffsetLine(topic, group, queues=shown, moved=self._moved_of(topic, group) or None)
            )
        return msgspec.json.encode(_OffsetLine(topic, group, queue_id, self._shown(topic, queue_id, queues[queue_id])))

    def apply(self, line: bytes) -> None:
        """Apply a journal line to the table."""
        row = decode_line(line, _OffsetLine)
        if row.queue_id == ALL_QUEUES:
            self._offsets.put_row(row.topic, row.group, row.queues)
            self._offsets.put_moved(row.topic, row.group, row.moved)
        else:
            self._offsets.put_queue(row.topic, row.group, row.queue_id, row.offset)
