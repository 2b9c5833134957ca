"""Refusals: the one way in which a handler refuses a request.

A handler raises ``Refused(ResponseCode.TOPIC_NOT_EXIST, "...")``; the peer is answered with that code and that remark,
and nothing else about the exception leaves the process. ``unsupported`` refuses a code without a handler in exactly
Apache's words, because operators search for them. ``request_body`` refuses a request whose body cannot be read.
``refusal_of`` returns the error for a refusal that a peer sent.
"""

from typing import Final, TypeVar

from firearrow import fastjson
from firearrow.errors import AccessDenied, BadBody, FireArrowError, RequestRefused, Throttled
from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.conversation import Fields

T = TypeVar("T")

MOST_BODY_BYTES: Final = 1 << 20
"""The longest JSON body of a request: a turn of the loop reads it in 7 ms."""
MOST_DIALECT_BYTES: Final = 32 << 10
"""The longest body in fastjson's own form: a turn of the loop reads it in 15 ms."""

_OF_4_9: Final = "org.apache.rocketmq.acl.common.AclException"
_OF_A_TOPIC_OR_BROKER: Final = ("forbidden", "can not consume by broadcast")

_FILTER_CLASSES: Final = (
    ": filter classes and filter servers are gone; subscribe with an expression of type SQL92 (properties), or of type "
    "CEL (properties and JSON body) at brokers that have it"
)
_REPLACED: Final = {
    int(RequestCode.REGISTER_FILTER_SERVER): _FILTER_CLASSES,
    int(RequestCode.REGISTER_MESSAGE_FILTER_CLASS): _FILTER_CLASSES,
}


class RetryAfter(Fields, frozen=True, kw_only=True, gc=False):
    """The field of a flow-control answer that says how long to wait. Stock clients ignore it."""

    retry_after_ms: int


class Refused(FireArrowError):
    """A request is refused with a response code, a reason for people to read, and perhaps fields for programs."""

    def __init__(self, code: int, remark: str, fields: Fields | None = None) -> None:
        self.code = code
        self.remark = remark
        self.fields = fields
        super().__init__(f"refused with code {code}: {remark}")


def unsupported(code: int) -> Refused:
    """Return the refusal of a request code without a handler, in Apache's words (leading blank included).

    A feature that has a replacement names it behind these words.
    """
    remark = f" request type {code} not supported{_REPLACED.get(code, '')}"
    return Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


def request_body(data: bytes, kind: type[T]) -> T:
    """Return the JSON body of a client's request; raise ``Refused`` when it is too long or cannot be read."""
    if len(data) > MOST_BODY_BYTES:
        remark = f"the body has {len(data)} bytes and {MOST_BODY_BYTES} are read at most: ask for less in one request"
        raise Refused(ResponseCode.INVALID_PARAMETER, remark)
    try:
        return fastjson.decode(data, kind, most_in_dialect=MOST_DIALECT_BYTES)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error


def server_body(data: bytes, kind: type[T]) -> T:
    """Return the JSON body of a server's request, such as a broker's topics, of any length; raise ``Refused``."""
    try:
        return fastjson.decode(data, kind)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error


def refusal_of(
    code: int, remark: str, *, asked: str, address: str, retry_after_ms: int | None = None
) -> RequestRefused:
    """The error for an answer with an error code. 4.9 brokers mark refused accounts only by a Java class name."""
    if retry_after_ms is not None:
        return Throttled(code, remark, retry_after_ms, asked=asked, address=address)
    denied = code == ResponseCode.SYSTEM_ERROR and _OF_4_9 in remark
    if code == ResponseCode.NO_PERMISSION:
        denied = not any(words in remark for words in _OF_A_TOPIC_OR_BROKER)
    kind = AccessDenied if denied else RequestRefused
    return kind(code, remark, asked=asked, address=address)
