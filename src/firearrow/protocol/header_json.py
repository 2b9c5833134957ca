"""Headers as JSON: the default of every stock client.

Java: ``RemotingSerializable`` over ``RemotingCommand``. A header is one object::

    {"code":310,"extFields":{"a":"group","e":"2"},"flag":0,"language":"JAVA","opaque":7,
     "serializeTypeCurrentRPC":"JSON","version":513}

There is a fast and a lenient decoder. The fast one is a msgspec decoder for the envelope with the request's own struct
in place of ``extFields``: one pass in C that also turns strings into numbers. Headers that it refuses (numbers in place
of strings, nulls, a value out of range, fastjson's own dialect) go to the lenient decoder, which reads the object
untyped, turns every value into text and parses the text as Java does. The fast decoder differs from Java in two
harmless points: it accepts 5.0 and 1e3, quoted or bare, as integers, and ``"null"`` as an absent number, boolean or
enum. It would also read ``"1"`` as true, which ``_lies`` prevents.

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
from firearrow.errors import BadHeader
from firearrow.protocol.codegen import compile_function
from firearrow.protocol.command import (
    FIELDS_MAX,
    OUR_LANGUAGE,
    OUR_VERSION,
    BadFields,
    Encoding,
    HeaderEncoder,
    Heading,
    LenientHeading,
    too_many_fields,
)
from firearrow.protocol.conversation import Fields, Int32
from firearrow.protocol.frame import HEADER_MAX, PREFIX, WORD_SIZE, prefix, too_long
from firearrow.protocol.java_text import parse_int32
from firearrow.protocol.layout import SHOWN_MAX, FieldLayout, from_text, layout, ordered

F = TypeVar("F", bound=Fields)

DIALECT_TEXTS_MAX: Final = 80
"""The most texts, and the most members, of a header that is read in fastjson's dialect, which costs more a byte."""
DIALECT_BYTES_MAX: Final = 64 * 1024
"""The most bytes of such a header."""
UNCOUNTED_BYTES: Final = 5 * FIELDS_MAX
"""A header that is no longer has at most `FIELDS_MAX` fields: a field has five characters, as in ``"":1,``."""

MEMBERS_MAX: Final = 2 * FIELDS_MAX
"""The most members of a header, repeated ones and those of nested objects included, that are read one by one."""
_NO_SIGNS: Final = bytes(byte for byte in range(256) if byte not in b'":,{}')
"""The bytes that are removed before members are counted: all but quotes and the signs that stand beside them."""

_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Not ``Any``: msgspec takes 10 us for a number such as 1e300, and a header has room for 100,000 of them."""
_QUOTE: Final = ord('"')
_DIGITS: Final = b"0123456789"
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_texts: Final = msgspec.json.Decoder(dict[str, str]).decode
REFUSALS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions that msgspec raises on hostile input (``ValidationError`` is a ``DecodeError``)."""


_escapes_a_name: Final = re.compile(rb"\\u00[3-7]").search
"""Finds an escaped letter or digit: a boolean field with the value 1 can be written with those."""


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
        heading = read_untyped(header)
        heading.request = self.from_texts(heading)
        return heading

    def from_texts(self, heading: LenientHeading[Any]) -> F:
        """Return the fields of a header that the lenient decoder has read."""
        try:
            return from_text(self._fields, heading.texts)
        except ValueError as error:
            raise BadFields(heading, str(error)) from None

    def decode_fields(self, header: bytes, ext: msgspec.Raw) -> F:
        """Decode the fields of a header whose heading has been read."""
        try:
            fields = self._decode_ext(ext)
        except REFUSALS:
            return self.from_texts(read_untyped(header))
        if self._any_true(fields) and self._lies(header):
            return self.from_texts(read_untyped(header))
        return fields

    def _lies(self, header: bytes) -> bool:
        # msgspec reads "1" as true and Java as false; in doubt the lenient decoder reads the header.
        return self._may_be_one(header) is not None or _escapes_a_name(header) is not None


_NO_FIELDS: Final = msgspec.Raw(b"{}")


class _OpenedHeading(Heading[Any], gc=False):
    """A heading whose fields stay undecoded. (Not ``Raw | None``: msgspec decodes that as None only.)"""

    request: msgspec.Raw = msgspec.field(name="extFields", default=_NO_FIELDS)


_open: Final = msgspec.json.Decoder(_OpenedHeading, strict=False).decode


def read_heading(header: bytes) -> tuple[Heading[Any], msgspec.Raw]:
    """Read everything but the fields; return the heading and the undecoded fields."""
    try:
        heading: Heading[Any] = _open(header)
    except REFUSALS:
        lenient = read_untyped(header)
        return lenient, msgspec.Raw(msgspec.json.encode(lenient.texts))
    fields: msgspec.Raw = heading.request or _NO_FIELDS
    heading.request = None
    return heading, fields


def count_fields(heading: Heading[Any], header: bytes) -> None:
    """Raise ``BadFields`` if a header that the fast decoder has read has more than `FIELDS_MAX` fields."""
    if header.count(b":") > FIELDS_MAX and (_has_too_many(header) or len(read_texts(header)) > FIELDS_MAX):
        raise too_many_fields(heading)


def _has_too_many(header: bytes) -> bool:
    """Whether a JSON object surely has more than `MEMBERS_MAX` members, at a tenth of the cost of reading them."""
    return _count_quotes_before_colons(header) > 3 * MEMBERS_MAX


def _count_quotes_before_colons(header: bytes) -> int:
    """Return how many quotes that are not escaped a colon follows: one to three for every member of a JSON object.

    Such a quote ends a name. It may also begin a name or a text whose first sign is a colon.
    """
    # Backslashes go in pairs from the left; one that is left escapes what follows. Blanks of the same length are put
    # in place of both without a copy for every match, and go with the other signs.
    unescaped = header.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    return unescaped.translate(None, _NO_SIGNS).count(b'":')


def read_untyped(header: bytes) -> LenientHeading[Any]:
    """Read a header without knowing its fields: the heading (its request None) with the fields as text."""
    if len(header) > UNCOUNTED_BYTES and header.count(b":") > MEMBERS_MAX and _has_too_many(header):
        raise _too_many_members(header)
    members = _members(header)
    heading: LenientHeading[Any] = LenientHeading(
        code=_number(members, "code"),
        flag=_number(members, "flag"),
        opaque=_number(members, "opaque"),
        version=_number(members, "version"),
        remark=_text_of(members, "remark"),
    )
    heading.language = _text_of(members, "language") or heading.language
    heading.texts = _texts(heading, members.get("extFields", _NO_FIELDS))
    return heading


def _too_many_members(header: bytes) -> BadHeader:
    """Return the error for a header with too many members; one that can be answered if the header is well-formed."""
    try:
        heading: Heading[Any] = _open(header)
    except REFUSALS:
        return BadHeader(f"the header has more than {MEMBERS_MAX} members")
    return too_many_fields(heading)


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
        return read_untyped(header).texts


def _members(header: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _decode_members(header)
    except REFUSALS:
        pass
    if len(header) > DIALECT_BYTES_MAX:
        raise BadHeader(f"the header is not a JSON object; fastjson's own form is read up to {DIALECT_BYTES_MAX} bytes")
    most = DIALECT_TEXTS_MAX
    if header.count(b'"') + header.count(b"'") > 2 * most or header.count(b":") > most:
        raise BadHeader(f"the header is not a JSON object; fastjson's own form is read up to {most} members")
    try:
        return _decode_members(fastjson.quoted(header))
    except REFUSALS as error:
        raise BadHeader(f"the header is not a JSON object: {error}") from None


def _texts(heading: LenientHeading[Any], ext: msgspec.Raw) -> dict[str, str]:
    try:
        texts = _decode_texts(ext)
    except REFUSALS:
        return _texts_of_any(heading, ext)
    if len(texts) > FIELDS_MAX:
        raise too_many_fields(heading)
    return texts


def _texts_of_any(heading: LenientHeading[Any], ext: msgspec.Raw) -> dict[str, str]:
    if bytes(ext) == b"null":
        return {}
    try:
        members = _decode_members(ext)
    except REFUSALS:
        raise BadHeader("extFields is not an object") from None
    if len(members) > FIELDS_MAX:
        raise too_many_fields(heading)
    return {name: text for name, raw in members.items() if (text := _member_text(name, raw)) is not None}


def _number(members: Mapping[str, msgspec.Raw], name: str) -> int:
    text = _text_of(members, name)
    try:
        return 0 if text is None else parse_int32(text)
    except ValueError as error:
        raise BadHeader(f"{name} is {(text or '')[:SHOWN_MAX]!r}: {error}") from None


def _text_of(members: Mapping[str, msgspec.Raw], name: str) -> str | None:
    raw = members.get(name)
    return None if raw is None else _member_text(name, raw)


def _member_text(name: str, raw: msgspec.Raw) -> str | None:
    """The text of a member; None for null. Numbers are what the peer wrote."""
    value = bytes(raw)
    first = value[0]
    if first in _DIGITS:
        return value.decode()
    try:
        if first == _QUOTE:
            return _decode_text(value)
        if first in b"{[":
            value = msgspec.json.format(value, indent=-1)
        return None if value == b"null" else value.decode()
    except REFUSALS as error:
        raise BadHeader(f"{name} is not a text: {error}") from None


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
