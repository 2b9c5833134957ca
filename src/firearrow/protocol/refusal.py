"""Saying no: the one way in which code that serves requests declines one.

A handler raises ``Refused(ResponseCode.TOPIC_NOT_EXIST, "...")``; the connection that asked is answered with that
code and that remark, and nothing else about the exception leaves the process. ``unsupported`` words the refusal of a
code that nobody serves exactly as Apache does, because operators search for that text. ``refusal_of`` is the other
side: the error that stands for a refusal which a peer sent.
"""

from typing import Final

from firearrow.errors import AccessDenied, FireArrowError, RequestRefused
from firearrow.protocol.codes import ResponseCode

_OF_4_9: Final = "org.apache.rocketmq.acl.common.AclException"
_OF_A_TOPIC_OR_BROKER: Final = ("forbidden", "can not consume by broadcast")


class Refused(FireArrowError):
    """A request is declined with a response code and a reason for people to read."""

    def __init__(self, code: int, remark: str) -> None:
        self.code = code
        self.remark = remark
        super().__init__(f"refused with code {code}: {remark}")


def unsupported(code: int) -> Refused:
    """Return the refusal of a request code that nobody here serves, in Apache's words (leading blank included)."""
    return Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")


def refusal_of(code: int, remark: str, *, asked: str, address: str) -> RequestRefused:
    """The error for an answer with an error code. Brokers of 4.9 tell of accounts by the name of a Java class alone."""
    denied = code == ResponseCode.SYSTEM_ERROR and _OF_4_9 in remark
    if code == ResponseCode.NO_PERMISSION:
        denied = not any(words in remark for words in _OF_A_TOPIC_OR_BROKER)
    kind = AccessDenied if denied else RequestRefused
    return kind(code, remark, asked=asked, address=address)
