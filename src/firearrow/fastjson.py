"""JSON bodies as Java's fastjson writes and reads them.

    decode(data, ConsumeStats)   bytes of a peer -> a typed value; raises BadBody and nothing else
    encode(value)                a typed value -> standard JSON, which every peer reads
    encode_java(value)           a typed value -> fastjson's own form, for the few peers that need it
    read(data)                   bytes of a peer -> plain Python objects
    to_standard(data)            fastjson's dialect -> standard JSON
    quoted(data)                 the common part of the dialect -> standard JSON, at the speed of a header

Where fastjson differs from the standard: the keys of a map keep their type. Numbers stay bare, objects stay objects,
and a map keyed by queues begins with two braces::

    {"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"maxOffset":2}},"byQueue":{0:5}}

Here such a map is a plain ``dict[int, V]`` or ``dict[MessageQueue, V]`` (any frozen struct). ``encode`` writes a
number as a quoted key and a struct as a string that contains its JSON; fastjson 1 reads both, fastjson 2 (Apache 5.5)
the number only, so bodies keyed by queues are encoded by ``encode_java``. ``decode`` reads all forms, indented or not,
and fastjson's smaller extensions: single quotes, bare names as keys, control characters in strings. As in Java, null
means absent, a string may stand for a number, and unknown members are ignored.

Input is hostile: nesting, digits and keys within keys are limited, so work and memory stay proportional to the input.
Bodies in standard JSON, which is nearly all of them, go straight through msgspec.
"""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from firearrow.errors import BadBody

T = TypeVar("T")

DEPTH_MAX: Final = 32
DIGITS_MAX: Final = 400

_REFUSALS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}


def decode(data: bytes, kind: type[T], *, most_in_dialect: int | None = None) -> T:
    """Decode a body into a ``kind``, or raise ``BadBody``.

    Standard JSON takes 7 ms a MiB, fastjson's dialect up to half a second: ``most_in_dialect`` bounds its bytes.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind, strict=False)
    try:
        value: T = decoder.decode(data)
    except _REFUSALS:
        if most_in_dialect is not None and len(data) > most_in_dialect:
            raise BadBody(
                f"{len(data)} bytes that are no standard JSON; fastjson's own form is read up to {most_in_dialect} "
                "bytes: send standard JSON"
            ) from None
        return _decode_dialect(data, kind, decoder)
    return value


def _decode_dialect(data: bytes, kind: type[T], decoder: msgspec.json.Decoder[Any]) -> T:
    quoted = _with_quoted_numbers(data)
    try:
        value: T = decoder.decode(quoted)
    except _REFUSALS:
        return _convert(_objects(data, quoted), kind)
    return value


def _objects(data: bytes, quoted: bytes) -> object:
    if sum(1 for _ in islice(_LARGE_EXPONENT.finditer(quoted), EXPONENTS_MAX + 1)) > EXPONENTS_MAX:
        raise BadBody(f"more than {EXPONENTS_MAX} numbers with large exponents")
    try:
        return msgspec.json.decode(quoted)
    except _REFUSALS:
        return read(data)


def _convert(value: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(_present(value, open_keys=False), kind, strict=False, str_keys=True)
    except (msgspec.ValidationError, RecursionError):
        pass
    try:
        return msgspec.convert(_present(value, open_keys=True), kind, strict=False, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        name = getattr(kind, "__name__", str(kind))
        raise BadBody(f"the body is not a {name}: {error}") from None


# An unclosed string matches to the end: otherwise the pattern would be tried again from every quote in it.
_STRINGS: Final = re.compile(rb'("[^"\\]*(?:\\.?[^"\\]*)*(?:"|\Z))', re.DOTALL)
_NUMERIC_KEY: Final = re.compile(rb"([{,][ \t\r\n]*)(-?[0-9]+)([ \t\r\n]*:)")
_CUT: Final = b"\0"
_LARGE_EXPONENT: Final = re.compile(rb"[\[:,][ \t\r\n]*+-?[0-9.]++[eE][+-]?[0-9]{2}")
EXPONENTS_MAX: Final = 100
"""The most numbers such as 1e300 in a body that is read without its type: each takes msgspec 10 us."""


def _with_quoted_numbers(data: bytes) -> bytes:
    """Quote bare numeric keys with one regular expression: offset tables of a whole broker are large."""
    if _CUT in data or _NUMERIC_KEY.search(data) is None:
        return data
    parts = _STRINGS.split(data)
    between = _NUMERIC_KEY.sub(rb'\1"\2"\3', _CUT.join(parts[::2]))
    parts[::2] = between.split(_CUT)
    return b"".join(parts)


def encode(value: object) -> bytes:
    """Encode a value as standard JSON: no blanks, object keys as strings."""
    return _ENCODER.encode(value)


def encode_java(value: object) -> bytes:
    """Encode a value as fastjson does: bare numbers and bare objects as keys, nulls left out."""
    return _java(value)


_TEXTS: Final = re.compile(
    rb"""(
      "[^"\\]*+(?:\\.?+[^"\\]*+)*+(?:"|\Z)      # an unclosed string goes on to the end, see _STRINGS
    | '[^'"\\]*+(?:\\[^'"x][^'"\\]*+)*+'         # others stay as they are, and are not JSON
    )""",
    re.DOTALL | re.VERBOSE,
)
_BARE_KEY: Final = re.compile(rb"(?<![A-Za-z0-9_$.+-])(-?[0-9]++|[A-Za-z_$][A-Za-z0-9_$]*+)(?=[ \t\r\n\f\b]*+:)")
_CONTROLS: Final = re.compile(rb"[\x01-\x1f]+")
_ESCAPES: Final = tuple(b"\\u%04x" % code for code in range(0x20))


def quoted(data: bytes) -> bytes:
    """Turn the common part of the dialect into standard JSON: single quotes, bare keys, control characters in strings.

    Other forms are left as they are, and no decoder of standard JSON accepts them. The texts are cut out and joined,
    what is between them is joined, and each is changed as a whole. Only runs of control characters are changed one by
    one, in one pass: the caller bounds the bytes.
    """
    if _CUT in data:
        return data
    parts = _TEXTS.split(data)
    between = b'"'.join(_BARE_KEY.split(_CUT.join(parts[::2])))
    texts = _CUT.join([b"", *parts[1::2], b""]).replace(b"\0'", b'\0"').replace(b"'\0", b'"\0')
    texts = _CONTROLS.sub(_escaped_run, texts)
    parts[::2], parts[1::2] = between.split(_CUT), texts.split(_CUT)[1:-1]
    return b"".join(parts)


def _escaped_run(run: re.Match[bytes]) -> bytes:
    return b"".join([_ESCAPES[code] for code in run[0]])


def to_standard(data: bytes) -> bytes:
    """Turn fastjson's dialect into standard JSON (an object key becomes a string), or raise ``BadBody``."""
    return _ENCODER.encode(read(data))


def read(data: bytes) -> Any:  # noqa: ANN401 - untyped data enters here
    """Read a body into plain objects, or raise ``BadBody``. Object keys come as ``ObjectKey``."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: {error}") from None
    return _JsonReader(text).read()


class ObjectKey(Mapping[str, Any]):
    """An object that is the key of a map: hashable, equal by content."""

    __slots__ = ("_members", "text")

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members
        self.text = msgspec.json.encode(members, order="sorted").decode()

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - untyped data
        """Return one member."""
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the members."""
        return iter(self._members)

    def __len__(self) -> int:
        """Return how many members there are."""
        return len(self._members)

    def __hash__(self) -> int:
        """Equal keys have equal texts."""
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        """Compare by content."""
        return isinstance(other, ObjectKey) and self.text == other.text


def _key_text(key: object) -> str:
    # msgspec calls this for keys that are objects, which it cannot encode itself.
    if isinstance(key, ObjectKey):
        return key.text
    if isinstance(key, msgspec.Struct):
        return msgspec.json.encode(key, order="sorted").decode()
    raise NotImplementedError(f"{type(key).__name__} has no JSON form")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_key_text)


def _present(value: object, *, open_keys: bool) -> object:
    """Leave out nulls; with ``open_keys``, turn string keys that contain an object into that object."""
    if isinstance(value, list):
        return [_present(item, open_keys=open_keys) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        _opened(key) if open_keys else key: _present(item, open_keys=open_keys)
        for key, item in value.items()
        if item is not None
    }


def _opened(key: object) -> object:
    if not (isinstance(key, str) and key.startswith("{")):
        return key
    try:
        members = _JsonReader(key, in_key=True).read()
    except BadBody:
        return key
    return ObjectKey(members)


def _java(value: object) -> bytes:
    if isinstance(value, Mapping):
        return b"{%b}" % b",".join(
            _java_key(key) + b":" + _java(item) for key, item in value.items() if item is not None
        )
    if isinstance(value, msgspec.Struct):
        members = ((written, getattr(value, name)) for written, name in _members(type(value)))
        return _java({name: item for name, item in members if item is not None})
    if isinstance(value, list | tuple | set | frozenset):
        return b"[%b]" % b",".join(_java(item) for item in value)
    return _ENCODER.encode(value)


@cache
def _members(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Return the members of a type by their names on the wire, sorted, with their own names."""
    return tuple(sorted((field.encode_name, field.name) for field in msgspec.structs.fields(kind)))


def _java_key(key: object) -> bytes:
    if isinstance(key, ObjectKey):
        return key.text.encode()
    return _java(key) if isinstance(key, msgspec.Struct) else msgspec.json.encode(key)


_TOKEN: Final = re.compile(
    r"""[ \t\r\n\f\b]*(?:
        ([{}\[\]:,])                                              # 1 punctuation
      | "([^"\\]*(?:\\.[^"\\]*)*)" | '([^'\\]*(?:\\.[^'\\]*)*)'   # 2, 3 a string
      | (-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)               # 4 a number
      | ([A-Za-z_$][A-Za-z0-9_$]*)                                # 5 a word
      | (\Z)                                                      # 6 the end
    )""",
    re.DOTALL | re.VERBOSE | re.ASCII,
)
_PUNCTUATION, _STRING, _SINGLE_QUOTED, _NUMBER, _WORD, _END = range(1, 7)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_PLAIN_ESCAPES: Final = {"b": "\b", "f": "\f", "F": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LITERAL_ESCAPES: Final = "\"'\\/"
_WORDS: Final = {"true": True, "false": False, "null": None}


class _JsonReader:
    """Recursive descent, at most ``DEPTH_MAX`` deep."""

    def __init__(self, text: str, *, in_key: bool = False) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._in_key = in_key
        self._kind = 0
        self._token = ""

    def read(self) -> Any:  # noqa: ANN401 - untyped data enters here
        self._advance()
        value = self._value()
        if self._kind != _END:
            raise self._bad("the end")
        return value

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise BadBody(f"not JSON at character {self._at}: {self._text[self._at : self._at + 20]!r}")
        self._at, self._kind = match.end(), match.lastindex or 0
        self._token = match[self._kind]

    def _bad(self, expected: str) -> BadBody:
        found = self._token[:20] if self._kind != _END else "the end"
        return BadBody(f"not JSON before character {self._at}: expected {expected}, found {found!r}")

    def _is(self, mark: str) -> bool:
        return self._kind == _PUNCTUATION and self._token == mark

    def _expect(self, mark: str) -> None:
        if not self._is(mark):
            raise self._bad(repr(mark))
        self._advance()

    def _value(self) -> Any:  # noqa: ANN401 - untyped data enters here
        is_object = self._is("{")
        if not is_object and not self._is("["):
            value = self._scalar()
            self._advance()
            return value
        if self._depth == DEPTH_MAX:
            raise BadBody(f"JSON nested deeper than {DEPTH_MAX}")
        self._depth += 1
        nested = self._object() if is_object else self._array()
        self._depth -= 1
        return nested

    def _scalar(self) -> str | int | float | bool | None:
        if self._kind in (_STRING, _SINGLE_QUOTED):
            return _unescaped(self._token)
        if self._kind == _NUMBER:
            return _number(self._token)
        if self._kind == _WORD and self._token in _WORDS:
            return _WORDS[self._token]
        raise self._bad("a value")

    def _array(self) -> list[Any]:
        self._advance()
        items: list[Any] = []
        while not self._is("]"):
            if items:
                self._expect(",")
            items.append(self._value())
        self._advance()
        return items

    def _object(self) -> dict[Any, Any]:
        self._advance()
        members: dict[Any, Any] = {}
        while not self._is("}"):
            if members:
                self._expect(",")
            key = self._key()
            self._expect(":")
            members[key] = self._value()
        self._advance()
        return members

    def _key(self) -> str | ObjectKey:
        if self._is("{"):
            return self._object_key()
        if self._kind in (_STRING, _SINGLE_QUOTED):
            key = _unescaped(self._token)
        elif self._kind in (_NUMBER, _WORD):
            key = self._token
        else:
            raise self._bad("a key")
        self._advance()
        return key

    def _object_key(self) -> ObjectKey:
        # Every level of keys within keys would double the escapes of the level below.
        if self._in_key:
            raise BadBody("an object key inside an object key")
        self._in_key = True
        members = self._value()
        self._in_key = False
        return ObjectKey(members)


def _number(token: str) -> int | float:
    if len(token) > DIGITS_MAX:
        raise BadBody(f"a number of {len(token)} digits")
    try:
        return int(token)
    except ValueError:
        number = float(token)
    if math.isinf(number):
        raise BadBody(f"the number {token[:20]} is out of range")
    return number


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_escaped, text)
    if not any("\ud800" <= char <= "\udfff" for char in plain):
        return plain
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise BadBody("half of a surrogate pair in a string") from None


def _escaped(match: re.Match[str]) -> str:
    escape = match[1]
    if escape in _LITERAL_ESCAPES:
        return escape
    if escape in _PLAIN_ESCAPES:
        return _PLAIN_ESCAPES[escape]
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    raise BadBody(f"unknown escape {match[0]!r} in a string")
