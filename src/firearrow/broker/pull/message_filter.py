"""Filters that decide by the properties of a message: SQL92 expressions, compiled once. Pure.

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

    program: Program
    marks: tuple[tuple[str, bytes], ...] = ()
    """The names that the program looks at, each with the bytes before its value; empty when there are many."""

    @classmethod
    def of(cls, program: Program) -> "MessageFilter":
        """Return the filter of a program."""
        few = program.names if len(program.names) <= FEW_NAMES else ()
        return cls(program, tuple((name, name.encode() + b"\x01") for name in few))

    def passes(self, properties: bytes) -> bool:
        """Whether a message with these properties, as a record holds them, passes."""
        if not self.marks:
            return self.program.matches(decode_properties(properties))
        values = {
            name: value.decode("utf-8", "replace") for name, mark in self.marks if (value := field(properties, mark))
        }
        return self.program.matches(values)


class RetryFilter(MessageFilter, frozen=True, eq=False, kw_only=True):
    """The filter of a retry topic: a message is judged by the filter of the topic that it came from.

    Java: ``ExpressionForRetryMessageFilter``.
    """

    find: Callable[[str], MessageFilter | None]
    """Returns the filter of a topic for the same group; None when the group has none."""

    def passes(self, properties: bytes) -> bool:
        """Whether a message passes the filter of its first topic."""
        found = self.find(decode_properties(properties).get(keys.RETRY_TOPIC, ""))
        return found is None or found.passes(properties)


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


def _passing(buffers: Sequence[Buffer], wanted: MessageFilter) -> Iterator[tuple[int, Buffer]]:
    passes = wanted.passes
    for data in buffers:
        for offset, begin, end, properties in _records(data):
            if passes(properties):
                yield offset, data[begin:end]
