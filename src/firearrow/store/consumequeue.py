"""One queue: entries of 20 bytes, each the place of a message in the log.

::

    0 physical offset 8   8 size 4   12 tag code 8

Entry ``n`` of a queue lies at byte ``n * 20`` of a sequence of files that are all equally long (6,000,000 bytes unless
told otherwise) and named by the byte they start at, as 20 digits. Slots that hold no message and lie before one that
does hold the filler ``(0, 0x7FFFFFFF, 0)``; slots after the last entry are zero. Java: ``ConsumeQueue``.

A `ConsumeQueue` is the table's whole knowledge of a queue and costs some hundred bytes: 50,000 of them live in one
process, and none has a descriptor of its own. The newest entries are in ``pending`` until they are written out::

    start <= min_offset <= written <= max_offset <= next_offset
    oldest   oldest one    in the     dispatched    given to
    file     in the log    file                     appends

Entries from ``made_from`` on were made by this process, of records that it wrote or judged; those below are as good
where they are ``judged``.
"""

import struct
from bisect import bisect_left
from sys import maxsize
from typing import Final

from firearrow.store.judged import Judged
from firearrow.store.paths import CONSUME_QUEUE, segment_name
from firearrow.store.placement import QueueTail

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES: Final = ENTRY.size
FILLER_SIZE: Final = 0x7FFFFFFF
FILLER: Final = ENTRY.pack(0, FILLER_SIZE, 0)
NO_ENTRY: Final = bytes(ENTRY_BYTES)

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Its entries hold the time of delivery where others hold the tag code."""

LONGEST_NAME_BYTES: Final = 255
_EXTENDED_BELOW: Final = -(1 << 31)


class ConsumeQueue(QueueTail):
    """What is known of one queue."""

    __slots__ = (
        "durable",
        "flush_number",
        "goal",
        "judged",
        "key_prefix",
        "made_from",
        "max_offset",
        "min_known_for",
        "min_offset",
        "pending",
        "plain",
        "start",
        "written",
    )

    def __init__(self, topic: str, queue_id: int, start: int = 0, max_offset: int = 0) -> None:
        super().__init__(topic, queue_id, max_offset)
        self.start = start
        self.min_offset = start
        self.min_known_for = -1
        """Start of the log for which `min_offset` was looked up."""
        self.max_offset = max_offset
        self.written = max_offset
        self.durable = max_offset
        """Entries below survive the loss of power."""
        self.goal = max_offset
        """What `durable` becomes when the flush of `flush_number` has ended."""
        self.flush_number = 0
        self.made_from = max_offset
        """The first entry that was not there when the process started."""
        self.judged: Judged | None = None
        """What was read and judged of the entries that were there; None before the first."""
        self.pending: bytearray | None = None
        self.plain = topic != SCHEDULE_TOPIC and is_storable(topic, queue_id)
        """Whether an entry is made without a second look."""
        self.key_prefix = -1
        """Hash of ``topic#`` as the index needs it; -1 until it was needed."""

    def end_at(self, end: int) -> None:
        """Let a queue end earlier: nothing of it waits in memory."""
        self.max_offset = self.written = self.durable = self.goal = self.next_offset = self.made_from = end

    def good_until(self, offset: int) -> int:
        """Up to where entries and records need no further judgement from an offset on; the offset when they do."""
        if offset >= self.made_from:
            return maxsize
        until = offset if self.judged is None else self.judged.until(offset)
        return maxsize if until >= self.made_from else until

    def was_judged(self, first: int, end: int) -> None:
        """Entries from ``first`` to before ``end`` lead to good records of theirs."""
        if first < end:
            self.judged = self.judged or Judged()
            self.judged.add(first, end)

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic!r}, {self.queue_id}, {self.start}..{self.max_offset})"


def is_storable(topic: str, queue_id: int) -> bool:
    """Whether a queue can have a directory: a name from the log must not lead anywhere else."""
    if queue_id < 0 or topic in ("", ".", "..") or "/" in topic or "\0" in topic:
        return False
    return len(topic.encode("utf-8", "replace")) <= LONGEST_NAME_BYTES


def queue_directory(topic: str, queue_id: int) -> str:
    """The directory of a queue's files."""
    return f"{CONSUME_QUEUE}/{topic}/{queue_id}"


def queue_path(topic: str, queue_id: int, first: int) -> str:
    """The path of the queue file whose first entry is ``first``."""
    return f"{CONSUME_QUEUE}/{topic}/{queue_id}/{segment_name(first * ENTRY_BYTES)}"


def is_filler(size: int) -> bool:
    """Whether an entry of this size stands for no message at all."""
    return size == FILLER_SIZE


def entries_below(entries: bytes | bytearray, position: int) -> int:
    """How many of some entries, in order, lead to records below a place in the log; fillers count with what follows."""

    def place(number: int) -> int:
        for physical, size, _ in ENTRY.iter_unpack(memoryview(entries)[number * ENTRY_BYTES :]):
            if not is_filler(size):
                return int(physical)
        return maxsize

    count = len(entries) // ENTRY_BYTES
    return count if place(count - 1) < position else bisect_left(range(count), position, key=place)


def matches(tag_code: int, wanted: frozenset[int]) -> bool:
    """Whether an entry may be of one of the wanted tags. The address of an extended entry says nothing: it may."""
    return tag_code < _EXTENDED_BELOW or tag_code in wanted
