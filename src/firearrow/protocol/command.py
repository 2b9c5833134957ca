"""The values that every command carries besides its own fields, in either encoding.

Java: ``RemotingCommand``. A ``Heading`` is a decoded header: six values that every command carries, and the typed
request that its code and fields stand for. ``request`` is None when the code has no typed conversation, or when the
command is an answer.

Flag bits: 1 the command is an answer, 2 the request is one-way and gets no answer.

Anybody who reaches a port can send headers, so what a header costs is bounded before anything in it is believed: it has
at most `FIELDS_MAX` fields, and no decoder runs a loop in Python over more.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, Generic, TypeVar

import msgspec

from firearrow.errors import BadHeader
from firearrow.model.versions import CURRENT_VERSION, LanguageCode
from firearrow.protocol.conversation import Int32

ANSWER_FLAG: Final = 1
ONEWAY_FLAG: Final = 2

FIELDS_MAX: Final = 256
"""The most fields of a header. The widest request of a stock client has fewer than 40."""

OUR_LANGUAGE: Final = LanguageCode.PYTHON
"""Stock clients only display the language, so the true one does no harm."""
OUR_VERSION: Final = CURRENT_VERSION


class Encoding(IntEnum):
    """The encoding of a header: the byte that precedes its length."""

    JSON = 0
    COMPACT = 1


F = TypeVar("F")

HeaderEncoder = Callable[[Any, int, int, int, str | None, int], bytes]
"""(fields, code, flag, opaque, remark, body size) -> prefix and header, for one type of fields in one encoding."""


class Heading(msgspec.Struct, Generic[F], gc=False):
    """One decoded header. Its members are those of the JSON header, which msgspec decodes into it directly."""

    code: Int32
    flag: Int32 = 0
    opaque: Int32 = 0
    version: Int32 = 0
    language: str = LanguageCode.JAVA.name
    remark: str | None = None
    request: F | None = msgspec.field(name="extFields", default=None)

    @property
    def is_answer(self) -> bool:
        """Whether this command answers a request of ours."""
        return bool(self.flag & ANSWER_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether the peer wants no answer."""
        return bool(self.flag & ONEWAY_FLAG)


class LenientHeading(Heading[F], Generic[F], gc=False):
    """A heading that the lenient decoder has read, with all fields as text: they are not parsed again."""

    texts: dict[str, str] = msgspec.field(default_factory=dict)


class BadFields(BadHeader):
    """A header whose heading can be read and whose fields are not those of its code.

    ``heading`` holds the values that could be read (its ``request`` is None), so that the peer can be answered.
    """

    def __init__(self, heading: "Heading[object]", reason: str) -> None:
        self.heading = heading
        super().__init__(reason)


def too_many_fields(heading: "Heading[Any]") -> BadFields:
    """Return the error for a header with more than `FIELDS_MAX` fields, whose request is dropped."""
    heading.request = None
    return BadFields(heading, f"the header has more than {FIELDS_MAX} fields")
