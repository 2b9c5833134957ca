"""Conversations made up for tests: every kind of field, required and not."""

from enum import StrEnum
from typing import Any, ClassVar, TypeVar

import msgspec

from firearrow.protocol.codes import RequestCode
from firearrow.protocol.command import Encoding, Heading
from firearrow.protocol.conversation import EmptyAnswer, Fields, Int32, Request
from firearrow.protocol.serialize import Catalogue, compact_decoder, encode_answer, encode_request, json_decoder

F = TypeVar("F", bound=Fields)


class Boundary(StrEnum):
    LOWER = "lower"
    UPPER = "upper"


class Found(Fields, frozen=True, kw_only=True, gc=False):
    offset: int
    note: str | None = None


class Seek(Request[Found], frozen=True, kw_only=True, gc=False):
    code: ClassVar[RequestCode] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    topic: str
    queue_id: Int32
    timestamp: int
    exact: bool = False
    verbose: bool | None = None
    weight: float | None = None
    boundary: Boundary | None = None
    group: str | None = msgspec.field(name="g", default=None)


class Nothing(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CLUSTER_INFO


class Optional(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_RUNTIME_INFO

    name: str | None = None
    size: Int32 | None = None


class Wide(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    code: ClassVar[RequestCode] = RequestCode.POP_MESSAGE

    topic: str


CATALOGUE = Catalogue([Seek, Nothing, Optional, Wide])
SEEK = Seek(topic="T", queue_id=3, timestamp=1_700_000_000_000, exact=True, group='a"b')
JSON, COMPACT = Encoding.JSON, Encoding.COMPACT


def header_of(encoding: Encoding, request: Request[Any], opaque: int = 1) -> bytes:
    return encode_request(encoding, request, opaque)[8:]


def answer_frame(opaque: int, fields: Fields | None = None, code: int = 0, encoding: Encoding = JSON) -> bytes:
    return encode_answer(encoding, opaque, fields, code, "why" if code else None)


def decode_answer(encoding: int, header: bytes, answer: type[F]) -> Heading[F]:
    """Decode the header of an answer whose fields are an ``answer``; the heading's ``request`` holds them."""
    return compact_decoder(answer).decode(header) if encoding else json_decoder(answer).decode(header)
