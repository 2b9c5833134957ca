"""Saying no: the one way in which code that serves requests declines one.

A handler raises ``Refused(ResponseCode.TOPIC_NOT_EXIST, "...")``; the connection that asked is answered with that
code and that remark, and nothing else about the exception leaves the process. ``unsupported`` words the refusal of a
code that nobody serves exactly as Apache does, because operators search for that text.
"""

from firearrow.errors import FireArrowError
from firearrow.protocol.codes import ResponseCode


class Refused(FireArrowError):
    """A request is declined with a response code and a reason for people to read."""

    def __init__(self, code: int, remark: str) -> None:
        self.code = code
        self.remark = remark
        super().__init__(f"refused with code {code}: {remark}")


def unsupported(code: int) -> Refused:
    """Return the refusal of a request code that nobody here serves, in Apache's words (leading blank included)."""
    return Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")
