"""Pulling messages. Java: ``header.PullMessageRequestHeader``. ``proxyFrowardClientId`` is Java's spelling.

Two fields are ours, and other brokers ignore them. ``firearrowLarge``: our brokers answer with up to ``maxMsgBytes``,
far above Apache's limits. ``firearrowHidden``: our brokers also read queues that a topic has lost by shrinking.
"""

from typing import ClassVar

import msgspec

from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import Fields, Int32, Request


class PullAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The offset and broker of the next pull; the first four fields are required with codes 0, 19, 20 and 21."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class Pull(Request[PullAnswer], frozen=True, kw_only=True, gc=False):
    """The fields of a pull."""

    consumer_group: str
    topic: str
    lite_topic: str | None = None
    queue_id: Int32
    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int
    suspend_timeout_millis: int
    subscription: str | None = None
    sub_version: int
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_forward_client_id: str | None = msgspec.field(name="proxyFrowardClientId", default=None)
    large: bool | None = msgspec.field(name="firearrowLarge", default=None)
    hidden: bool | None = msgspec.field(name="firearrowHidden", default=None)


class PullMessage(Pull, frozen=True, kw_only=True, gc=False):
    """Get messages of a queue, or wait for some. The answer's body is stored records end to end."""

    code: ClassVar[RequestCode] = RequestCode.PULL_MESSAGE
    answer_body = bytes


class LitePullMessage(Pull, frozen=True, kw_only=True, gc=False):
    """A pull by a client that assigns its own queues (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.LITE_PULL_MESSAGE
    answer_body = bytes
