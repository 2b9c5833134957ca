"""Sends that differ in a few values alone: many are read by one comparison each instead of being decoded.

The sends of a producer have the same header but for the opaque, the queue, the time of birth and the values of a few
properties, as long as these have as many characters as before. A `SendShape` is learned from one header that was
decoded: it cuts frames into what must be equal to that header, byte by byte, and the values between. So whatever it
takes decodes to the request it was learned from with those values in place; `learn` tries that with the decoder itself
and gives no shape where it does not hold. Everything else is left for the decoder. Pure.

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
from firearrow.protocol.conversation import INT32_MAX
from firearrow.protocol.frame import PREFIX_SIZE
from firearrow.protocol.requests.send import Send, ShortSend
from firearrow.protocol.serialize import decode_request

VARYING: Final = (keys.UNIQ_KEY, keys.KEYS, keys.TAGS)
"""Properties whose values may differ."""
_LENGTH_SIZE: Final = 4
_COMPACT_OPAQUE: Final = (PREFIX_SIZE + 5, PREFIX_SIZE + 9)
_JSON_OPAQUE: Final = re.compile(rb'"opaque":(\d+)[,}]')
_SAFE: Final = bytes(byte for byte in range(0x20, 0x7F) if byte not in b'"\\#')
"""What values may hold: it is written alike in both encodings and ends neither a value nor a property."""
_NAMES: Final = {True: (b"e", b"g"), False: (b"queueId", b"bornTimestamp")}


class Run(NamedTuple):
    """Sends that came one after the other, by columns."""

    opaques: tuple[int, ...]
    queue_ids: list[int]
    born: list[int]
    unique_keys: tuple[bytes, ...]
    properties: list[bytes]
    """As they are stored."""
    bodies: list[bytes]
    end: int
    """Where the bytes of the last one end."""


class _Value(NamedTuple):
    """A value that may differ: what it is, and where it lies in a frame."""

    name: str
    start: int
    end: int


class SendShape:
    """What sends of one producer have in common."""

    def __init__(self, encoding: int, request: Send | ShortSend, frame: bytes, values: list[_Value]) -> None:
        self.encoding = encoding
        self.request = request
        edges = [_LENGTH_SIZE, *(edge for value in values for edge in value[1:]), len(frame)]
        widths = [end - start for start, end in pairwise(edges)]
        self._cut = struct.Struct(">I" + "".join(f"{width}s" for width in widths))
        self._equal = self._cut.unpack(frame)[1::2]
        names = [value.name for value in values]
        self._at = {name: names.index(name) for name in names}
        self._opaque_digits = 0 if encoding else values[self._at["opaque"]].end - values[self._at["opaque"]].start
        self._texts = [name for name in names if name in VARYING]
        self._between = list(_between(request.properties or "", self._texts))

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for shapes that take the same sends."""
        return self.encoding, self._cut.format, self._equal

    @classmethod
    def learn(cls, encoding: int, header: bytes) -> "SendShape | None":
        """The shape of a send; None where it has none that is certain."""
        try:
            heading = decode_request(encoding, header)
        except BadHeader:
            return None
        request = heading.request
        if not isinstance(request, Send | ShortSend) or heading.flag:
            return None
        frame = struct.pack(">II", _LENGTH_SIZE + len(header), encoding << 24 | len(header)) + header
        values = _values(encoding, request, frame)
        if values is None or not _holds(encoding, request, frame, values):
            return None
        return cls(encoding, request, frame, values)

    def cut(self, data: bytes, ending: bytes) -> Run | None:
        """The sends of this shape that ``data`` begins with; their properties get an ``ending``."""
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
        return self._run(list(zip(*rows, strict=True)), bodies, at, ending) if rows else None

    def _run(self, columns: list[tuple[bytes, ...]], bodies: list[bytes], end: int, ending: bytes) -> Run | None:
        """The values as what they are; None if one of them is none."""
        at = self._at
        queues, born, unique = columns[at["queue"]], columns[at["born"]], columns[at[keys.UNIQ_KEY]]
        if not b"".join((*queues, *born)).isdigit():
            return None
        texts = [columns[at[name]] for name in self._texts]
        if any(b"".join(text).translate(None, _SAFE) for text in texts):
            return None
        opaques = self._opaques(columns[at["opaque"]])
        if opaques is None:
            return None
        properties = self._properties(texts, ending)
        return Run(opaques, list(map(int, queues)), list(map(int, born)), unique, properties, bodies, end)

    def _opaques(self, column: tuple[bytes, ...]) -> tuple[int, ...] | None:
        if self.encoding:
            return struct.unpack(f">{len(column)}i", b"".join(column))
        if not b"".join(column).isdigit():
            return None
        opaques, digits = tuple(map(int, column)), self._opaque_digits
        least = 10 ** (digits - 1) if digits > 1 else 0
        return opaques if least <= min(opaques) and max(opaques) <= INT32_MAX else None

    def _properties(self, texts: list[tuple[bytes, ...]], ending: bytes) -> list[bytes]:
        between = [*self._between[:-1], self._between[-1] + ending]
        form = b"%b".join(part.replace(b"%", b"%%") for part in between)
        return [form % values for values in zip(*texts, strict=True)]


def _values(encoding: int, request: Send | ShortSend, frame: bytes) -> list[_Value] | None:
    """Where the values that may differ lie, in their order; None where one is not plainly to be seen."""
    queue, born = _NAMES[isinstance(request, ShortSend)]
    found = [
        _opaque(encoding, frame),
        _field(encoding, frame, "queue", queue, b"%d" % request.queue_id),
        _field(encoding, frame, "born", born, b"%d" % request.born_timestamp),
        *(_text(encoding, frame, name, value) for name, value in _varying(request.properties or "")),
    ]
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
    """The properties whose values may differ, in their order."""
    for one in properties.split("\x02"):
        name, mark, value = one.partition("\x01")
        if mark and name in VARYING and value:
            yield name, value


def _between(properties: str, names: list[str]) -> Iterator[bytes]:
    """What lies around the values of some properties, which come in this order."""
    at = 0
    for name in names:
        mark = f"{name}\x01"
        start = properties.index(mark, at) + len(mark)
        yield properties[at:start].encode()
        end = properties.find("\x02", start)
        at = end if end >= 0 else len(properties)
    yield properties[at:].encode()


def _holds(encoding: int, request: Send | ShortSend, frame: bytes, values: list[_Value]) -> bool:
    """Whether other values give the same request with just those values in place."""
    changed, fields = bytearray(frame), {}
    texts: dict[str, str] = {}
    opaque = 0
    for name, start, end in values:
        width = end - start
        if name == "opaque":
            opaque = 0x01020304 if encoding else int("1" * min(width, 9) + "0" * (width - 9))
            changed[start:end] = struct.pack(">i", opaque) if encoding else b"%d" % opaque
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
