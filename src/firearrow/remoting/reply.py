"""The outcome of a request: a typed reply, or an error that says what is known.

``Reply`` is the answer with its body. An *outcome* is a reply or the error in its place; callbacks get outcomes,
awaiting callers get the reply or the exception.
"""

from collections.abc import Callable
from typing import Final, Generic

import msgspec

from firearrow.errors import FireArrowError
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import A

CALL_TIMEOUT_MS: Final = 3000
"""The default time to wait for an answer, the same as Apache's."""

SUCCESS_ONLY: Final = frozenset({int(ResponseCode.SUCCESS)})
"""The response codes that make a reply by default; every other code raises ``RequestRefused``."""


class Reply(msgspec.Struct, Generic[A], frozen=True, gc=False):
    """A request's answer: its fields, its body, its code, and the version of the server that gave it."""

    answer: A
    body: bytes
    code: int = 0
    remark: str | None = None
    version: int = 0


Outcome = Reply[A] | FireArrowError
OnOutcome = Callable[[Reply[A] | FireArrowError], None]
