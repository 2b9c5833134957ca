"""The layout of a header struct: the one description that every encoder and decoder is generated from.

``layout(T)`` lists the fields of a ``Fields`` struct by wire name. ``from_text`` builds the struct from untyped header
fields, with Java's rules and an error that names the field; the generated decoders fall back to it for headers that
they refuse, so both header encodings agree on unusual input.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from firearrow.protocol.conversation import Fields, Int32, Int64
from firearrow.protocol.java_text import java_text, parse_boolean, parse_double, parse_int32, parse_int64

F = TypeVar("F", bound=Fields)

SHOWN_MAX: Final = 64
"""Characters of a peer's value that an error text quotes."""


class FieldLayout(NamedTuple):
    """One field: its name here, its name on the wire, and how its text is read."""

    name: str
    wire_name: str
    kind: type
    """``str``, ``bool``, ``int``, ``float`` or an enum."""
    is_int32: bool
    is_required: bool
    is_nullable: bool
    parse: Callable[[str], Any]
    default: Any


@cache
def layout(fields: type[Fields]) -> tuple[FieldLayout, ...]:
    """Return the fields of a struct in the order of their declaration."""
    hints = get_type_hints(fields, include_extras=True)
    return tuple(_field_layout(info, hints[info.name]) for info in msgspec.structs.fields(fields))


def _field_layout(info: msgspec.structs.FieldInfo, hint: Any) -> FieldLayout:  # noqa: ANN401 - an annotation
    parts = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    (plain,) = [part for part in parts if part is not type(None)]
    kind = get_args(plain)[0] if get_origin(plain) is Annotated else plain
    is_int32 = plain == Int32
    if kind is int and not is_int32 and plain != Int64:
        raise TypeError(f"{info.name}: an integer in a header is an int or an Int32, not {plain}")
    parse = parse_int32 if is_int32 else _parser(kind)
    return FieldLayout(info.name, info.encode_name, kind, is_int32, info.required, len(parts) > 1, parse, info.default)


def _parser(kind: Any) -> Callable[[str], Any]:  # noqa: ANN401 - an annotation
    if kind in _PARSERS:
        return _PARSERS[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {java_text(member.value).lower(): member for member in kind}
        return lambda text: _member(members, text)
    raise TypeError(f"a header field cannot be a {kind}: use str, bool, int, Int32, float or an enum of strings")


def _member(members: Mapping[str, Enum], text: str) -> Enum:
    try:
        return members[text.lower()]
    except KeyError:
        raise ValueError(f"it is none of {', '.join(members)}") from None


_PARSERS: Final[Mapping[type, Callable[[str], Any]]] = {
    str: str,
    bool: parse_boolean,
    int: parse_int64,
    float: parse_double,
}


def from_text(fields: type[F], ext: Mapping[str, str]) -> F:
    """Build a struct from header fields; raise ``ValueError`` that names the field which is missing or malformed.

    Apache logs a malformed or missing value, leaves the field null, and fails later wherever it is used. Failing
    here gives the peer the same answer (code 1) with a reason.
    """
    values: dict[str, object] = {}
    for field in layout(fields):
        text = ext.get(field.wire_name)
        if text is None:
            if field.is_required:
                raise ValueError(f"the custom field <{field.wire_name}> is null")
            continue
        try:
            values[field.name] = field.parse(text)
        except ValueError as error:
            raise ValueError(f"the custom field <{field.wire_name}> is {text[:SHOWN_MAX]!r}: {error}") from None
    return fields(**values)


def to_text(fields: Fields) -> dict[str, str]:
    """Return a struct as untyped header fields in wire order; absent values are left out."""
    values = ((field.wire_name, getattr(fields, field.name)) for field in ordered(type(fields)))
    return {name: java_text(value) for name, value in values if value is not None}


@cache
def ordered(fields: type[Fields]) -> tuple[FieldLayout, ...]:
    """Return the fields of a struct in the order of their wire names."""
    return tuple(sorted(layout(fields), key=lambda field: field.wire_name))
