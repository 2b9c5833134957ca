"""Where a record went: what travels from the commit log to the views that are built behind it.

`Placed` is a plain tuple because one is made for every message::

    (tail, physical offset, size, queue offset, store time in ms, sysFlag, properties)

The same row comes from an append and from reading the log again, so running and recovering feed the views alike. The
properties are as stored; read from the log they end with the stamp, from an append they do not have it.
"""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct


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


Placed: TypeAlias = tuple[QueueTail, int, int, int, int, int, bytes]


class Appended(Struct, frozen=True, gc=False):
    """The place that an append got. Wait for ``end`` to know that it is written or flushed."""

    physical_offset: int
    queue_offset: int
    end: int
    store_timestamp: int


class AppendedBatch(Struct, frozen=True):
    """The places that a batch got: one after the other in one segment, and with consecutive queue offsets."""

    physical_offsets: list[int]
    queue_offset: int
    end: int
    store_timestamp: int
