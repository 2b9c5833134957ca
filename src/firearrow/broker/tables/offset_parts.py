"""Parts of the offset table, as a replica of ours is told the table: no answer holds all rows of a large one. Pure.

A part has the rows that changed after a mark, in the order of their changes, up to `PART_BYTES`, and the mark of its
last row. The replica asks for the rows after that mark until a part says that there are no more. A row that changes
meanwhile gets a higher number, and is told once more, in this part or a later one, also when the row is deleted: of two
texts of a row the later counts. A part is the last if no change was left to tell when its last row was told. When
deleted rows are forgotten meanwhile, it is not the last: its mark is not known then, and the replica is told all rows.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from firearrow.broker.state.state_file import ROWS_AT_ONCE
from firearrow.broker.tables.offsets import SEPARATOR, OffsetTable
from firearrow.protocol.bodies.body import encode_body

PART_BYTES: Final = 4 << 20
"""A part ends after the row that reaches this size."""
PART_ROWS: Final = 50_000
"""The most rows of a part."""


class OffsetPart:
    """The rows that changed after a mark, or the first of all rows."""

    def __init__(self, offsets: OffsetTable, since: str | None) -> None:
        """``since`` is the mark; when it is not known, the part is the first of all rows."""
        self._offsets = offsets
        self._changed = offsets.changed_rows
        self._name = self._changed.name
        after = self._changed.number_of(since)
        self.since: Final = None if after is None else since
        """The mark after which the rows changed; None when the part is the first of all rows."""
        self.mark = self._changed.mark
        """The mark of the last row, once the pieces are taken."""
        self.has_more = False
        """Whether there are further rows, once the pieces are taken."""
        self._first_end = self._changed.number
        """The number at which a part of all rows ends: it tells no row as deleted, and some may be deleted later."""
        self._number = after or 0
        """The number of the last row that was looked at."""
        self._count = 0
        self._size = 0
        self._moved: dict[str, dict[int, int]] = {}

    def pieces(self) -> Iterator[bytes]:
        """Yield the rows in pieces, as `OffsetTable.pieces` does: the table may change between two pieces."""
        yield b'{"dataVersion":%b,"offsetTable":{' % encode_body(self._offsets.version)
        comma, is_open = b"", True
        while is_open:
            texts = b",".join(self._next_texts())
            left = self._changed.after(self._number, 1)
            is_open = bool(left) and not self._is_full(left[0][1])
            self.has_more = bool(left) or self._name != self._changed.name
            self.mark = f"{self._name}:{self._number if self.has_more else self._changed.number}"
            yield comma + texts if texts else b""
            comma = b"," if texts else comma
        yield b'},"firearrowMoved":%b}' % msgspec.json.encode(self._moved) if self._moved else b"}}"

    def _is_full(self, number: int) -> bool:
        """Whether the part ends before the row with a number."""
        is_large = self._size >= PART_BYTES or self._count >= PART_ROWS
        return is_large or (self.since is None and number > self._first_end)

    def _next_texts(self) -> Iterator[bytes]:
        for (topic, group), number in self._changed.after(self._number, ROWS_AT_ONCE):
            if self._is_full(number):
                break
            self._number = number
            self._count += 1
            name = f"{topic}{SEPARATOR}{group}"
            self._moved.pop(name, None)
            if self.since is None and self._offsets.queues_of(topic, group) is None:
                continue
            text = self._offsets.row_text(topic, group)
            yield text
            moved = self._offsets.moved_of(topic, group)
            if moved:
                self._moved[name] = dict(moved)
            self._size += len(text) + (len(msgspec.json.encode(moved)) if moved else 0)
