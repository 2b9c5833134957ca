"""How far each delay level has been delivered. Pure. The file is Apache's ``delayOffset.json``.

Like the offsets of groups, what is written is never above the end of a level's queue, and is written only once the
deliveries that it counts are durable: after a crash a message is delivered again rather than not at all.
"""

from typing import Final

from firearrow import fastjson
from firearrow.broker.offsets import EndOf
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

    def __getitem__(self, level: int) -> int:
        return self._next.get(level, 0)

    def advance(self, level: int, offset: int) -> None:
        """Everything below is delivered."""
        self._next[level] = offset

    def table(self) -> DelayOffsetTable:
        """All of it, as Apache writes it."""
        return DelayOffsetTable(data_version=self.version, offset_table=dict(sorted(self._next.items())))

    def encode(self) -> bytes:
        """The file of this table."""
        self.version = DataVersion(counter=self.version.counter + 1, timestamp=self.version.timestamp)
        return encode_body(self.table())

    def restore(self, stored: DelayOffsetTable, end_of: EndOf) -> int:
        """Take over what a file holds; return how many levels were above the end of their queue and were cut."""
        self.version = stored.data_version or DataVersion()
        cut = 0
        for level, offset in stored.offset_table.items():
            self._next[level] = max(min(offset, end_of(SCHEDULE_TOPIC, level - 1)), 0)
            cut += self._next[level] < offset
        return cut


def decode_delay_offsets(data: bytes) -> DelayOffsetTable:
    """The table in a file."""
    return fastjson.decode(data, DelayOffsetTable)
