"""Headers in the compact encoding, an option of Apache's clients and load generator.

Java: ``RocketMQSerializable``. All integers big-endian and signed::

    | code: i16 | language: i8 | version: i16 | opaque: i32 | flag: i32
    | remark size: i32 | remark ... | fields size: i32 | fields ... |

    a field: | key size: i16 | key ... | value size: i32 | value ... |

A value of no bytes reads as null, as in Java, so an optional empty string does not survive; a required string reads as
empty. A code above 32767 does not fit: Java sends its low 16 bits, and Java's servers refuse the code that arrives.
``narrow_code`` returns that number; the catalogue, which knows all codes, maps it back.

This module writes; ``compact_decoder`` reads. The encoder of a struct is generated: one bytes template for all fields,
filled by one ``%`` operation in C.
"""

import struct
from collections.abc import Mapping
from typing import Final, TypeVar

from firearrow.protocol.codegen import compile_function
from firearrow.protocol.command import (
    OUR_LANGUAGE,
    OUR_VERSION,
    Encoding,
    HeaderEncoder,
)
from firearrow.protocol.conversation import Fields
from firearrow.protocol.frame import HEADER_MAX, PREFIX, WORD_SIZE, prefix
from firearrow.protocol.layout import FieldLayout, ordered

F = TypeVar("F", bound=Fields)

FIXED: Final = struct.Struct(">hbhiii")
VALUE_SIZE: Final = struct.Struct(">i")
KEY_SIZE: Final = struct.Struct(">h")


def narrow_code(code: int) -> int:
    """Return the signed 16-bit number that carries a code in this encoding."""
    return (code + 0x8000 & 0xFFFF) - 0x8000


_HEAD: Final = struct.Struct(">IIhbhiiii")
_HEAD_SIZE: Final = _HEAD.size - PREFIX.size
_MARK: Final = Encoding.COMPACT << 24
_SHORT_MAX: Final = 256
_SIZES: Final = tuple(VALUE_SIZE.pack(size) for size in range(_SHORT_MAX))
_SIZED_SMALL: Final = {number: _SIZES[len(b"%d" % number)] + b"%d" % number for number in range(-1, 1000)}


def make_encoder(fields: type[Fields]) -> HeaderEncoder:
    """Generate the encoder of a struct: each value once as bytes, then one template for all of them."""
    # In the template keys are literal. ``%b`` is a size, a value, a small number with its size, or, if a field may be
    # absent, all of it; ``\0\0\0%c`` is the size of a long, whose digits are fewer than 256.
    lines, template, values = [], b"", []
    for place, field in enumerate(ordered(fields)):
        key = KEY_SIZE.pack(len(field.wire_name)) + field.wire_name.encode()
        assignment = f"v{place} = {_to_bytes(field, f'fields.{field.name}')}"
        if field.is_nullable:
            template += b"%b"
            values.append(_optional(field, key))
        elif field.is_int32:
            template += key + b"%b"
            values.append(f"small(value := fields.{field.name}) or sized(b'%d' % value)")
        elif field.kind is int:
            template += key + b"\0\0\0%c%b"
            lines.append(assignment)
            values.append(f"len(v{place}), v{place}")
        else:
            template += key + b"%b%b"
            lines.append(assignment)
            values.append(f"{_size(f'v{place}')}, v{place}")
    narrow = "(code if -0x8000 <= code < 0x8000 else narrow(code))"
    fixed = f"{narrow}, {int(OUR_LANGUAGE)}, {OUR_VERSION}, opaque, flag, 0, len(ext)"
    lines += [
        f"ext = TEMPLATE % ({''.join(value + ', ' for value in values)})",
        f"size = {_HEAD_SIZE} + len(ext)",
        f"if remark or size > {HEADER_MAX}:",
        "    return head(len(ext), code, flag, opaque, remark, body_size) + ext",
        f"return pack(size + {WORD_SIZE} + body_size, {_MARK} | size, {fixed}) + ext",
    ]
    source = "\n".join(
        ["def encode(fields, code, flag, opaque, remark, body_size):", *(f"    {line}" for line in lines)]
    )
    return compile_function(source, {"TEMPLATE": template, **_ENCODER_NAMES})


def _optional(field: FieldLayout, key: bytes) -> str:
    absent = f"b'' if (value := fields.{field.name}) is None else"
    if field.kind is bool:
        yes, no = (key + _SIZES[len(text)] + text for text in (b"true", b"false"))
        return f"({absent} {yes!r} if value else {no!r})"
    if field.is_int32:
        return f"({absent} {key!r} + (small(value) or sized(b'%d' % value)))"
    size = _size(f"(value := {_to_bytes(field, 'value')})")
    return f"({absent} {key!r} + {size} + value)"


def _size(value: str) -> str:
    return f"(sizes[size] if (size := len({value})) < {_SHORT_MAX} else size_of(size))"


def _to_bytes(field: FieldLayout, value: str) -> str:
    """The source of an expression that turns ``value``, itself source, into the bytes of its text."""
    expressions = {
        int: f"b'%d' % {value}",
        bool: f"b'true' if {value} else b'false'",
        str: f"{value}.encode()",
        float: f"repr({value}).encode()",
    }
    return expressions.get(field.kind, f"str({value}.value).encode()")


def _sized(text: bytes) -> bytes:
    size = len(text)
    return (_SIZES[size] if size < _SHORT_MAX else VALUE_SIZE.pack(size)) + text


def _head(fields_size: int, code: int, flag: int, opaque: int, remark: str | None, body_size: int) -> bytes:
    text = b"" if remark is None else remark.encode()
    size = _HEAD_SIZE + len(text) + fields_size
    fixed = FIXED.pack(narrow_code(code), OUR_LANGUAGE, OUR_VERSION, opaque, flag, len(text))
    return prefix(Encoding.COMPACT, size, body_size) + fixed + text + VALUE_SIZE.pack(fields_size)


_ENCODER_NAMES: Final[Mapping[str, object]] = {
    "head": _head,
    "narrow": narrow_code,
    "pack": _HEAD.pack,
    "size_of": VALUE_SIZE.pack,
    "sized": _sized,
    "sizes": _SIZES,
    "small": _SIZED_SMALL.get,
}


def encode_untyped(
    ext: Mapping[str, str], code: int, flag: int, opaque: int, remark: str | None, body_size: int
) -> bytes:
    """Encode a header whose fields are already text."""
    fields = b"".join(
        KEY_SIZE.pack(len(key.encode())) + key.encode() + _sized(value.encode()) for key, value in sorted(ext.items())
    )
    return _head(len(fields), code, flag, opaque, remark, body_size) + fields
