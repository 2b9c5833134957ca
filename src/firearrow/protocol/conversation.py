"""What a conversation is: a typed request that knows its code and the type of its answer.

One request code is one frozen struct::

    class GetMaxOffset(Request[OffsetAnswer], frozen=True, kw_only=True, gc=False):
        code: ClassVar[RequestCode] = RequestCode.GET_MAX_OFFSET
        topic: str
        queue_id: int
        committed: bool = True

Names are Python's; on the wire they are camelCase, or whatever ``msgspec.field(name=...)`` says. A field without a
default is required. Values travel as strings in the header's ``extFields`` whatever their type here: ``serialize``
turns them into bytes and back in both header encodings. A conversation whose frames carry a body names its type in
``request_body`` or ``answer_body`` (None: no body, ``bytes``: opaque bytes, else a type of ``protocol.bodies``).

Fields are ``str``, ``bool``, ``float``, ``Int32`` (Java's int), ``int`` (Java's long) or a ``str`` enum, any of them
``| None`` with the default None when Java's header may leave it null. A number outside Java's range is refused while
the header is decoded, so that nothing behind it meets an integer that does not fit its place in a record.

Invariants: structs are frozen; ``answer`` is always the type argument of ``Request``, so that a call site cannot pair
the wrong two; nothing here knows how bytes move.
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
        # msgspec takes an integer of any length. Bounding every plain int here, before the first decoder is built,
        # has the bounds checked inside that decoder.
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


class Empty(Fields, frozen=True, kw_only=True, gc=False):
    """An answer that says nothing but its code."""


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
