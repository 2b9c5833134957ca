"""Where a record went: what travels from the commit log to the views that are built behind it.

`Placed` is a plain tuple because one is made for every message::

    (tail, physical offset, size, queue offset, store time in ms, sysFlag, properties)

The same row comes from an append and from reading the log again, so running and recovering feed the views alike. The
properties are as stored; read from the log they end with the stamp, from an append they do not have it.

`PlacedRun` is the rows of a batch whose messages are alike. It reads as a sequence of rows, which are made when asked
for; who can do with the columns does not ask.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias, final, overload

from msgspec import Struct

from firearrow.record.alike import AlikeProperties


class Level(IntEnum):
    """How far bytes of the log have come."""

    WRITTEN = 0
    """They survive the end of this process."""
    FLUSHED = 1
    """They survive the loss of power."""


WRITTEN = Level.WRITTEN
FLUSHED = Level.FLUSHED


class QueueTail:
    """One queue as the log sees it: where its next message goes. The queue table makes one and keeps it."""

    __slots__ = ("next_offset", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, next_offset: int = 0) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next_offset = next_offset

    def __repr__(self) -> str:
        return f"QueueTail({self.topic!r}, {self.queue_id}, next_offset={self.next_offset})"


def take_offsets(tails: Sequence[QueueTail]) -> list[int]:
    """Give each of some messages the next place in its queue."""
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
class PlacedRun(Sequence[Placed]):
    """Rows of one queue, one after the other in the log and in the queue, of one size, time and sysFlag.

    Told from a list by its type: `isinstance` of a `Sequence` would cost every list a microsecond.
    """

    __slots__ = ("places", "properties", "queue_offset", "size", "store_ms", "sys_flag", "tail")

    def __init__(
        self,
        tail: QueueTail,
        physical: int,
        size: int,
        queue_offset: int,
        store_ms: int,
        sys_flag: int,
        properties: AlikeProperties,
    ) -> None:
        self.tail = tail
        self.places = range(physical, physical + len(properties.ends) * size, size)
        """Where the records lie."""
        self.size = size
        """Of each record."""
        self.queue_offset = queue_offset
        """Of the first message."""
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
            self.size,
            self.queue_offset + number,
            self.store_ms,
            self.sys_flag,
            self.properties.of(number),
        )


Rows: TypeAlias = list[Placed] | PlacedRun


class Appended(Struct, frozen=True, gc=False):
    """The place that an append got. Wait for ``end`` to know that it is written or flushed."""

    physical_offset: int
    queue_offset: int
    end: int
    store_timestamp: int


class AppendedTogether(Struct, frozen=True):
    """The places that messages of several queues got, each in its queue."""

    physical_offsets: Sequence[int]
    queue_offsets: Sequence[int]
    end: int


class AppendedBatch(Struct, frozen=True):
    """The places that a batch got: one after the other in one segment, and with consecutive queue offsets."""

    physical_offsets: Sequence[int]
    queue_offset: int
    end: int
    store_timestamp: int
