"""Filters that decide by the record of a message: expressions, compiled once. Pure.

Tags are filtered by the codes in the entries of a queue. These filters need the records themselves: the reader scans a
bounded number of records, and `kept` leaves those that pass.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec import field as msgspec_field

from firearrow.expression.program import Program
from firearrow.model import keys
from firearrow.model.flags import BORN_HOST_V6, HOST_V6_MASK, STORE_HOST_V6
from firearrow.record.layout import HEAD_SIZE, MAGIC_V1, SHORT, V6_EXTRA, Buffer
from firearrow.record.properties import decode_properties
from firearrow.store.property_fields import field
from firearrow.store.read.queue_reader import ReadResult, ReadStatus

FEW_NAMES: Final = 4
"""Up to so many properties are searched for one by one; for more, all properties are decoded."""

LOOKED_AT_UNTIMED: Final = 4
"""Records of an SQL92 scan between two looks at the clock."""
REMEMBERED_VERDICTS: Final = 512
"""The most verdicts that a filter remembers; then it begins anew."""
REMEMBERED_BYTES: Final = 64
"""The longest values, in all, whose verdict is remembered."""

_Raw = bytes | tuple[bytes, ...]
"""The values that a filter looks at, as records hold them; empty for a property that is missing."""
_head: Final = struct.Struct(">iI12xq8xi44xi").unpack_from
"""Size, magic, queue offset, sysFlag and, when both hosts are IPv4, the length of the body."""
_int: Final = struct.Struct(">i").unpack_from


class MessageFilter(Struct, frozen=True, eq=False):
    """A compiled expression that decides about records. Equal only to itself, so that parked pulls can share it."""

    @property
    def steps(self) -> int:
        """The steps of an evaluation, as a measure of the filter's size."""
        raise NotImplementedError

    def own(self) -> "MessageFilter":
        """Return another filter of the same expression, which is not equal to this one."""
        raise NotImplementedError

    def passes(self, properties: bytes) -> bool:
        """Whether a message with these properties passes, or may pass if they do not tell."""
        raise NotImplementedError

    def admits(self, _record: Buffer, properties: bytes) -> bool:
        """Whether a message passes."""
        return self.passes(properties)

    def begin_scan(self) -> None:
        """Begin the scan of one pull."""

    @property
    def is_spent(self) -> bool:
        """Whether the present scan has used up its time."""
        return False


class ScanClock:
    """The time that the scan of one pull by SQL92 may take; the scans of a broker share it, one after the other."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self.most_ns = 0
        self._began = 0

    def begin(self) -> None:
        """Begin a scan."""
        self._began = self._ticks()

    @property
    def is_over(self) -> bool:
        """Whether the present scan has used up its time."""
        return self._ticks() - self._began > self.most_ns


class PropertyFilter(MessageFilter, frozen=True, eq=False):
    """An SQL92 expression, which looks at properties alone."""

    program: Program
    clock: ScanClock | None = None
    marks: tuple[tuple[str, bytes], ...] = ()
    """The names that the program looks at, each with the bytes before its value; empty when there are many."""
    verdicts: dict["_Raw", bool] = msgspec_field(default_factory=dict)
    """Verdicts by values: messages often have the same ones, and looking them up takes less time than evaluating."""

    @classmethod
    def of(cls, program: Program, clock: ScanClock | None = None) -> "PropertyFilter":
        """Return the filter of a program."""
        few = program.names if len(program.names) <= FEW_NAMES else ()
        return cls(program, clock, tuple((name, name.encode() + b"\x01") for name in few))

    @property
    def steps(self) -> int:
        """The most steps that an evaluation takes."""
        return self.program.steps

    def own(self) -> "PropertyFilter":
        """Return another filter of the same expression."""
        return PropertyFilter(self.program, self.clock, self.marks, {})

    def passes(self, properties: bytes) -> bool:
        """Whether a message with these properties, as a record holds them, passes."""
        marks, verdicts = self.marks, self.verdicts
        if len(marks) == 1:
            raw: _Raw = field(properties, marks[0][1])
        elif marks:
            raw = tuple([field(properties, mark) for _, mark in marks])
        else:
            return self.program.matches(decode_properties(properties))
        verdict = verdicts.get(raw)
        return self._judge(raw) if verdict is None else verdict

    def _judge(self, raw: "_Raw") -> bool:
        """Evaluate the program for values as records hold them; an empty value is none."""
        values = (raw,) if isinstance(raw, bytes) else raw
        named = zip(self.marks, values, strict=True)
        verdict = self.program.matches({mark[0]: value.decode("utf-8", "replace") for mark, value in named if value})
        if sum(map(len, values)) <= REMEMBERED_BYTES:
            if len(self.verdicts) >= REMEMBERED_VERDICTS:
                self.verdicts.clear()
            self.verdicts[raw] = verdict
        return verdict


class RetryFilter(MessageFilter, frozen=True, eq=False):
    """The filter of a retry topic: a message is judged by the filter of the topic that it came from.

    Java: ``ExpressionForRetryMessageFilter``.
    """

    find: Callable[[str], MessageFilter | None]
    """Returns the filter of a topic for the same group; None when the group has none."""
    steps: int = 0
    scanned: dict[MessageFilter, None] = msgspec_field(default_factory=dict)
    """The filters that judged messages of the present scan; each has begun it."""

    def begin_scan(self) -> None:
        """Begin the scan of one pull: each filter begins it when it judges its first message."""
        self.scanned.clear()

    @property
    def is_spent(self) -> bool:
        """Whether a filter has used up its time in the present scan."""
        return any(found.is_spent for found in self.scanned)

    def own(self) -> "RetryFilter":
        """Return another filter that finds the same filters."""
        return RetryFilter(self.find, self.steps)

    def passes(self, properties: bytes) -> bool:
        """Whether a message passes the filter of its first topic, or may pass."""
        found = self._found(properties)
        return found is None or found.passes(properties)

    def admits(self, record: Buffer, properties: bytes) -> bool:
        """Whether a message passes the filter of its first topic."""
        found = self._found(properties)
        return found is None or found.admits(record, properties)

    def _found(self, properties: bytes) -> MessageFilter | None:
        found = self.find(decode_properties(properties).get(keys.RETRY_TOPIC, ""))
        if found is not None and found not in self.scanned:
            self.scanned[found] = None
            found.begin_scan()
        return found


def _records(buffer: Buffer) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the queue offset, begin, end and properties of every record of a buffer, which the store has checked.

    Plain tuples and few names, because a scan looks at hundreds of records. Properties are the end of a record.
    """
    data = buffer if isinstance(buffer, bytes) else bytes(buffer)
    begin, length = 0, len(data)
    while begin < length:
        size, magic, offset, sys_flag, body = _head(data, begin)
        at = begin + HEAD_SIZE + body
        if sys_flag & HOST_V6_MASK:
            at = begin + HEAD_SIZE
            at += V6_EXTRA * (bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6))
            at += _int(data, at - 4)[0]
        at += 3 + data[at] if magic == MAGIC_V1 else 4 + SHORT.unpack_from(data, at)[0]
        end = begin + size
        yield offset, begin, end, data[at:end]
        begin = end


def kept(pulled: ReadResult, wanted: MessageFilter, most: int, max_bytes: int) -> ReadResult:
    """Return a read with the records that pass, at most ``most`` and ``max_bytes`` but at least one if one passes.

    The next offset is behind the last record that was looked at, so that a pull moves on whether something passes or
    not.
    """
    if pulled.status is not ReadStatus.FOUND:
        return pulled
    buffers: list[Buffer] = []
    total, next_offset = 0, pulled.next_offset
    for offset, record in _passing(pulled.buffers, wanted):
        if record is None:
            next_offset = offset
            break
        if buffers and total + len(record) > max_bytes:
            next_offset = offset
            break
        buffers.append(record)
        total += len(record)
        if len(buffers) >= most:
            next_offset = offset + 1
            break
    status = ReadStatus.FOUND if buffers else ReadStatus.NO_MATCHED_MESSAGE
    return pulled._replace(status=status, next_offset=next_offset, buffers=buffers, messages=len(buffers), size=total)


def _passing(buffers: Sequence[Buffer], wanted: MessageFilter) -> Iterator[tuple[int, Buffer | None]]:
    """Yield the records that pass; None instead of a record says that the scan must end before it."""
    if isinstance(wanted, PropertyFilter):
        yield from _passing_properties(buffers, wanted)
        return
    wanted.begin_scan()
    for data in buffers:
        for offset, begin, end, properties in _records(data):
            if wanted.is_spent:
                yield offset, None
                return
            record = data[begin:end]
            if wanted.admits(record, properties):
                yield offset, record


def _passing_properties(buffers: Sequence[Buffer], wanted: PropertyFilter) -> Iterator[tuple[int, Buffer | None]]:
    passes, clock, looked_at = wanted.passes, wanted.clock, 0
    if clock is not None:
        clock.begin()
    for data in buffers:
        for offset, begin, end, properties in _records(data):
            if passes(properties):
                yield offset, data[begin:end]
            looked_at += 1
            if clock is not None and not looked_at % LOOKED_AT_UNTIMED and clock.is_over:
                yield offset + 1, None
                return
