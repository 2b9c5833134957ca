"""How far each delay level has been delivered. Pure. The file is Apache's ``delayOffset.json``.

Like the offsets of groups, what is written is never above the end of a level's queue, and is written only once the
deliveries that it counts are durable: after a crash a message is delivered again rather than not at all.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from firearrow import fastjson
from firearrow.broker.offsets import EndOf
from firearrow.broker.statefile import decode_line
from firearrow.model.names import SCHEDULE_TOPIC
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.offset import DelayOffsetTable
from firearrow.protocol.bodies.version import DataVersion

PATH: Final = "config/delayOffset.json"


class DelayOffsets:
    """The next message of each level; level 1 is queue 0."""

    def __init__(self) -> None:
        self.version = DataVersion()
        self._next: dict[int, int] = {}
        self.changes: dict[int, None] = {}
        """Levels that the file does not have as they are."""

    def __getitem__(self, level: int) -> int:
        return self._next.get(level, 0)

    def advance(self, level: int, offset: int) -> None:
        """Everything below is delivered."""
        self._next[level] = offset
        self.changes[level] = None

    def table(self) -> DelayOffsetTable:
        """All of it, as Apache writes it."""
        return DelayOffsetTable(data_version=self.version, offset_table=dict(sorted(self._next.items())))

    def cut(self, end_of: EndOf) -> int:
        """Take levels above the end of their queue back to it; return how many there were."""
        cut = 0
        for level, offset in self._next.items():
            end = max(min(offset, end_of(SCHEDULE_TOPIC, level - 1)), 0)
            if end != offset:
                self.advance(level, end)
                cut += 1
        return cut

    # ---- the file

    def pieces(self) -> Iterator[bytes]:
        """The file of this table."""
        self.version = DataVersion(counter=self.version.counter + 1, timestamp=self.version.timestamp)
        yield encode_body(self.table())

    def restore(self, data: bytes) -> None:
        """Take over what a file holds."""
        stored = fastjson.decode(data, DelayOffsetTable)
        self.version = stored.data_version or DataVersion()
        self._next.update(stored.offset_table)

    def line(self, key: int) -> bytes:
        """A level as it is now."""
        return msgspec.json.encode((key, self._next[key]))

    def apply(self, line: bytes) -> None:
        """Take over a line of the journal."""
        level, offset = decode_line(line, tuple[int, int])
        self._next[level] = offset
