"""Named texts that a name server keeps, by namespace. Java: ``header.namesrv.*KVConfig*``."""

from typing import ClassVar

from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Request


class PutKvConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Set a text."""

    code: ClassVar[RequestCode] = RequestCode.PUT_KV_CONFIG
    namespace: str
    key: str
    value: str


class GetKvConfigAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The text."""

    value: str | None = None


class GetKvConfig(Request[GetKvConfigAnswer], frozen=True, kw_only=True, gc=False):
    """Read a text."""

    code: ClassVar[RequestCode] = RequestCode.GET_KV_CONFIG
    namespace: str
    key: str


class DeleteKvConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Forget a text."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_KV_CONFIG
    namespace: str
    key: str


class GetKvListByNamespace(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Read all texts of a namespace."""

    code: ClassVar[RequestCode] = RequestCode.GET_KVLIST_BY_NAMESPACE
    answer_body = KVTable
    namespace: str
