"""Headers as JSON: what every stock client speaks unless told otherwise.

Java: ``RemotingSerializable`` over ``RemotingCommand``. A header is one object::

    {"code":310,"extFields":{"a":"group","e":"2"},"flag":0,"language":"JAVA","opaque":7,"version":513}

Decoding has a fast and a patient way. The fast one is a msgspec decoder for the envelope with the request's own struct
in place of ``extFields``: one pass in C, strings turned into numbers on the way. Whatever it does not take (numbers
where strings are due, nulls, a value out of range, fastjson's own dialect) goes the patient way, which reads the
object untyped, turns every value into text and parses that as Java does. The fast way differs from Java in three
harmless points: it takes ``"5.0"`` and ``"1e3"`` as integers, ``"null"`` as an absent number, and it would take
``"1"`` as true, which ``tells_truth`` prevents.

Encoding writes what Java writes: members in alphabetical order, no blanks, nulls left out, every field a string.
``serializeTypeCurrentRPC``, which every reader ignores, is left out.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from firearrow import fastjson
from firearrow.errors import BadBody, BadHeader
from firearrow.protocol.codegen import compile_function
from firearrow.protocol.command import OUR_LANGUAGE, OUR_VERSION, BadFields, Encoding, HeaderEncoder, Heading
from firearrow.protocol.conversation import Fields
from firearrow.protocol.frame import prefix
from firearrow.protocol.javatext import java_text, parse_int32
from firearrow.protocol.layout import SHOWN_MAX, FieldLayout, from_text, layout, ordered

F = TypeVar("F", bound=Fields)

_UNTYPED: Final = msgspec.json.Decoder(dict[str, Any], strict=False)
_REFUSALS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that msgspec raises on hostile input (``ValidationError`` is a ``DecodeError``)."""


class JsonDecoder(Generic[F]):
    """Decodes headers whose fields are an ``F``."""

    def __init__(self, fields: type[F]) -> None:
        self._fields = fields
        self._decode = msgspec.json.Decoder(Heading[fields], strict=False).decode  # type: ignore[valid-type]
        self._decode_ext = msgspec.json.Decoder(fields, strict=False).decode
        self._booleans = tuple(f for f in layout(fields) if f.kind is bool)
        self._any_true = _any_of([field.name for field in self._booleans])

    def decode(self, header: bytes) -> Heading[F]:
        """Return the heading, or raise ``BadHeader`` (``BadFields`` when it is known who asks)."""
        try:
            heading: Heading[F] = self._decode(header)
        except _REFUSALS:
            return self.decode_patiently(header)
        request = heading.request
        if request is None or (self._any_true(request) and not self._tells_truth(header)):
            return self.decode_patiently(header)
        return heading

    def decode_patiently(self, header: bytes) -> Heading[F]:
        """Decode with all of Java's leniency."""
        heading, ext = read_untyped(header)
        heading.request = self._from_text(heading, ext)
        return heading

    def decode_fields(self, heading: Heading[Any], header: bytes, ext: msgspec.Raw) -> F:
        """Decode the fields of a header whose heading is already read."""
        try:
            fields = self._decode_ext(ext)
        except _REFUSALS:
            return self._from_text(heading, read_untyped(header)[1])
        if self._any_true(fields) and not self._tells_truth(header):
            return self._from_text(heading, read_untyped(header)[1])
        return fields

    def _from_text(self, heading: Heading[Any], ext: Mapping[str, str]) -> F:
        try:
            return from_text(self._fields, ext)
        except ValueError as error:
            raise BadFields(heading, str(error)) from None

    def _tells_truth(self, header: bytes) -> bool:
        # msgspec takes "1" for true where Java takes it for false.
        _, ext = read_untyped(header)
        return all(ext.get(field.wire_name) != "1" for field in self._booleans)


def _any_of(names: list[str]) -> Callable[[object], bool]:
    if not names:
        return lambda _: False
    if len(names) == 1:
        return attrgetter(names[0])
    get = attrgetter(*names)
    return lambda fields: True in get(fields)


_NO_FIELDS: Final = msgspec.Raw(b"{}")


class _Opened(Heading[Any], gc=False):
    """A heading whose fields stay as they are written. (msgspec takes no ``Raw | None``: it finds only the None.)"""

    request: msgspec.Raw = msgspec.field(name="extFields", default=_NO_FIELDS)


_open: Final = msgspec.json.Decoder(_Opened, strict=False).decode


def read_heading(header: bytes) -> tuple[Heading[Any], msgspec.Raw]:
    """Read everything but the fields; return the heading and the fields as they are written."""
    try:
        heading: Heading[Any] = _open(header)
    except _REFUSALS:
        heading, ext = read_untyped(header)
        return heading, msgspec.Raw(msgspec.json.encode(ext))
    fields: msgspec.Raw = heading.request or _NO_FIELDS
    heading.request = None
    return heading, fields


def read_untyped(header: bytes) -> tuple[Heading[Any], dict[str, str]]:
    """Read a header without knowing its fields: the heading (its request None) and the fields as text."""
    members = _members(header)
    ext = members.get("extFields")
    if not isinstance(ext, dict | None):
        raise BadHeader("extFields is not an object")
    heading: Heading[Any] = Heading(
        code=_number(members, "code"),
        flag=_number(members, "flag"),
        opaque=_number(members, "opaque"),
        version=_number(members, "version"),
        remark=None if members.get("remark") is None else _as_text(members["remark"]),
    )
    if isinstance(language := members.get("language"), str):
        heading.language = language
    return heading, {name: _as_text(value) for name, value in (ext or {}).items() if value is not None}


def _members(header: bytes) -> dict[str, Any]:
    try:
        return _UNTYPED.decode(header)
    except _REFUSALS:
        pass
    try:
        return _UNTYPED.decode(fastjson.to_standard(header))
    except (BadBody, *_REFUSALS) as error:
        raise BadHeader(f"the header is not a JSON object: {error}") from None


def _number(members: Mapping[str, object], name: str) -> int:
    value = members.get(name, 0)
    try:
        return 0 if value is None else parse_int32(_as_text(value))
    except ValueError as error:
        raise BadHeader(f"{name} is {_as_text(value)[:SHOWN_MAX]!r}: {error}") from None


def _as_text(value: object) -> str:
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return java_text(value)


_quoted: Final = msgspec.json.Encoder().encode
_ENDING: Final = f'"language":"{OUR_LANGUAGE.name}","opaque":%d%b,"version":{OUR_VERSION}}}'


def make_encoder(fields: type[Fields]) -> HeaderEncoder:
    """Generate the encoder of a struct: one bytes template, filled in one operation."""
    template, values = _template(ordered(fields))
    opening = f'{{"code":%d,"extFields":{{{template}}},' if values else '{"code":%d,'
    source = f"""
def encode(fields, code, flag, opaque, remark, body_size):
    header = TEMPLATE % (code, {"".join(value + ", " for value in values)}flag, opaque, remark)
    return prefix(JSON, len(header), body_size) + header
"""
    names = {
        "TEMPLATE": f'{opening}"flag":%d,{_ENDING}'.encode(),
        "JSON": int(Encoding.JSON),
        "prefix": prefix,
        "quoted": _quoted,
    }
    return compile_function(source, names)


def _template(fields: tuple[FieldLayout, ...]) -> tuple[str, list[str]]:
    # A field that may be absent brings its own comma: after it when it comes before the first certain field, else
    # before it. When no field is certain, each brings one after it and the last comma is cut off.
    certain = [place for place, field in enumerate(fields) if not field.is_nullable]
    if fields and not certain:
        return "%b", [f"({' + '.join(_optional(field, after=',') for field in fields)})[:-1]"]
    template, values = "", []
    for place, field in enumerate(fields):
        if not field.is_nullable:
            form, value = _certain(field, f"fields.{field.name}")
            template += ("," if place > certain[0] else "") + f'"{field.wire_name}":{form}'
            values.append(value)
        else:
            template += "%b"
            early = place < certain[0]
            values.append(_optional(field, after=",") if early else _optional(field, before=","))
    return template, values


def _optional(field: FieldLayout, *, before: str = "", after: str = "") -> str:
    value = f"fields.{field.name}"
    form, expression = _certain(field, value)
    segment = f'{before}"{field.wire_name}":{form}{after}'.encode()
    return f"(b'' if {value} is None else {segment!r} % ({expression},))"


def _certain(field: FieldLayout, value: str) -> tuple[str, str]:
    if field.kind is int:
        return '"%d"', value
    if field.kind is bool:
        return '"%b"', f"(b'true' if {value} else b'false')"
    if field.kind is str:
        return "%b", f"quoted({value})"
    if field.kind is float:
        return '"%b"', f"repr({value}).encode()"
    return "%b", f"quoted(str({value}.value))"


def encode_remark(remark: str) -> bytes:
    """Return the member that carries a remark, ready for an encoder."""
    return b',"remark":' + _quoted(remark)


def encode_untyped(ext: Mapping[str, str], code: int, flag: int, opaque: int, remark: bytes, body_size: int) -> bytes:
    """Encode a header whose fields are already text."""
    members = b'"extFields":%b,' % _quoted(dict(sorted(ext.items()))) if ext else b""
    header = _UNTYPED_TEMPLATE % (code, members, flag, opaque, remark)
    return prefix(Encoding.JSON, len(header), body_size) + header


_UNTYPED_TEMPLATE: Final = f'{{"code":%d,%b"flag":%d,{_ENDING}'.encode()
