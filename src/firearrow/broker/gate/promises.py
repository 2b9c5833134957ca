"""The meaning of each request's success, and the brokers that take it: one table of every code that a broker serves.

A broker does not start with a handler whose code has no row here, and a slave refuses every request that the table
gives to the master. So a new request without a row is refused, and never answered too early.

`Success` is the promise to the sender after the code 0; `SuccessStep` says where the change stands then.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, NoReturn

from msgspec import Struct

from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import Call, Handler, Handlers


class Success(Enum):
    """The promise to a sender after a success."""

    NOTHING = "nothing is promised: the answer to a question, or an act in memory alone"
    ADMITTED = "admitted: the master took it; nothing was awaited"
    KEPT = "kept: it outlives what the broker's mode promises"


class RequestTarget(Enum):
    """The brokers that take a request."""

    MASTER = "the master; a slave refuses"
    SLAVE_TOO = "the master, or a slave for itself"
    STATIC_SLAVE_TOO = "the master, or a slave for itself; a slave of an elected group refuses"
    ANY = "any broker"


class SuccessStep(Enum):
    """The step that a success waits for."""

    NOWHERE = "nothing"
    LOG = "the record: written, or synced under `SYNC_FLUSH`, and on the replicas that the mode waits for"
    TABLE = "the file of the table on the master's disk and, in an elected group, on that of every replica in sync"
    ACCOUNTS = (
        "the file of users and rules on this broker's disk and, at the master of an elected group, on that of every "
        "replica in sync that copies users"
    )
    OWN = "the file on this broker's own disk"


class Promise(Struct, frozen=True):
    """The meaning of one request's success."""

    success: Success = Success.NOTHING
    asked_of: RequestTarget = RequestTarget.ANY
    placed: SuccessStep = SuccessStep.NOWHERE
    at_slave: ResponseCode = ResponseCode.SYSTEM_ERROR
    """The code with which a slave refuses; Apache's where Apache's slave refuses too."""
    unknown: str = ""
    """The remark, with SYSTEM_ERROR, when it is not known whether the change stays. Empty for sends, which get the
    codes 10, 11 and 12 instead, and for changes that count for one broker alone: there it is known."""


HARMLESS: Final = "a repeat does no harm"


def _kept(what: str, placed: SuccessStep, at_slave: ResponseCode, repeat: str) -> Promise:
    unknown = f"{what} is stored at this broker, and it is not known whether it outlives the loss of this broker; "
    return Promise(Success.KEPT, RequestTarget.MASTER, placed, at_slave, f"{unknown}ask again: {repeat}")


def _record(what: str, at_slave: ResponseCode = ResponseCode.SYSTEM_BUSY, repeat: str = HARMLESS) -> Promise:
    return _kept(what, SuccessStep.LOG, at_slave, repeat)


def _table(what: str) -> Promise:
    return _kept(what, SuccessStep.TABLE, ResponseCode.SYSTEM_ERROR, HARMLESS)


_SEND: Final = Promise(Success.KEPT, RequestTarget.MASTER, SuccessStep.LOG, ResponseCode.SYSTEM_BUSY)
_QUESTION: Final = Promise()
_ACT: Final = Promise(Success.NOTHING, RequestTarget.SLAVE_TOO)
_ACCOUNTS: Final = Promise(
    Success.KEPT,
    RequestTarget.SLAVE_TOO,
    SuccessStep.ACCOUNTS,
    unknown="the change of users or rules is in force at this broker, and it is not known whether it outlives the loss "
    "of this broker; look at them in a moment, at the master, before you ask again",
)
_OWN: Final = Promise(Success.KEPT, RequestTarget.SLAVE_TOO, SuccessStep.OWN)
_LOCK: Final = Promise(Success.NOTHING, RequestTarget.MASTER)

PROMISES: Final[dict[RequestCode, Promise]] = {
    # messages
    RequestCode.SEND_MESSAGE: _SEND,
    RequestCode.SEND_MESSAGE_V2: _SEND,
    RequestCode.SEND_BATCH_MESSAGE: _SEND,
    RequestCode.CONSUMER_SEND_MSG_BACK: _record("the send-back", repeat="the message may then be delivered twice"),
    RequestCode.RECALL_MESSAGE: _record("the recall"),
    RequestCode.END_TRANSACTION: _record("the end of the transaction", ResponseCode.SLAVE_NOT_AVAILABLE),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _record("the new question", ResponseCode.SLAVE_NOT_AVAILABLE),
    RequestCode.PULL_MESSAGE: _QUESTION,
    RequestCode.LITE_PULL_MESSAGE: _QUESTION,
    RequestCode.POP_MESSAGE: _QUESTION,
    RequestCode.QUERY_MESSAGE: _QUESTION,
    RequestCode.VIEW_MESSAGE_BY_ID: _QUESTION,
    RequestCode.QUERY_CONSUME_QUEUE: _QUESTION,
    # offsets
    RequestCode.UPDATE_CONSUMER_OFFSET: Promise(Success.ADMITTED, RequestTarget.STATIC_SLAVE_TOO),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _table("the reset"),
    RequestCode.CLONE_GROUP_OFFSET: _table("the copy of the offsets"),
    RequestCode.QUERY_CONSUMER_OFFSET: _QUESTION,
    RequestCode.GET_ALL_CONSUMER_OFFSET: _QUESTION,
    RequestCode.GET_MAX_OFFSET: _QUESTION,
    RequestCode.GET_MIN_OFFSET: _QUESTION,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _QUESTION,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _QUESTION,
    RequestCode.QUERY_CORRECTION_OFFSET: _QUESTION,
    # topics
    RequestCode.UPDATE_AND_CREATE_TOPIC: _table("the change of the topic"),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _table("the change of the topics"),
    RequestCode.DELETE_TOPIC_IN_BROKER: _table("the deletion of the topic"),
    RequestCode.CLEAN_UNUSED_TOPIC: _table("the deletion of the queues"),
    RequestCode.GET_ALL_TOPIC_CONFIG: _QUESTION,
    RequestCode.GET_TOPIC_CONFIG: _QUESTION,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _QUESTION,
    RequestCode.GET_TOPIC_STATS_INFO: _QUESTION,
    # groups and their members
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _table("the change of the group"),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _table("the change of the groups"),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _table("the deletion of the group"),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: _table("the change of what the group may read"),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _QUESTION,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _QUESTION,
    RequestCode.HEART_BEAT: _ACT,
    RequestCode.UNREGISTER_CLIENT: _ACT,
    RequestCode.CHECK_CLIENT_CONFIG: _QUESTION,
    RequestCode.LOCK_BATCH_MQ: _LOCK,
    RequestCode.UNLOCK_BATCH_MQ: _LOCK,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _QUESTION,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _QUESTION,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _QUESTION,
    RequestCode.GET_ALL_PRODUCER_INFO: _QUESTION,
    RequestCode.GET_CONSUMER_RUNNING_INFO: _QUESTION,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _ACT,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _QUESTION,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _QUESTION,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: _QUESTION,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: _QUESTION,
    RequestCode.GET_CONSUME_STATS: _QUESTION,
    RequestCode.GET_BROKER_CONSUME_STATS: _QUESTION,
    RequestCode.QUERY_CONSUME_TIME_SPAN: _QUESTION,
    # the broker itself
    RequestCode.UPDATE_BROKER_CONFIG: _OWN,
    RequestCode.GET_BROKER_CONFIG: _QUESTION,
    RequestCode.GET_BROKER_RUNTIME_INFO: _QUESTION,
    RequestCode.VIEW_BROKER_STATS_DATA: _QUESTION,
    RequestCode.DELETE_EXPIRED_COMMITLOG: _ACT,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: _ACT,
    RequestCode.GET_TIMER_CHECK_POINT: _QUESTION,
    RequestCode.GET_TIMER_METRICS: _QUESTION,
    RequestCode.GET_ALL_DELAY_OFFSET: _QUESTION,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: _QUESTION,
    RequestCode.GET_BROKER_HA_STATUS: _QUESTION,
    RequestCode.GET_BROKER_EPOCH_CACHE: _QUESTION,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: _ACT,
    # users and rules: Apache's tools make every change at masters and slaves; a slave's are replaced by the next copy
    RequestCode.AUTH_CREATE_USER: _ACCOUNTS,
    RequestCode.AUTH_UPDATE_USER: _ACCOUNTS,
    RequestCode.AUTH_DELETE_USER: _ACCOUNTS,
    RequestCode.AUTH_GET_USER: _QUESTION,
    RequestCode.AUTH_LIST_USER: _QUESTION,
    RequestCode.AUTH_CREATE_ACL: _ACCOUNTS,
    RequestCode.AUTH_UPDATE_ACL: _ACCOUNTS,
    RequestCode.AUTH_DELETE_ACL: _ACCOUNTS,
    RequestCode.AUTH_GET_ACL: _QUESTION,
    RequestCode.AUTH_LIST_ACL: _QUESTION,
    RequestCode.COPY_ACCOUNTS: _QUESTION,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: _OWN,
    RequestCode.DELETE_ACL_CONFIG: _OWN,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _OWN,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: _QUESTION,
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: _QUESTION,
}
OF_SLAVES: Final = frozenset({RequestTarget.SLAVE_TOO, RequestTarget.STATIC_SLAVE_TOO, RequestTarget.ANY})
OF_ELECTED_SLAVES: Final = OF_SLAVES - {RequestTarget.STATIC_SLAVE_TOO}


OF_REPLICAS: Final = frozenset(
    {
        RequestCode.GET_BROKER_EPOCH_CACHE,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_TIMER_CHECK_POINT,
        RequestCode.COPY_ACCOUNTS,
    }
)
"""The requests of replicas that a master answers also while it serves no clients yet."""


def check_promises(codes: Iterable[int]) -> None:
    """Raise ``ValueError`` if a handler serves a code whose success has no meaning here."""
    unknown = sorted(RequestCode(code).name for code in codes if code not in PROMISES)
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: PROMISES does not say what a success means, nor which broker is asked")


def of_slave(handlers: Handlers, *, is_elected: bool) -> Handlers:
    """Return the handlers of a slave: what is not asked of it is refused, as is every code without a promise.

    ``is_elected`` says that its group elects masters. Nobody commits offsets at a slave there: the next master has
    those of the last one.
    """
    asked_of = OF_ELECTED_SLAVES if is_elected else OF_SLAVES
    served = {code for code, promise in PROMISES.items() if promise.asked_of in asked_of}
    refused = handlers.by_code.keys() - served
    left = handlers.without(refused)
    left.by_code.update({code: _refusing(RequestCode(code)) for code in refused})
    return left


def to_replicas(handlers: Handlers) -> Handlers:
    """Return the handlers of a master that gathers its replicas: they copy its tables, and the rest is refused."""
    refused = handlers.by_code.keys() - OF_REPLICAS
    left = handlers.without(refused)
    left.by_code.update(dict.fromkeys(refused, _refuse_for_now))
    return left


def _refuse_for_now(_request: object, _call: Call) -> NoReturn:
    remark = "this broker has just been elected and waits until its replicas have its log: ask again in a moment"
    raise Refused(ResponseCode.SYSTEM_BUSY, f"[REJECTREQUEST]system busy, start flow control for a while: {remark}")


def _refusing(code: RequestCode) -> Handler:
    promise = PROMISES.get(code, Promise())
    asked = f"{code.name} is asked of its master"
    remark = f"this broker is a slave: {asked}"
    if promise.at_slave is ResponseCode.SYSTEM_BUSY:
        remark = f"[REJECTREQUEST]system busy, start flow control for a while: {remark}"

    def refuse(_request: object, _call: Call) -> NoReturn:
        raise Refused(promise.at_slave, remark)

    return refuse
