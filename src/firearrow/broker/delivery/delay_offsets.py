"""The delivered offset of every delay level. Pure. The file is Apache's ``delayOffset.json``.

Like an offset of a group, a written offset is never above the end of the level's queue, and is written only once the
deliveries below it are durable: after a crash a message is delivered again rather than not at all.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from firearrow import fastjson
from firearrow.broker.state.state_file import decode_line
from firearrow.broker.tables.offsets import EndOf
from firearrow.model.names import SCHEDULE_TOPIC
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.offset import DelayOffsetTable
from firearrow.protocol.bodies.version import DataVersion

PATH: Final = "config/delayOffset.json"


class DelayOffsets:
    """The offset of the next message of every level; level 1 is queue 0."""

    def __init__(self) -> None:
        self.version = DataVersion()
        self._next: dict[int, int] = {}
        self.changes: dict[int, None] = {}
        """Levels that changed since the file was written."""

    def __getitem__(self, level: int) -> int:
        return self._next.get(level, 0)

    def advance(self, level: int, offset: int) -> None:
        """Note that every message of a level below ``offset`` is delivered."""
        self._next[level] = offset
        self.changes[level] = None

    def table(self) -> DelayOffsetTable:
        """Return the whole table as Apache writes it."""
        return DelayOffsetTable(data_version=self.version, offset_table=dict(sorted(self._next.items())))

    def cut(self, end_of: EndOf) -> int:
        """Lower offsets above the end of their queue to that end; return how many were lowered."""
        cut = 0
        for level, offset in self._next.items():
            end = max(min(offset, end_of(SCHEDULE_TOPIC, level - 1)), 0)
            if end != offset:
                self.advance(level, end)
                cut += 1
        return cut

    # ---- the file

    def pieces(self) -> Iterator[bytes]:
        """Yield the file of this table."""
        self.version = DataVersion(counter=self.version.counter + 1, timestamp=self.version.timestamp)
        yield encode_body(self.table())

    def restore(self, data: bytes) -> None:
        """Load the table from the bytes of its file."""
        stored = fastjson.decode(data, DelayOffsetTable)
        self.version = stored.data_version or DataVersion()
        self._next.update(stored.offset_table)

    def line(self, key: int) -> bytes:
        """Return the journal line of a level."""
        return msgspec.json.encode((key, self._next[key]))

    def apply(self, line: bytes) -> None:
        """Apply a journal line to the table."""
        level, offset = decode_line(line, tuple[int, int])
        self._next[level] = offset
