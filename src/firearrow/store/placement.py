"""Rows: what the commit log passes to the views for each record.

A row, `Placed`, is a plain tuple because one is made for every message::

    (tail, physical offset, size, queue offset, store time in ms, sysFlag, properties)

Appends and recovery make the same rows. The properties are as stored; in a row from the log they end with the stamp, in
a row from an append they do not.

`UniformRows` are the rows of a batch with `UniformProperties`: a sequence that makes a row only when it is accessed, so
that a view that needs only the columns makes none.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias, final, overload

from msgspec import Struct

from firearrow.record.columns import UniformProperties


class Level(IntEnum):
    """The durability of bytes of the log."""

    WRITTEN = 0
    """The bytes survive the end of this process."""
    FLUSHED = 1
    """The bytes survive a power loss."""


WRITTEN = Level.WRITTEN
FLUSHED = Level.FLUSHED


class QueueTail:
    """One queue as the log sees it: the offset of its next message. The table of queues owns it."""

    __slots__ = ("next_offset", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, next_offset: int = 0) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next_offset = next_offset

    def __repr__(self) -> str:
        return f"QueueTail({self.topic!r}, {self.queue_id}, next_offset={self.next_offset})"


def take_offsets(tails: Sequence[QueueTail]) -> Sequence[int]:
    """Give each message the next offset of its queue. ``tails`` are the queues of the messages."""
    first, count = tails[0], len(tails)
    if tails.count(first) == count:
        first.next_offset += count
        return range(first.next_offset - count, first.next_offset)
    offsets: list[int] = []
    for tail in tails:
        offset = tail.next_offset
        offsets.append(offset)
        tail.next_offset = offset + 1
    return offsets


def give_back(tails: Sequence[QueueTail], offsets: Sequence[int]) -> None:
    """Undo `take_offsets`."""
    for tail, offset in zip(reversed(tails), reversed(offsets), strict=True):
        tail.next_offset = offset


Placed: TypeAlias = tuple[QueueTail, int, int, int, int, int, bytes]


@final
class UniformRows(Sequence[Placed]):
    """Rows of one queue, one after the other in the log and in the queue, of one time and sysFlag.

    Recognised with ``type(rows) is``: `isinstance` with a `Sequence` would cost every list a microsecond.
    """

    __slots__ = ("places", "properties", "queue_offset", "sizes", "store_ms", "sys_flag", "tail")

    def __init__(
        self,
        tail: QueueTail,
        places: Sequence[int],
        sizes: Sequence[int],
        queue_offset: int,
        store_ms: int,
        sys_flag: int,
        properties: UniformProperties,
    ) -> None:
        self.tail = tail
        self.places = places
        """The physical offsets of the records."""
        self.sizes = sizes
        self.queue_offset = queue_offset
        """The queue offset of the first message."""
        self.store_ms = store_ms
        self.sys_flag = sys_flag
        self.properties = properties

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> Placed: ...

    @overload
    def __getitem__(self, at: slice) -> list[Placed]: ...

    def __getitem__(self, at: int | slice) -> Placed | list[Placed]:
        numbers = range(len(self.places))[at]
        return self._row(numbers) if isinstance(numbers, int) else [self._row(number) for number in numbers]

    def _row(self, number: int) -> Placed:
        return (
            self.tail,
            self.places[number],
            self.sizes[number],
            self.queue_offset + number,
            self.store_ms,
            self.sys_flag,
            self.properties[number],
        )


Rows: TypeAlias = list[Placed] | UniformRows


class AppendPosition(Struct, frozen=True, gc=False):
    """The position of an append. The record is written or flushed once the log has reached ``end``."""

    physical_offset: int
    queue_offset: int
    end: int
    store_timestamp: int


class AppendedColumns(Struct, frozen=True):
    """The positions of messages of one append: consecutive in the log, each at the end of its queue."""

    physical_offsets: Sequence[int]
    queue_offsets: Sequence[int]
    end: int
    store_timestamp: int
