"""The offsets of groups as their file has them: Apache's ``consumerOffset.json``, and lines of its journal. Pure.

The file: ``{"dataVersion": {...}, "offsetTable": {"topic@group": {queue: offset}}}``. A line: topic, group, queue and
offset; or topic, group and a map of all queues; or topic and group alone, when the offsets are gone. Nothing is written
above the end of a queue.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from firearrow import fastjson
from firearrow.broker.offsets import ALL_QUEUES, SEPARATOR, Change, EndOf, OffsetTable
from firearrow.broker.statefile import ROWS_AT_ONCE, decode_line
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.offset import ConsumerOffsetTable
from firearrow.protocol.bodies.version import DataVersion

PATH: Final = "config/consumerOffset.json"


class _Line(msgspec.Struct, array_like=True):
    topic: str
    group: str
    queue_id: int = ALL_QUEUES
    offset: int = 0
    queues: dict[int, int] | None = None


class OffsetRows:
    """The offsets of a table, written and read."""

    def __init__(self, offsets: OffsetTable, end_of: EndOf) -> None:
        self._offsets = offsets
        self._end_of = end_of

    @property
    def changes(self) -> dict[Change, None]:
        """What the file does not have as it is."""
        return self._offsets.changes

    @changes.setter
    def changes(self, changes: dict[Change, None]) -> None:
        self._offsets.changes = changes

    # ---- the file

    def pieces(self) -> Iterator[bytes]:
        """The file, so many offsets a piece."""
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
        gathered.append(b"}}")
        yield b"".join(gathered)

    def _row(self, topic: str, group: str, comma: bytes) -> Iterator[tuple[bytes, int]]:
        """What is written of a group in a topic, in parts, and how many offsets each holds."""
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
        """Take over what a file holds."""
        stored = fastjson.decode(data, ConsumerOffsetTable)
        self._offsets.version = stored.data_version or DataVersion()
        for key, queues in stored.offset_table.items():
            topic, found, group = key.rpartition(SEPARATOR)
            if found:
                self._offsets.put_row(topic, group, queues)

    # ---- the journal

    def line(self, key: Change) -> bytes:
        """What is written of a change."""
        topic, group, queue_id = key
        queues = self._offsets.queues_of(topic, group)
        if queues is None:
            return msgspec.json.encode(_Line(topic, group))
        if queue_id == ALL_QUEUES:
            shown = {one: self._shown(topic, one, offset) for one, offset in queues.items()}
            return msgspec.json.encode(_Line(topic, group, queues=shown))
        return msgspec.json.encode(_Line(topic, group, queue_id, self._shown(topic, queue_id, queues.get(queue_id, 0))))

    def apply(self, line: bytes) -> None:
        """Take over a line of the journal."""
        row = decode_line(line, _Line)
        if row.queue_id == ALL_QUEUES:
            self._offsets.put_row(row.topic, row.group, row.queues)
        else:
            self._offsets.put_queue(row.topic, row.group, row.queue_id, row.offset)
