"""One consume queue: entries of 20 bytes, each with the position of a record in the log.

::

    0 physical offset 8   8 size 4   12 tag code 8

Entry ``n`` of a queue lies at byte ``n * 20`` of a sequence of files of equal length (6,000,000 bytes by default). A
file is named by the byte it starts at, as 20 digits. Slots without a message before the last entry hold the filler
``(0, 0x7FFFFFFF, 0)``; slots after the last entry are zero. Java: ``ConsumeQueue``.

A `ConsumeQueue` is all that the table keeps of a queue and takes a few hundred bytes: a process may have 50,000, none
with a descriptor of its own. The newest entries are in ``pending`` until they are written::

    start <= min_offset <= written <= max_offset <= next_offset
    oldest   oldest one    in the     dispatched    given to
    file     in the log    file                     appends

Entries from ``made_from`` on were made by this process, of records that it wrote or checked; entries below are as good
if they are ``judged``.
"""

import struct
from bisect import bisect_left
from sys import maxsize
from typing import Final

from firearrow.store.paths import CONSUME_QUEUE, segment_name
from firearrow.store.placement import QueueTail
from firearrow.store.queue.judged import JudgedSpans

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES: Final = ENTRY.size
FILLER_SIZE: Final = 0x7FFFFFFF
FILLER: Final = ENTRY.pack(0, FILLER_SIZE, 0)
NO_ENTRY: Final = bytes(ENTRY_BYTES)

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""The topic of delayed messages: its entries hold the time of delivery in place of the tag code."""

LONGEST_NAME_BYTES: Final = 255
_EXTENDED_BELOW: Final = -(1 << 31)


class ConsumeQueue(QueueTail):
    """The state of one queue."""

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
        """The start of the log for which `min_offset` was computed."""
        self.max_offset = max_offset
        self.written = max_offset
        self.durable = max_offset
        """Entries below survive a power loss."""
        self.goal = max_offset
        """The value of `durable` after the flush `flush_number`."""
        self.flush_number = 0
        self.made_from = max_offset
        """The first entry that this process made."""
        self.judged: JudgedSpans | None = None
        """The older entries that were read and judged; None before the first."""
        self.pending: bytearray | None = None
        self.plain = topic != SCHEDULE_TOPIC and is_storable(topic, queue_id)
        """Whether dispatch may add an entry without `Queues.put`."""
        self.key_prefix = -1
        """The hash of ``topic#`` times 31**32, as the index needs it; -1 until it is first needed."""

    def end_at(self, end: int) -> None:
        """Set an earlier end of a queue that has nothing pending."""
        self.max_offset = self.written = self.durable = self.goal = self.next_offset = self.made_from = end

    def good_until(self, offset: int) -> int:
        """The end of the entries from ``offset`` on that need no check; ``offset`` itself when the first needs one."""
        if offset >= self.made_from:
            return maxsize
        until = offset if self.judged is None else self.judged.until(offset)
        return maxsize if until >= self.made_from else until

    def was_judged(self, first: int, end: int) -> None:
        """Note that the entries from ``first`` to before ``end`` lead to their records, which are good."""
        if first < end:
            self.judged = self.judged or JudgedSpans()
            self.judged.add(first, end)

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic!r}, {self.queue_id}, {self.start}..{self.max_offset})"


def is_storable(topic: str, queue_id: int) -> bool:
    """Whether a queue can have a directory: a topic from the log must not lead to a path outside."""
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
    """Whether an entry of this size is a filler, which stands for no message."""
    return size == FILLER_SIZE


def entries_below(entries: bytes | bytearray, position: int) -> int:
    """Return the number of leading entries with records below an offset; fillers count with the entry behind them."""

    def place(number: int) -> int:
        for physical, size, _ in ENTRY.iter_unpack(memoryview(entries)[number * ENTRY_BYTES :]):
            if not is_filler(size):
                return int(physical)
        return maxsize

    count = len(entries) // ENTRY_BYTES
    return count if place(count - 1) < position else bisect_left(range(count), position, key=place)


def matches(tag_code: int, wanted: frozenset[int]) -> bool:
    """Whether an entry may have one of the wanted tags. An extended entry holds an address instead: it always may."""
    return tag_code < _EXTENDED_BELOW or tag_code in wanted
