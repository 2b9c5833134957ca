"""The request types of all families, by code, and the codes without a type."""

from typing import Any, Final

from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin import auth, config, maintenance, stats, topic
from firearrow.protocol.requests.group import group, heartbeat, lock, offset, push, reset
from firearrow.protocol.requests.message import pull, query, send
from firearrow.protocol.requests.naming import kv_config as kvconfig
from firearrow.protocol.requests.naming import registration, route
from firearrow.protocol.requests.pop import ack, lite, pop
from firearrow.protocol.requests.replication import controller, replication
from firearrow.protocol.requests.transaction import transaction

_FAMILIES: Final = (
    send,
    pull,
    pop,
    ack,
    offset,
    reset,
    heartbeat,
    transaction,
    lock,
    query,
    push,
    route,
    registration,
    kvconfig,
    config,
    topic,
    group,
    stats,
    maintenance,
    replication,
    controller,
    auth,
    lite,
)


def _conversations(family: object) -> list[type[Request[Any]]]:
    """The request types of a module: classes with a code. Classes without one hold fields that several types share."""
    return [
        kind
        for kind in vars(family).values()
        if isinstance(kind, type) and issubclass(kind, Request) and hasattr(kind, "code")
    ]


ALL: Final[tuple[type[Request[Any]], ...]] = tuple(
    sorted((kind for family in _FAMILIES for kind in _conversations(family)), key=lambda kind: kind.code)
)

BY_CODE: Final[dict[int, type[Request[Any]]]] = {int(kind.code): kind for kind in ALL}

_NEVER_SERVED: Final = "Apache reserves the code and neither sends nor serves it"
_FILTER_SERVER: Final = "filter servers were removed from Apache RocketMQ; 4.9 refuses the code too"
_RAFT: Final = "passed between controllers inside their Raft log, never over a connection of this protocol"

UNSUPPORTED: Final[dict[RequestCode, str]] = {
    RequestCode.QUERY_BROKER_OFFSET: _NEVER_SERVED,
    RequestCode.GET_TOPIC_CONFIG_LIST: _NEVER_SERVED,
    RequestCode.GET_TOPIC_NAME_LIST: _NEVER_SERVED,
    RequestCode.TRIGGER_DELETE_FILES: _NEVER_SERVED,
    RequestCode.GET_CLIENT_CONFIG: _NEVER_SERVED,
    RequestCode.SUSPEND_CONSUMER: _NEVER_SERVED,
    RequestCode.RESUME_CONSUMER: _NEVER_SERVED,
    RequestCode.RESET_CONSUMER_OFFSET_IN_CONSUMER: _NEVER_SERVED,
    RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER: _NEVER_SERVED,
    RequestCode.ADJUST_CONSUMER_THREAD_POOL: _NEVER_SERVED,
    RequestCode.WHO_CONSUME_THE_MESSAGE: _NEVER_SERVED,
    RequestCode.ACK_LITE_MESSAGE: _NEVER_SERVED,
    RequestCode.REGISTER_FILTER_SERVER: _FILTER_SERVER,
    RequestCode.REGISTER_MESSAGE_FILTER_CLASS: _FILTER_SERVER,
    RequestCode.BROKER_CLOSE_CHANNEL_REQUEST: _RAFT,
    RequestCode.CHECK_NOT_ACTIVE_BROKER_REQUEST: _RAFT,
    RequestCode.GET_BROKER_LIVE_INFO_REQUEST: _RAFT,
    RequestCode.GET_SYNC_STATE_DATA_REQUEST: _RAFT,
    RequestCode.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST: _RAFT,
}
"""Codes without a conversation, and why. A server refuses them with REQUEST_CODE_NOT_SUPPORTED."""
