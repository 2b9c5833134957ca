"""Reads compact headers (``header_compact`` says their layout): every length is checked before it is used.

Fields are decoded into a struct in three ways with equal results.

*By shape.* Requests of one client have different values of mostly equal sizes, so two headers of equal size mostly have
their keys and values at the same positions. A shape holds a mask, the bytes that keys and sizes must have under the
mask, and one ``struct`` that cuts out all values. Two operations in C replace a loop over the fields. A shape is
learned when headers of one size keep coming from peers that have proved who they are, where a server asks for that;
the number of shapes, their fields and the size of their headers are limited.

*By steps.* Java always writes the fields of its hot headers in one order. A generated function expects the fields in
the order of their declaration, with values under 256 bytes: for each field it compares the key and the first three
bytes of the size, which are then 0.

*Leniently.* Any order, any size, Java's leniency: the fields as text, through ``layout.from_text``.

The first two fail (None, ``ValueError``, ``IndexError``) on headers that they are not made for; then the next is tried.
All three accept a header only if every byte of it was read.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from firearrow.errors import BadHeader
from firearrow.model.versions import LanguageCode
from firearrow.protocol.codegen import compile_function
from firearrow.protocol.command import FIELDS_MAX, BadFields, Heading, too_many_fields
from firearrow.protocol.conversation import Fields
from firearrow.protocol.header_compact import FIXED, KEY_SIZE, VALUE_SIZE
from firearrow.protocol.layout import FieldLayout, from_text, layout

F = TypeVar("F", bound=Fields)

_KEY_BYTES: Final = KEY_SIZE.size
_VALUE_BYTES: Final = VALUE_SIZE.size
_LANGUAGES: Final = {code.value: code.name for code in LanguageCode}
_LEAST: Final = FIXED.size + VALUE_SIZE.size

SHAPES_MAX: Final = 128
"""The most shapes for one struct."""
ALL_SHAPES_MAX: Final = 2048
"""The most shapes for all structs: about 8 KiB each."""
SHAPE_FIELDS_MAX: Final = 64
SHAPE_SIZE_MAX: Final = 1024
SIGHTINGS_TO_LEARN: Final = 4
BUILDERS_MAX: Final = 16
"""The most builders for one struct, one for each set and order of fields from clients; compiling one takes 1 ms."""


def read_heading(header: bytes) -> tuple[Heading[Any], int]:
    """Read everything but the fields; return the heading and where the fields begin. They end where the header ends."""
    if len(header) < _LEAST:
        raise BadHeader(f"a compact header has at least {_LEAST} bytes, this one {len(header)}")
    code, language, version, opaque, flag, remark_size = FIXED.unpack_from(header)
    heading: Heading[Any] = Heading(code, flag, opaque, version, _LANGUAGES.get(language, "OTHER"))
    fields_at = _LEAST
    if remark_size:
        fields_at += remark_size
        if remark_size < 0 or fields_at > len(header):
            raise BadFields(heading, f"a remark of {remark_size} bytes does not fit into the header")
        heading.remark = _text(heading, header[FIXED.size : fields_at - VALUE_SIZE.size])
    (size,) = VALUE_SIZE.unpack_from(header, fields_at - VALUE_SIZE.size)
    if size != len(header) - fields_at:
        raise BadFields(heading, f"{size} bytes of fields are announced and {len(header) - fields_at} are there")
    return heading, fields_at


def read_fields(heading: Heading[Any], header: bytes, at: int) -> dict[str, str]:
    """Read the fields as text. As in Java the last of several equal keys wins and an empty value counts as absent."""
    ext: dict[str, str] = {}
    end, left = len(header), FIELDS_MAX
    key_size, value_size = KEY_SIZE.unpack_from, VALUE_SIZE.unpack_from
    try:
        while at < end:
            # No calls of our own in this loop: it is the slowest thing that a peer without keys reaches.
            (size,) = key_size(header, at)
            value_at = at + _KEY_BYTES + size
            (length,) = value_size(header, value_at)
            at = value_at + _VALUE_BYTES + length
            if size < 0 or length < 0 or at > end:
                raise BadFields(heading, f"a field of {size} and {length} bytes does not fit into the header")
            ext[header[value_at - size : value_at].decode()] = header[at - length : at].decode()
            left -= 1
            if left < 0:
                raise too_many_fields(heading)
    except struct.error:
        raise BadFields(heading, "the fields end in the middle of a size") from None
    except UnicodeDecodeError as error:
        raise BadFields(heading, f"a text in the header is not UTF-8: {error}") from None
    return ext


def _text(heading: Heading[Any], data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadFields(heading, f"a text in the header is not UTF-8: {error}") from None


class CompactDecoder(Generic[F]):
    """Decodes headers whose fields are an ``F``."""

    def __init__(self, fields: type[F]) -> None:
        self._fields = fields
        self._required_texts = [f.wire_name for f in layout(fields) if f.is_required and f.kind is str]
        self._shapes: Shapes[F] = Shapes(fields)
        self._by_steps: Callable[[bytes, int], F | None] = _make_steps(fields)

    def decode(self, header: bytes) -> Heading[F]:
        """Return the heading, or raise ``BadHeader`` (``BadFields`` when the opaque could be read)."""
        heading, at = read_heading(header)
        heading.request = self.decode_fields(heading, header, at)
        return heading

    def decode_fields(self, heading: Heading[Any], header: bytes, at: int, learns: bool = True) -> F:
        """Decode the fields of a header whose heading has been read; with ``learns`` its shape may be learned."""
        try:
            shape = self._shapes.by_size.get(len(header) - at)
            if shape is not None and int.from_bytes(header[at:], "little") & shape.mask == shape.expected:
                fields: F | None = shape.build(*shape.cut(header, at))
                if fields is not None:
                    return fields
            fields = self._by_steps(header, at)
        except (ValueError, IndexError):
            fields = None
        if fields is None:
            fields = self._patiently(heading, header, at)
        if learns:
            self._shapes.see(header, at)
        return fields

    def _patiently(self, heading: Heading[Any], header: bytes, at: int) -> F:
        ext = read_fields(heading, header, at)
        present = {key: value for key, value in ext.items() if value or key in self._required_texts}
        try:
            return from_text(self._fields, present)
        except ValueError as error:
            raise BadFields(heading, str(error)) from None


class _Shape(NamedTuple):
    mask: int
    expected: int
    cut: Callable[[bytes, int], tuple[bytes, ...]]
    build: Callable[..., Any]


_LEARNED: Final[list[dict[int, _Shape]]] = []
"""The shapes of all structs."""


class Shapes(Generic[F]):
    """The learned shapes of headers with one type of fields, by the size of the fields in bytes."""

    def __init__(self, fields: type[F]) -> None:
        self._fields = fields
        self._places = {field.wire_name.encode(): place for place, field in enumerate(layout(fields))}
        self.by_size: dict[int, _Shape] = {}
        _LEARNED.append(self.by_size)
        self._sightings: dict[int, int] = {}
        self._builders: dict[tuple[int, ...], Callable[..., Any]] = {}

    def see(self, header: bytes, at: int) -> None:
        """Count fields that no shape matched; learn their shape when this size keeps coming."""
        size = len(header) - at
        if size > SHAPE_SIZE_MAX:
            return
        sightings = self._sightings[size] = self._sightings.get(size, 0) + 1
        if sightings % SIGHTINGS_TO_LEARN:
            return
        shape = self._learn(header, at)
        if shape is not None:
            if len(self.by_size) >= SHAPES_MAX:
                self.by_size.clear()
            if sum(map(len, _LEARNED)) >= ALL_SHAPES_MAX:
                for shapes in _LEARNED:
                    shapes.clear()
            self.by_size[size] = shape

    def _learn(self, header: bytes, at: int) -> _Shape | None:
        form, mask, places = ">", bytearray(), []
        for number, (key, structure_size, value_size) in enumerate(_entries(header, at)):
            place = self._places.get(key)
            if number == SHAPE_FIELDS_MAX:
                return None
            # An empty value counts as absent, and the last of equal keys wins: shapes do not handle either.
            if not value_size or place in places:
                return None
            cut = f"{value_size}x" if place is None else f"{value_size}s"
            form += f"{structure_size}x{cut}"
            mask += b"\xff" * structure_size + bytes(value_size)
            if place is not None:
                places.append(place)
        build = self._builder(tuple(places))
        if build is None:
            return None
        known = int.from_bytes(mask, "little")
        return _Shape(known, int.from_bytes(header[at:], "little") & known, struct.Struct(form).unpack_from, build)

    def _builder(self, places: tuple[int, ...]) -> Callable[..., Any] | None:
        build = self._builders.get(places)
        if build is None and len(self._builders) < BUILDERS_MAX:
            build = self._builders[places] = _make_builder(self._fields, places)
        return build


def _entries(header: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Iterate over well-formed fields: the key, the size of key and sizes, the size of the value."""
    while at < len(header):
        (key_size,) = KEY_SIZE.unpack_from(header, at)
        value_at = at + KEY_SIZE.size + key_size + VALUE_SIZE.size
        (value_size,) = VALUE_SIZE.unpack_from(header, value_at - VALUE_SIZE.size)
        yield header[at + KEY_SIZE.size : value_at - VALUE_SIZE.size], value_at - at, value_size
        at = value_at + value_size


_SMALL: Final = {b"%d" % number: number for number in range(-1, 1000)}
_BOOLEANS: Final = {b"true": True, b"false": False}


def _make_builder(fields: type[Fields], places: tuple[int, ...]) -> Callable[..., Any]:
    """Generate the function that takes the values at these places as bytes and makes the struct, or returns None."""
    lines = [f"def build({', '.join(f't{place}' for place in places)}):"]
    for place, field in enumerate(layout(fields)):
        if place in places:
            lines += [f"    {line}" for line in _conversion(place, field, f"t{place}")]
        else:
            lines.append(f"    v{place} = DEFAULT{place}")
    return compile_function("\n".join([*lines, f"    {_construction(fields)}"]), _names(fields))


def _make_steps(fields: type[Fields]) -> Callable[[bytes, int], Any]:
    """Generate the chain of steps: (header, where its fields begin) -> struct or None."""
    lines = ["def decode(header, at):"]
    for place, field in enumerate(layout(fields)):
        lines += _step(place, field)
    lines += ["    if at != len(header):", "        return None", f"    {_construction(fields)}"]
    return compile_function("\n".join(lines), _names(fields))


def _construction(fields: type[Fields]) -> str:
    return f"return Fields({', '.join(f'{field.name}=v{place}' for place, field in enumerate(layout(fields)))})"


def _names(fields: type[Fields]) -> dict[str, object]:
    names: dict[str, object] = {"Fields": fields, "small": _SMALL.get, "boolean": _BOOLEANS.get}
    for place, field in enumerate(layout(fields)):
        names[f"KEY{place}"] = KEY_SIZE.pack(len(field.wire_name)) + field.wire_name.encode() + bytes(3)
        names[f"DEFAULT{place}"] = field.default
        names[f"parse{place}"] = field.parse
    return names


def _step(place: int, field: FieldLayout) -> list[str]:
    size = len(field.wire_name) + 5
    absent = "return None" if field.is_required else f"v{place} = DEFAULT{place}"
    return [
        f"    stop = at + {size}",
        f"    if header[at:stop] == KEY{place}:",
        "        at = stop + 1 + header[stop]",
        "        text = header[stop + 1 : at]",
        *(f"        {line}" for line in _conversion(place, field, "text")),
        "    else:",
        f"        {absent}",
    ]


def _conversion(place: int, field: FieldLayout, text: str) -> list[str]:
    if field.kind is str:
        empty = "" if field.is_required else f" if {text} else DEFAULT{place}"
        return [f"v{place} = {text}.decode(){empty}"]
    if field.kind is bool:
        return [f"v{place} = boolean({text})", f"if v{place} is None:", "    return None"]
    if field.kind is int:
        # So few digits are within Java's range whatever they are; longer texts go to the lenient decoder.
        digits = 9 if field.is_int32 else 18
        return [
            f"v{place} = small({text})",
            f"if v{place} is None:",
            f"    if len({text}) > {digits} or not {text}.isdigit():",
            "        return None",
            f"    v{place} = int({text})",
        ]
    return [f"v{place} = parse{place}({text}.decode())"]
