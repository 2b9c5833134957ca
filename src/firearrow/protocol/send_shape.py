"""Send shapes: sends whose headers differ only in a few values are compared with a shape instead of being decoded.

The headers of a producer's sends differ only in the opaque, the queue, the birth, the signature and the values of a few
properties, as long as these values keep their widths. A `SendShape` is learned from one decoded header: it cuts a frame
into parts that must equal that header byte by byte, and the values between them. A frame whose parts are equal decodes
to the learned request with those values in place: `learn` proves that with the decoder, on other values, and returns
None where it is not so. Frames that differ are left for the decoder. Pure.

    length 4 | word 4, header ... | value | header ... | value | ... | header | body
               \\____ equal ____/             \\_ equal _/               \\ equal /
"""

import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from firearrow.errors import BadHeader
from firearrow.model import keys
from firearrow.protocol.auth import SIGNATURE
from firearrow.protocol.conversation import INT32_MAX
from firearrow.protocol.frame import PREFIX_SIZE
from firearrow.protocol.requests.message.send import Send, ShortSend
from firearrow.protocol.serialize import decode_request, ext_fields

VARYING: Final = (keys.UNIQ_KEY, keys.KEYS, keys.TAGS)
"""Properties whose values may differ between sends of one shape."""
_LENGTH_SIZE: Final = 4
_COMPACT_OPAQUE: Final = (PREFIX_SIZE + 5, PREFIX_SIZE + 9)
_JSON_OPAQUE: Final = re.compile(rb'"opaque":(\d+)[,}]')
_SAFE: Final = bytes(byte for byte in range(0x20, 0x7F) if byte not in b'"\\#')
"""Bytes that values may hold: both encodings write them unchanged, and none of them ends a value or a property."""
_NAMES: Final = {True: (b"e", b"g"), False: (b"queueId", b"bornTimestamp")}


class SendColumns(NamedTuple):
    """Consecutive sends of one shape, by columns."""

    opaques: tuple[int, ...]
    queue_ids: list[int]
    births: list[int]
    unique_keys: tuple[bytes, ...]
    texts: list[tuple[bytes, ...]]
    """The values of the `VARYING` properties, a column for each; `SendShape.properties` joins them with the rest."""
    bodies: list[bytes]
    end: int
    """The position behind the last send."""


class _Value(NamedTuple):
    """A value that may differ: its name, and its position in a frame."""

    name: str
    start: int
    end: int


class SendShape:
    """The parts of a header that the sends of one producer share."""

    def __init__(self, encoding: int, request: Send | ShortSend, frame: bytes, values: list[_Value]) -> None:
        self.encoding = encoding
        self.request = request
        edges = [_LENGTH_SIZE, *(edge for value in values for edge in value[1:]), len(frame)]
        widths = [end - start for start, end in pairwise(edges)]
        self._cut = struct.Struct(">I" + "".join(f"{width}s" for width in widths))
        # A cut frame is (length, part, value, part, ..., value, part): [1::2] are the equal parts, [2::2] the values.
        self._equal = self._cut.unpack(frame)[1::2]
        names = [value.name for value in values]
        self._at = {name: names.index(name) for name in names}
        self._opaque_digits = 0 if encoding else values[self._at["opaque"]].end - values[self._at["opaque"]].start
        self._texts = [name for name in names if name in VARYING]
        self._is_signed = SIGNATURE in self._at
        self._between = list(_between(request.properties or "", self._texts))

    @property
    def identity(self) -> tuple[object, ...]:
        """A value that is equal for shapes that match the same sends."""
        return self.encoding, self._cut.format, self._equal

    @classmethod
    def learn(cls, encoding: int, header: bytes) -> "SendShape | None":
        """The shape of a send's header; None when no shape is certain to agree with the decoder."""
        try:
            heading = decode_request(encoding, header)
            fields = ext_fields(encoding, header)
        except BadHeader:  # the decoder of a request does not read all fields
            return None
        request = heading.request
        if not isinstance(request, Send | ShortSend) or heading.flag:
            return None
        frame = struct.pack(">II", _LENGTH_SIZE + len(header), encoding << 24 | len(header)) + header
        values = _values(encoding, request, frame, fields.get(SIGNATURE))
        if values is None or not _holds(encoding, request, frame, values):
            return None
        return cls(encoding, request, frame, values)

    def holds(self, text: bytes) -> bool:
        """Whether the header of every send of this shape holds these bytes in a part that does not differ."""
        return any(text in part for part in self._equal)

    def cut(self, data: bytes) -> SendColumns | None:
        """The consecutive sends of this shape at the beginning of ``data``; None when the first frame differs."""
        unpack, least, equal = self._cut.unpack_from, self._cut.size, self._equal
        at, size = 0, len(data)
        rows: list[tuple[bytes, ...]] = []
        bodies: list[bytes] = []
        while size - at >= least:
            parts = unpack(data, at)
            end = at + _LENGTH_SIZE + parts[0]
            if not at + least <= end <= size or parts[1::2] != equal:
                break
            rows.append(parts[2::2])
            bodies.append(data[at + least : end])
            at = end
        return self._typed(list(zip(*rows, strict=True)), bodies, at) if rows else None

    def _typed(self, columns: list[tuple[bytes, ...]], bodies: list[bytes], end: int) -> SendColumns | None:
        """The values converted to their types; None if a value cannot be converted."""
        at = self._at
        queues, born, unique = columns[at["queue"]], columns[at["born"]], columns[at[keys.UNIQ_KEY]]
        if not b"".join((*queues, *born)).isdigit():
            return None
        texts = [columns[at[name]] for name in self._texts]
        signatures = [columns[at[SIGNATURE]]] if self._is_signed else []
        if any(b"".join(text).translate(None, _SAFE) for text in [*texts, *signatures]):
            return None
        opaques = self._opaques(columns[at["opaque"]])
        if opaques is None:
            return None
        return SendColumns(opaques, list(map(int, queues)), list(map(int, born)), unique, texts, bodies, end)

    def _opaques(self, column: tuple[bytes, ...]) -> tuple[int, ...] | None:
        if self.encoding:
            return struct.unpack(f">{len(column)}i", b"".join(column))
        if not b"".join(column).isdigit():
            return None
        opaques, digits = tuple(map(int, column)), self._opaque_digits
        least = 10 ** (digits - 1) if digits > 1 else 0
        return opaques if least <= min(opaques) and max(opaques) <= INT32_MAX else None

    def properties(self, columns: SendColumns, ending: bytes) -> list[bytes]:
        """The properties of sends as they are stored: the sender's own, then ``ending``."""
        between = [*self._between[:-1], self._between[-1] + ending]
        template = b"%b".join(part.replace(b"%", b"%%") for part in between)
        return [template % values for values in zip(*columns.texts, strict=True)]


def _values(encoding: int, request: Send | ShortSend, frame: bytes, signature: str | None) -> list[_Value] | None:
    """The values that may differ, in the order of their positions; None when a position is ambiguous."""
    queue, born = _NAMES[isinstance(request, ShortSend)]
    found = [
        _opaque(encoding, frame),
        _field(encoding, frame, "queue", queue, b"%d" % request.queue_id),
        _field(encoding, frame, "born", born, b"%d" % request.born_timestamp),
        *(_text(encoding, frame, name, value) for name, value in _varying(request.properties or "")),
    ]
    if signature is not None:
        found.append(_field(encoding, frame, SIGNATURE, SIGNATURE.encode(), signature.encode(errors="replace")))
    values = [value for value in found if value is not None]
    if len(values) < len(found) or keys.UNIQ_KEY not in {value.name for value in values}:
        return None
    return sorted(values, key=lambda value: value.start)


def _opaque(encoding: int, frame: bytes) -> _Value | None:
    if encoding:
        return _Value("opaque", *_COMPACT_OPAQUE)
    found = list(_JSON_OPAQUE.finditer(frame))
    return _Value("opaque", *found[0].span(1)) if len(found) == 1 else None


def _field(encoding: int, frame: bytes, what: str, name: bytes, value: bytes) -> _Value | None:
    if encoding:
        before, after = struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)), b""
    else:
        before, after = b'"%b":"' % name, b'"'
    return _once(frame, what, before, value, after)


def _text(encoding: int, frame: bytes, name: str, value: str) -> _Value | None:
    before = name.encode() + (b"\x01" if encoding else b"\\u0001")
    return _once(frame, name, before, value.encode(), b"\x02" if encoding else b"\\u0002")


def _once(frame: bytes, what: str, before: bytes, value: bytes, after: bytes) -> _Value | None:
    wanted = before + value + after
    at = frame.find(wanted)
    if at < 0 or not value or frame.count(before) != 1 or value.translate(None, _SAFE):
        return None
    return _Value(what, at + len(before), at + len(before) + len(value))


def _varying(properties: str) -> Iterator[tuple[str, str]]:
    """The names and values of the `VARYING` properties, in their order."""
    for entry in properties.split("\x02"):
        name, mark, value = entry.partition("\x01")
        if mark and name in VARYING and value:
            yield name, value


def _between(properties: str, names: list[str]) -> Iterator[bytes]:
    """The text before, between and behind the values of these properties, which must come in this order."""
    at = 0
    for name in names:
        mark = f"{name}\x01"
        start = properties.index(mark, at) + len(mark)
        yield properties[at:start].encode()
        end = properties.find("\x02", start)
        at = end if end >= 0 else len(properties)
    yield properties[at:].encode()


def _holds(encoding: int, request: Send | ShortSend, frame: bytes, values: list[_Value]) -> bool:
    """Whether a frame with other values decodes to the same request with those values in place."""
    changed, fields = bytearray(frame), {}
    texts: dict[str, str] = {}
    opaque = 0
    for name, start, end in values:
        width = end - start
        if name == "opaque":
            opaque = 0x01020304 if encoding else int("1" * min(width, 9) + "0" * (width - 9))
            changed[start:end] = struct.pack(">i", opaque) if encoding else b"%d" % opaque
        elif name == SIGNATURE:
            changed[start:end] = b"z" * width
        elif name in VARYING:
            texts[name] = "z" * width
            changed[start:end] = b"z" * width
        else:
            fields["queue_id" if name == "queue" else "born_timestamp"] = int("7" * width)
            changed[start:end] = b"7" * width
    try:
        heading: Any = decode_request(encoding, bytes(changed[PREFIX_SIZE:]))
        expected = replace(request, **fields, properties=_replaced(request.properties or "", texts))
    except (BadHeader, ValueError):
        return False
    return bool(heading.request == expected and heading.opaque == opaque)


def _replaced(properties: str, texts: dict[str, str]) -> str:
    names = [name for name, _ in _varying(properties)]
    between = [part.decode() for part in _between(properties, names)]
    values = [texts[name] for name in names]
    return "".join(part + value for part, value in zip(between, [*values, ""], strict=True))
