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

Invariants: structs are frozen; ``answer`` is always the type argument of ``Request``, so that a call site cannot pair
the wrong two; nothing here knows how bytes move.
"""

from typing import Any, ClassVar, Generic, TypeVar, get_args

import msgspec

from firearrow.protocol.codes import RequestCode


class Fields(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """The named values in a header: of a request or of an answer."""


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
