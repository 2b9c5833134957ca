"""A conversation: a typed request with its code and the type of its answer.

One request code is one frozen struct::

    class GetMaxOffset(Request[OffsetAnswer], frozen=True, kw_only=True, gc=False):
        code: ClassVar[RequestCode] = RequestCode.GET_MAX_OFFSET
        topic: str
        queue_id: int
        committed: bool = True

Names are Python's; on the wire they are camelCase, or the name in ``msgspec.field(name=...)``. A field without a
default is required. On the wire all values are strings in the header's ``extFields``: ``serialize`` encodes and decodes
them in both header encodings. A conversation whose frames carry a body names the type of the body in ``request_body``
or ``answer_body`` (None: no body, ``bytes``: opaque bytes, else a type of ``protocol.bodies``).

Fields are ``str``, ``bool``, ``float``, ``Int32`` (Java's int), ``int`` (Java's long) or a ``str`` enum, any of them
``| None`` with the default None when Java's header may leave it null. A number outside Java's range is refused while
the header is decoded, so that no handler gets an integer that does not fit its field in a record.

Invariants: structs are frozen; ``answer`` is always the type argument of ``Request``, so that request and answer types
cannot be confused at a call site; no I/O.
"""

import inspect
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Generic, NewType, TypeVar, Union, get_args, get_origin

import msgspec

from firearrow.protocol.codes import RequestCode

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]


class Fields(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """The named values in a header: of a request or of an answer."""

    def __init_subclass__(cls, **config: Any) -> None:  # noqa: ANN401 - msgspec's own options, passed on
        super().__init_subclass__(**config)
        # msgspec accepts an integer of any length. Every plain int gets bounds here, before the first decoder is built,
        # so that the decoder checks them in C.
        own = inspect.get_annotations(cls)
        cls.__annotations__ = {name: _bounded(kind) for name, kind in own.items()}


def _bounded(kind: Any) -> Any:  # noqa: ANN401 - an annotation may be anything
    if kind is int:
        return Int64
    if isinstance(kind, NewType):
        return _bounded(kind.__supertype__)
    if get_origin(kind) in (UnionType, Union):
        return Union[tuple(_bounded(part) for part in get_args(kind))]  # noqa: UP007 - the parts are computed
    return kind


class EmptyAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """An answer without fields."""


A = TypeVar("A", bound=Fields)


class Request(Fields, Generic[A], frozen=True, kw_only=True):
    """A request that is answered with an ``A``."""

    code: ClassVar[RequestCode]
    answer: ClassVar[type[Fields]]
    request_body: ClassVar[type[Any] | None] = None
    answer_body: ClassVar[type[Any] | None] = None

    def __init_subclass__(cls, **config: object) -> None:
        super().__init_subclass__(**config)
        for base in cls.__dict__.get("__orig_bases__", ()):
            arguments = get_args(base)
            if arguments and isinstance(arguments[0], type):
                cls.answer = arguments[0]
