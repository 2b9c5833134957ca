"""Many sends as one event: learns the shapes of a connection's sends, and reads sends by their shapes.

A producer of many messages sends headers that hardly differ (`send_shape`). When several reads have begun with sends
whose headers have one length, a shape is learned from the next, if the server wants such sends as one event, and if the
peer has proved who it is where the server asks for that. The shapes of all connections are bounded in bytes. From then
on a read that begins with several such sends gives one `SendsArrived` instead of a `RequestArrived` for each. All other
frames, and all behind the first send that differs, are left for the decoder.

A producer of transactions sends half messages and the ends of earlier transactions in turn. The ends are taken from
between the sends and left for the decoder too: an end names a transaction whose send was answered, so nothing depends
on the order of the two. Pure.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from firearrow.protocol.frame import LENGTH_SIZE, PREFIX_SIZE
from firearrow.protocol.requests.message.send import Send, SendBatchMessage, SendMessage, SendMessageV2, ShortSend
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.protocol.send_shape import SendColumns, SendShape
from firearrow.protocol.shedding import beginnings

SEND_CODES: Final = frozenset({int(SendMessage.code), int(SendMessageV2.code), int(SendBatchMessage.code)})
SEND_BEGINNINGS: Final = beginnings(SEND_CODES)
"""The bytes after a frame's prefix by which sends are recognised."""
END_BEGINNINGS: Final = beginnings([int(EndTransaction.code)])
BEGINNINGS: Final = SEND_BEGINNINGS + END_BEGINNINGS
"""The bytes after the first prefix of a read that may hold many sends."""
LEARNED_AFTER: Final = 4
"""Reads that begin with a header of one length before its shape is learned; doubles whenever the shape does not fit."""
WORTH_IT: Final = 4
"""Fewer sends are decoded one by one: columns cost 30 us at once, and half as much as decoding for each message."""
LENGTHS_MAX: Final = 64
"""The most header lengths that are tracked for a connection."""
SHAPES_BYTES_MAX: Final = 16 << 20
"""The most bytes of shapes that are kept for all connections of a server; at the bound all are forgotten."""
LEARNED_HEADER_MAX: Final = 4096
"""The longest header whose shape is learned."""
SHAPE_BYTES: Final = 2048
"""The memory of a shape besides four copies of its header: in parts, in the request, and in its properties."""

Wanted = Callable[[Send | ShortSend], bool]
"""Returns whether a server wants sends like this one as one event."""


class SendsArrived(msgspec.Struct, gc=False):
    """The peer sent several messages whose headers have one shape."""

    shape: SendShape
    columns: SendColumns
    data: bytes
    """The frames as they came."""


class SendShapes:
    """The shapes that a server has learned, for all connections: producers of one group send the same headers."""

    def __init__(self, is_wanted: Wanted) -> None:
        self._is_wanted = is_wanted
        self._numbers: dict[object, int] = {}
        self._next = 0
        self._held = 0
        self.by_number: dict[int, SendShape] = {}
        """The shapes. Connections keep numbers: a shape that is forgotten here is held nowhere else."""

    def learn(self, word: int, data: bytes) -> int | None:
        """Return the number of the shape of the first send in ``data``; None if the shape is uncertain or unwanted."""
        size = word & 0xFFFFFF
        if word >> 25 or size > LEARNED_HEADER_MAX:
            return None
        shape = SendShape.learn(word >> 24, data[PREFIX_SIZE : PREFIX_SIZE + size])
        if shape is None or not self._is_wanted(shape.request):
            return None
        known = self._numbers.get(shape.identity)
        if known is not None:
            return known
        self._held += 4 * size + SHAPE_BYTES
        if self._held > SHAPES_BYTES_MAX:
            self._numbers.clear()
            self.by_number.clear()
            self._held = 4 * size + SHAPE_BYTES
        self._next += 1
        self._numbers[shape.identity] = self._next
        self.by_number[self._next] = shape
        return self._next


class _Length(msgspec.Struct):
    """The shape learned from a connection's sends with headers of one encoding and length."""

    shape: int = 0
    """The number of the shape that was learned; 0 while there is none."""
    misses: int = 0
    next_try: int = LEARNED_AFTER


class SendReader:
    """Reads the sends of one connection by their shapes."""

    def __init__(self, shapes: SendShapes) -> None:
        self._shapes = shapes
        self._lengths: dict[bytes, _Length] = {}

    def read(self, data: bytes) -> tuple[list[SendsArrived], bytes]:
        """Return the sends at the beginning of ``data`` as events, and the rest, ends of transactions first."""
        events: list[SendsArrived] = []
        ends: bytes | None = None
        by_number = self._shapes.by_number
        while len(data) > PREFIX_SIZE and len(data) >= WORTH_IT * int.from_bytes(data[:4]):
            if ends is None and data.startswith(END_BEGINNINGS, PREFIX_SIZE):
                ends, data = _ends_apart(data)
                continue
            seen = self._learned(data[4:PREFIX_SIZE])
            shape = by_number.get(seen.shape)
            columns = None if shape is None else shape.cut(data)
            if shape is None or columns is None:
                self._missed(seen, data)
                break
            events.append(SendsArrived(shape, columns, data[: columns.end]))
            data = data[columns.end :]
        return events, data if ends is None else ends + data

    def _learned(self, word: bytes) -> _Length:
        """Return what was learned about headers with this word: their encoding and length."""
        lengths = self._lengths
        if word not in lengths:
            if len(lengths) >= LENGTHS_MAX:
                lengths.clear()
            lengths[word] = _Length()
        return lengths[word]

    def _missed(self, seen: _Length, data: bytes) -> None:
        """Count a send that the decoder must read; learn its shape when enough have come."""
        seen.misses += 1
        if seen.misses >= seen.next_try:
            seen.next_try *= 2
            seen.shape = self._shapes.learn(int.from_bytes(data[4:PREFIX_SIZE]), data) or seen.shape


def _ends_apart(data: bytes) -> tuple[bytes, bytes]:
    """Return the whole frames in ``data`` that end transactions, and all other bytes with an unfinished last frame."""
    ends: list[bytes] = []
    others: list[bytes] = []
    at, size = 0, len(data)
    while size - at > PREFIX_SIZE:
        end = at + LENGTH_SIZE + int.from_bytes(data[at : at + LENGTH_SIZE])
        if not at + PREFIX_SIZE < end <= size:
            break
        (ends if data.startswith(END_BEGINNINGS, at + PREFIX_SIZE) else others).append(data[at:end])
        at = end
    others.append(data[at:])
    return b"".join(ends), b"".join(others)
