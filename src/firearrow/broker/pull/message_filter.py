"""Filters that decide by the record of a message: expressions, compiled once. Pure.

Tags are filtered by the codes in the entries of a queue. These filters need the records themselves: the reader scans a
bounded number of records, and `kept` leaves those that pass.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from firearrow.expression.program import Program
from firearrow.model import keys
from firearrow.model.flags import BORN_HOST_V6, STORE_HOST_V6
from firearrow.record.layout import HEAD_SIZE, MAGIC_V1, SHORT, V6_EXTRA, Buffer
from firearrow.record.properties import decode_properties
from firearrow.store.property_fields import field
from firearrow.store.read.queue_reader import ReadResult, ReadStatus

FEW_NAMES: Final = 4
"""Up to so many properties are searched for one by one; for more, all properties are decoded."""

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


class PropertyFilter(MessageFilter, frozen=True, eq=False):
    """An SQL92 expression, which looks at properties alone."""

    program: Program
    marks: tuple[tuple[str, bytes], ...] = ()
    """The names that the program looks at, each with the bytes before its value; empty when there are many."""

    @classmethod
    def of(cls, program: Program) -> "PropertyFilter":
        """Return the filter of a program."""
        few = program.names if len(program.names) <= FEW_NAMES else ()
        return cls(program, tuple((name, name.encode() + b"\x01") for name in few))

    @property
    def steps(self) -> int:
        """The most steps that an evaluation takes."""
        return self.program.steps

    def own(self) -> "PropertyFilter":
        """Return another filter of the same expression."""
        return PropertyFilter(self.program, self.marks)

    def passes(self, properties: bytes) -> bool:
        """Whether a message with these properties, as a record holds them, passes."""
        if not self.marks:
            return self.program.matches(decode_properties(properties))
        values = {
            name: value.decode("utf-8", "replace") for name, mark in self.marks if (value := field(properties, mark))
        }
        return self.program.matches(values)


class RetryFilter(MessageFilter, frozen=True, eq=False):
    """The filter of a retry topic: a message is judged by the filter of the topic that it came from.

    Java: ``ExpressionForRetryMessageFilter``.
    """

    find: Callable[[str], MessageFilter | None]
    """Returns the filter of a topic for the same group; None when the group has none."""
    steps: int = 0

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
        return self.find(decode_properties(properties).get(keys.RETRY_TOPIC, ""))


class _Record(NamedTuple):
    """One record in a buffer: its queue offset, its place and its properties."""

    offset: int
    begin: int
    end: int
    properties: bytes


def _records(data: Buffer) -> Iterator[_Record]:
    """Yield the records of a buffer, which the store has checked."""
    begin, length = 0, len(data)
    while begin < length:
        size, magic, offset, sys_flag, body = _head(data, begin)
        at = begin + HEAD_SIZE
        if sys_flag & (BORN_HOST_V6 | STORE_HOST_V6):
            at += V6_EXTRA * (bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6))
            (body,) = _int(data, at - 4)
        at += body
        at += 1 + data[at] if magic == MAGIC_V1 else 2 + SHORT.unpack_from(data, at)[0]
        (properties,) = SHORT.unpack_from(data, at)
        yield _Record(offset, begin, begin + size, bytes(data[at + 2 : at + 2 + properties]))
        begin += size


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
        passes = wanted.passes
        for data in buffers:
            for offset, begin, end, properties in _records(data):
                if passes(properties):
                    yield offset, data[begin:end]
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
