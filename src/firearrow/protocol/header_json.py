"""Headers as JSON: the default of every stock client.

Java: ``RemotingSerializable`` over ``RemotingCommand``. A header is one object::

    {"code":310,"extFields":{"a":"group","e":"2"},"flag":0,"language":"JAVA","opaque":7,
     "serializeTypeCurrentRPC":"JSON","version":513}

There is a fast and a lenient decoder. The fast one is a msgspec decoder for the envelope with the request's own struct
in place of ``extFields``: one pass in C that also turns strings into numbers. Headers that it refuses (numbers in place
of strings, nulls, a value out of range, fastjson's own dialect) go to the lenient decoder, which reads the object
untyped, turns every value into text and parses the text as Java does. The fast decoder differs from Java in two
harmless points: it accepts ``"5.0"`` and ``"1e3"`` as integers, and ``"null"`` as an absent number. It would also read
``"1"`` as true, which ``_lies`` prevents.

Encoding writes what Java writes: members in alphabetical order, no blanks, nulls left out, every field a string. The
encoder of a struct is generated: it copies the fields as text into a twin struct whose members are all strings, and
msgspec encodes the twin, so that commas, escapes and absent members are handled in C.
``serializeTypeCurrentRPC`` is written although Java's decoder overwrites it: the Rust client closes the connection when
the member is missing.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from firearrow import fastjson
from firearrow.errors import BadBody, BadHeader
from firearrow.protocol.codegen import compile_function
from firearrow.protocol.command import OUR_LANGUAGE, OUR_VERSION, BadFields, Encoding, HeaderEncoder, Heading
from firearrow.protocol.conversation import Fields, Int32
from firearrow.protocol.frame import HEADER_MAX, PREFIX, WORD_SIZE, prefix, too_long
from firearrow.protocol.java_text import java_text, parse_int32
from firearrow.protocol.layout import SHOWN_MAX, FieldLayout, from_text, layout, ordered

F = TypeVar("F", bound=Fields)

DIALECT_MAX: Final = 65_536
"""The longest header that is read in fastjson's dialect, whose parser is written in Python and slow."""

_UNTYPED: Final = msgspec.json.Decoder(dict[str, Any], strict=False)
REFUSALS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions that msgspec raises on hostile input (``ValidationError`` is a ``DecodeError``)."""


_FORMS_OF_ONE: Final = (b'"1"', b":1", b" 1", b"\t1", b"\n1", b"\r1", b"\\u0031")
"""A header without any of these holds no value 1."""


class JsonDecoder(Generic[F]):
    """Decodes headers whose fields are an ``F``.

    ``decode_at_once`` is the fast decoder alone: it returns None, or raises one of ``REFUSALS``, for a header that
    needs the lenient one.
    """

    def __init__(self, fields: type[F]) -> None:
        self._fields = fields
        self._booleans = [field for field in layout(fields) if field.kind is bool]
        names = "|".join(re.escape(field.wire_name) for field in self._booleans)
        self._may_be_one = re.compile(rf'"(?:{names})"\s*:\s*"?1'.encode()).search
        self._decode_ext = msgspec.json.Decoder(fields, strict=False).decode
        self._any_true = self._generate("fields", "return {any_true}")
        self.decode_at_once: Callable[[bytes], Heading[F] | None] = self._generate(
            "header",
            """
    heading = decode(header)
    fields = heading.request
    if fields is None or ({any_true}) and lies(header):
        return None
    return heading
""",
        )

    def _generate(self, parameter: str, body: str) -> Callable[..., Any]:
        any_true = " or ".join(f"fields.{field.name}" for field in self._booleans) or "False"
        decode = msgspec.json.Decoder(Heading[self._fields], strict=False).decode  # type: ignore[name-defined]
        source = f"def generated({parameter}):\n    {body.format(any_true=any_true)}"
        return compile_function(source, {"decode": decode, "lies": self._lies})

    def decode(self, header: bytes) -> Heading[F]:
        """Return the heading, or raise ``BadHeader`` (``BadFields`` when the opaque could be read)."""
        try:
            heading = self.decode_at_once(header)
        except REFUSALS:
            heading = None
        return self.decode_patiently(header) if heading is None else heading

    def decode_patiently(self, header: bytes) -> Heading[F]:
        """Decode with the lenient decoder, by Java's rules."""
        heading, ext = read_untyped(header)
        heading.request = self._from_text(heading, ext)
        return heading

    def decode_fields(self, heading: Heading[Any], header: bytes, ext: msgspec.Raw) -> F:
        """Decode the fields of a header whose heading has been read."""
        try:
            fields = self._decode_ext(ext)
        except REFUSALS:
            return self._from_text(heading, read_untyped(header)[1])
        if self._any_true(fields) and self._lies(header):
            return self._from_text(heading, read_untyped(header)[1])
        return fields

    def _from_text(self, heading: Heading[Any], ext: Mapping[str, str]) -> F:
        try:
            return from_text(self._fields, ext)
        except ValueError as error:
            raise BadFields(heading, str(error)) from None

    def _lies(self, header: bytes) -> bool:
        # msgspec reads "1" as true and Java as false. In a header without escapes a name can be searched literally.
        if b"\\" not in header:
            if self._may_be_one(header) is None:
                return False
        elif not any(form in header for form in _FORMS_OF_ONE):
            return False
        _, ext = read_untyped(header)
        return any(ext.get(field.wire_name) == "1" for field in self._booleans)


_NO_FIELDS: Final = msgspec.Raw(b"{}")


class _Opened(Heading[Any], gc=False):
    """A heading whose fields stay undecoded. (Not ``Raw | None``: msgspec decodes that as None only.)"""

    request: msgspec.Raw = msgspec.field(name="extFields", default=_NO_FIELDS)


_open: Final = msgspec.json.Decoder(_Opened, strict=False).decode


def read_heading(header: bytes) -> tuple[Heading[Any], msgspec.Raw]:
    """Read everything but the fields; return the heading and the undecoded fields."""
    try:
        heading: Heading[Any] = _open(header)
    except REFUSALS:
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


class _Texts(msgspec.Struct):
    code: Int32 = 0
    opaque: Int32 = 0
    ext_fields: dict[str, str] = msgspec.field(name="extFields", default_factory=dict)


_TEXTS: Final = msgspec.json.Decoder(_Texts)


def read_texts(header: bytes) -> dict[str, str]:
    """Read the fields of a header as text: in one pass if all are texts, as nearly all clients write them."""
    try:
        return _TEXTS.decode(header).ext_fields
    except REFUSALS:
        return read_untyped(header)[1]


def _members(header: bytes) -> dict[str, Any]:
    try:
        return _UNTYPED.decode(header)
    except REFUSALS:
        pass
    if len(header) > DIALECT_MAX:
        raise BadHeader("the header is not a JSON object")
    try:
        return _UNTYPED.decode(fastjson.to_standard(header))
    except (BadBody, *REFUSALS) as error:
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


class _Envelope(msgspec.Struct, omit_defaults=True, gc=False):
    """A header to encode, with its members in alphabetical order. Only members that default to None are left out."""

    code: int | msgspec.UnsetType = msgspec.UNSET
    ext_fields: Any = msgspec.field(name="extFields", default=None)
    flag: int | msgspec.UnsetType = msgspec.UNSET
    language: str | msgspec.UnsetType = msgspec.UNSET
    opaque: int | msgspec.UnsetType = msgspec.UNSET
    remark: str | None = None
    serialize_type: str | msgspec.UnsetType = msgspec.field(name="serializeTypeCurrentRPC", default=msgspec.UNSET)
    version: int | msgspec.UnsetType = msgspec.UNSET


_SMALL: Final = {number: str(number) for number in range(-1, 1000)}
_write: Final = msgspec.json.Encoder().encode


def encode_untyped(
    ext: Mapping[str, str], code: int, flag: int, opaque: int, remark: str | None, body_size: int
) -> bytes:
    """Encode a header whose fields are already text."""
    fields = dict(sorted(ext.items())) or None
    envelope = _Envelope(code, fields, flag, OUR_LANGUAGE.name, opaque, remark, Encoding.JSON.name, OUR_VERSION)
    header = _write(envelope)
    return prefix(Encoding.JSON, len(header), body_size) + header


def make_encoder(fields: type[Fields]) -> HeaderEncoder:
    """Generate the encoder of a struct."""
    twin = msgspec.defstruct(
        f"{fields.__name__}Text",
        [(f.name, str | None, msgspec.field(name=f.wire_name, default=None)) for f in ordered(fields)],
        omit_defaults=True,
        gc=False,
    )
    texts = ", ".join(_text(field) for field in ordered(fields))
    ext = f"Twin({texts})" if texts else "None"
    constants = f"{Encoding.JSON.name!r}, {OUR_VERSION}"
    source = f"""
def encode(fields, code, flag, opaque, remark, body_size):
    header = write(Envelope(code, {ext}, flag, {OUR_LANGUAGE.name!r}, opaque, remark, {constants}))
    size = len(header)
    if size > {HEADER_MAX}:
        raise too_long(size)
    return pack(size + {WORD_SIZE} + body_size, size) + header
"""
    names = {
        "Envelope": _Envelope,
        "Twin": twin,
        "write": _write,
        "small": _SMALL.get,
        "pack": PREFIX.pack,
        "too_long": too_long,
    }
    return compile_function(source, names)


def _text(field: FieldLayout) -> str:
    value = f"fields.{field.name}"
    if field.kind is str:
        return value
    if field.kind is bool:
        form = "('true' if value else 'false')"
    elif field.kind is int:
        form = "(small(value) or f'{value}')" if field.is_int32 else "f'{value}'"
    elif field.kind is float:
        form = "repr(value)"
    else:
        form = "str(value.value)"
    if field.is_nullable:
        return f"(None if (value := {value}) is None else {form})"
    return form.replace("value", value)
