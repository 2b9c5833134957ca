"""Encoding and decoding of headers, in either encoding: from bytes to typed requests and answers, and back.

A ``Catalogue`` holds conversations by their codes and decodes requests; ``catalogue()`` holds all of them. Answers are
decoded by the answer type of their request. Decoders and encoders are generated from a struct on first use and kept.
Encoding returns the head of a frame (its eight-byte prefix and its header) for a body whose size is known, so that a
large body is never copied.

Rules that hold for both encodings:

* a request decodes to the same value from both encodings, as far as the compact encoding can express it;
* ``decode_request`` raises ``BadHeader`` and nothing else; its subclass ``BadFields`` when the peer can be answered;
* a heading whose ``request`` is None is an answer, or has a code without a conversation in the catalogue.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from firearrow.protocol import header_compact, header_json
from firearrow.protocol.command import ANSWER_FLAG, ONEWAY_FLAG, Encoding, HeaderEncoder, Heading
from firearrow.protocol.compact_decoder import CompactDecoder
from firearrow.protocol.compact_decoder import read_fields as read_compact_texts
from firearrow.protocol.compact_decoder import read_heading as read_compact_heading
from firearrow.protocol.conversation import Fields, Request
from firearrow.protocol.header_json import REFUSALS, UNCOUNTED_BYTES, JsonDecoder
from firearrow.protocol.layout import to_text

F = TypeVar("F", bound=Fields)

_CODE_MEMBER: Final = b'{"code":'
_CODE_AT: Final = len(_CODE_MEMBER)
_CODE_END: Final = _CODE_AT + 12
_NARROW_MAX: Final = 0x7FFF


class Catalogue:
    """Conversations by request code."""

    def __init__(self, requests: Iterable[type[Request[Any]]]) -> None:
        self.types: dict[int, type[Request[Any]]] = {int(request.code): request for request in requests}
        # A JSON header nearly always begins with its code. The digits of the code find the typed decoder, so that the
        # header need not be parsed once more to learn its code.
        self._by_digits = {b"%d" % code: request for code, request in self.types.items()}
        self._at_once: dict[bytes, Callable[[bytes], Heading[Any] | None]] = {}
        self._from_fields: dict[int, Callable[[Heading[Any], bytes, int, bool], Fields]] = {}
        self._wide = {header_compact.narrow_code(code): code for code in self.types if code > _NARROW_MAX}

    def decode_request(self, encoding: int, header: bytes, learns: bool = True) -> Heading[Any]:
        """Decode a header into a typed request, or raise ``BadHeader``; with ``learns`` its shape may be kept."""
        if encoding:
            compact, fields_at = read_compact_heading(header)
            decode = self._from_fields.get(compact.code)
            if decode is None or compact.flag & ANSWER_FLAG:
                return self._from_new_compact(compact, header, fields_at, learns)
            compact.request = decode(compact, header, fields_at, learns)
            return compact
        digits = header[_CODE_AT : header.find(b",", _CODE_AT, _CODE_END)]
        try:
            heading = self._at_once[digits](header)
        except KeyError:
            return self._from_new_json(header, digits)
        except REFUSALS:
            return self._from_untyped_json(header)
        # The digits may not have been those of the code, and an answer must not be decoded as a request.
        if heading is None or heading.flag & ANSWER_FLAG or not header.startswith(_CODE_MEMBER):
            return self._from_untyped_json(header)
        if heading.request is None or heading.code != heading.request.code:  # two codes: the last counts, as in Java
            return self._from_untyped_json(header)
        if len(header) > UNCOUNTED_BYTES:
            header_json.count_fields(heading, header)
        return heading

    def _from_new_json(self, header: bytes, digits: bytes) -> Heading[Any]:
        request = self._by_digits.get(digits)
        if request is None:
            return self._from_untyped_json(header)
        self._at_once[digits] = json_decoder(request).decode_at_once
        return self.decode_request(Encoding.JSON, header)

    def _from_untyped_json(self, header: bytes) -> Heading[Any]:
        heading = header_json.read_untyped(header)
        request = self.types.get(heading.code)
        if request is not None and not heading.flag & ANSWER_FLAG:
            heading.request = json_decoder(request).from_texts(heading)
        return heading

    def _from_new_compact(self, heading: Heading[Any], header: bytes, fields_at: int, learns: bool) -> Heading[Any]:
        code = heading.code
        if code not in self.types:
            code = heading.code = self._wide.get(code, code)
        request = self.types.get(code)
        if request is not None and not heading.flag & ANSWER_FLAG:
            decode = self._from_fields[code] = compact_decoder(request).decode_fields
            heading.request = decode(heading, header, fields_at, learns)
        return heading


@cache
def catalogue() -> Catalogue:
    """Return the catalogue of all conversations."""
    from firearrow.protocol import requests

    return Catalogue(requests.ALL)


_JSON_DECODERS: Final[dict[type[Fields], JsonDecoder[Any]]] = {}
_COMPACT_DECODERS: Final[dict[type[Fields], CompactDecoder[Any]]] = {}


def json_decoder(fields: type[F]) -> JsonDecoder[F]:
    """Return the decoder of JSON headers that carry these fields."""
    decoder = _JSON_DECODERS.get(fields)
    if decoder is None:
        decoder = _JSON_DECODERS[fields] = JsonDecoder(fields)
    return decoder


def compact_decoder(fields: type[F]) -> CompactDecoder[F]:
    """Return the decoder of compact headers that carry these fields."""
    decoder = _COMPACT_DECODERS.get(fields)
    if decoder is None:
        decoder = _COMPACT_DECODERS[fields] = CompactDecoder(fields)
    return decoder


def decode_request(encoding: int, header: bytes) -> Heading[Any]:
    """Decode a header with the catalogue of all conversations."""
    return catalogue().decode_request(encoding, header)


def read_heading(encoding: int, header: bytes) -> tuple[Heading[Any], Any]:
    """Read the values that every command carries; the second value is only for ``read_fields``."""
    return read_compact_heading(header) if encoding else header_json.read_heading(header)


def read_fields(encoding: int, heading: Heading[Any], header: bytes, rest: Any, fields: type[F]) -> F:  # noqa: ANN401
    """Decode the fields of a header after ``read_heading``, or raise ``BadFields``."""
    if encoding:
        return compact_decoder(fields).decode_fields(heading, header, rest)
    return json_decoder(fields).decode_fields(header, rest)


def ext_fields(encoding: int, header: bytes) -> dict[str, str]:
    """Return the fields of a header as text, for checking signatures and for forwarding unchanged."""
    if encoding:
        heading, fields_at = read_compact_heading(header)
        return read_compact_texts(heading, header, fields_at)
    return header_json.read_texts(header)


def encode_request(
    encoding: int,
    request: Request[Any],
    opaque: int,
    *,
    body_size: int = 0,
    oneway: bool = False,
    extra: Mapping[str, str] | None = None,
) -> bytes:
    """Return prefix and header of a request. ``extra`` are additional fields, such as a signature."""
    flag = ONEWAY_FLAG if oneway else 0
    return _encode(encoding, request, int(request.code), flag, opaque, None, body_size, extra)


def encode_answer(
    encoding: int,
    opaque: int,
    fields: Fields | None = None,
    code: int = 0,
    remark: str | None = None,
    body_size: int = 0,
    extra: Mapping[str, str] | None = None,
) -> bytes:
    """Return prefix and header of an answer to the request that had this opaque."""
    return _encode(encoding, fields, code, ANSWER_FLAG, opaque, remark, body_size, extra)


def _encode(
    encoding: int,
    fields: Fields | None,
    code: int,
    flag: int,
    opaque: int,
    remark: str | None,
    body_size: int,
    extra: Mapping[str, str] | None,
) -> bytes:
    if fields is None or extra:
        ext = ({} if fields is None else to_text(fields)) | dict(extra or {})
        encode_untyped = header_compact.encode_untyped if encoding else header_json.encode_untyped
        return encode_untyped(ext, code, flag, opaque, remark, body_size)
    return encoder(encoding, type(fields))(fields, code, flag, opaque, remark, body_size)


def encoder(encoding: int, fields: type[Fields]) -> HeaderEncoder:
    """Return the encoder of headers that carry these fields."""
    found = ENCODERS[encoding].get(fields)
    if found is None:
        make = header_compact.make_encoder if encoding else header_json.make_encoder
        found = ENCODERS[encoding][fields] = make(fields)
    return found


ENCODERS: Final[tuple[dict[type[Fields], HeaderEncoder], ...]] = ({}, {})
"""Encoders by the number of the encoding, then by the type of the fields. ``encoder`` fills the tables."""
