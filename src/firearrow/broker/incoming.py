"""What becomes of a message on its way in: the checks of Apache, in Apache's order, and what it is stored as.

Pure. The order of checks is that of ``AbstractSendMessageProcessor.msgCheck``, ``SendMessageProcessor.sendMessage`` and
the hooks of ``HookUtils``, because the first one that fails decides the answer.
What is not offered yet is refused as Apache refuses it when it is switched off: transactions as with
``rejectTransactionMessage``, timed messages as without ``timerWheelEnable``.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from firearrow.errors import FireArrowError, IllegalMessage
from firearrow.model import keys, names
from firearrow.model.flags import COMMIT, INNER_BATCH, PREPARED, TRANSACTION_MASK
from firearrow.protocol.bodies.group import SubscriptionGroupConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.send import Send, ShortSend

MAX_SENT_PROPERTIES: Final = 32_767
MAX_BATCH_TOPIC: Final = 127
SEE: Final = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
_legal = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch
_ODD_FLAGS: Final = TRANSACTION_MASK | INNER_BATCH
TIMERS: Final = (keys.TIMER_DELIVER_MS, keys.TIMER_DELAY_MS, keys.TIMER_DELAY_SEC)


class Parked(Struct, frozen=True):
    """Where a message goes, and the properties it is stored with."""

    topic: str
    queue_id: int
    properties: Mapping[str, str]


class KnownGroups(Protocol):
    """Where groups are looked up."""

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """A group, made if it may be."""
        ...


def check_time(opens_ms: int, now_ms: int) -> None:
    """Refuse everything before the time from which messages are taken; 0 is no such time."""
    if opens_ms and now_ms < opens_ms:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {opens_ms}")


def check_name(topic: str) -> None:
    """Refuse a topic that no message may be sent to."""
    check_topic_name(topic)
    if topic in names.UNSENDABLE_TOPICS:
        raise Refused(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")


def check_topic_name(topic: str) -> None:
    """Refuse what is no name of a topic."""
    if not topic.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    fault = names.topic_fault(topic)
    if fault is not None:
        raise Refused(ResponseCode.INVALID_PARAMETER, _name_remark(topic))


def _name_remark(topic: str) -> str:
    derived = topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX))
    limit = names.MAX_DERIVED_TOPIC_LENGTH if derived else names.MAX_TOPIC_LENGTH
    if _legal(topic) is None:
        return f"The specified topic: {topic}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if derived:
        return f"The specified topic is DLQ or Retry topic: {topic}, and it's longer than topic max length: {limit}"
    return f"The specified topic: {topic}, is longer than topic max length: {limit}"


def missing_topic(topic: str) -> Refused:
    """The refusal of a topic that is not there and may not be made."""
    return Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{SEE}")


def missing_group(group: str) -> Refused:
    """The refusal of a retry for a group that is not there and may not be made."""
    return Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group} {SEE}")


def illegal_message(max_body: int) -> Refused:
    """The refusal of a message that is too large."""
    return Refused(
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {max_body}B, msg properties length limit 32KB.",
    )


def store_unavailable(disk: str, error: Exception) -> Refused:
    """The store does not take messages now."""
    return Refused(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: the broker's disk is "
        f"full [{disk}], messages are put to the slave, message store has been shut down, etc. ({error})",
    )


def not_stored(error: FireArrowError, max_body: int, disk_text: Callable[[], str]) -> Refused:
    """The refusal of a message that the store did not take."""
    return illegal_message(max_body) if isinstance(error, IllegalMessage) else store_unavailable(disk_text(), error)


def refuse_transaction(properties: Mapping[str, str], sys_flag: int, reconsume_times: int, broker: str) -> None:
    """Refuse a prepared message: nobody would ever ask what became of its transaction."""
    wanted = properties.get(keys.TRAN_MSG, "").lower() == "true"
    is_retry = reconsume_times > 0 and delay_level(properties) > 0  # clients before 4.6.1 leave the mark on retries
    if (wanted and not is_retry) or sys_flag & TRANSACTION_MASK & PREPARED:
        raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{broker}] sending transaction message is forbidden")


def refuse_inner_batch(properties: Mapping[str, str], sys_flag: int, max_body: int) -> None:
    """Refuse a whole batch in one record: no topic here has queues for it."""
    if keys.INNER_NUM in properties or sys_flag & INNER_BATCH:
        raise illegal_message(max_body)


def delay_level(properties: Mapping[str, str]) -> int:
    """The delay level that a message asks for; 0 is none."""
    text = properties.get(keys.DELAY, "0")
    try:
        return int(text)
    except ValueError:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, f'java.lang.NumberFormatException: For input string: "{text}"'
        ) from None


def park(topic: str, queue_id: int, properties: Mapping[str, str], sys_flag: int, max_level: int) -> Parked:
    """Where a message waits for its delivery, or goes at once; raise ``Refused`` for one that asks for a time."""
    if sys_flag & TRANSACTION_MASK not in (0, COMMIT):
        return Parked(topic, queue_id, properties)
    level = delay_level(properties)
    if level <= 0:
        refuse_timer(properties)
        return Parked(topic, queue_id, properties)
    stored = {key: value for key, value in properties.items() if key not in TIMERS}
    level = min(level, max_level)
    stored[keys.DELAY] = str(level)
    stored[keys.REAL_TOPIC] = topic
    stored[keys.REAL_QID] = str(queue_id)
    return Parked(names.SCHEDULE_TOPIC, level - 1, stored)


def refuse_timer(properties: Mapping[str, str]) -> None:
    """Refuse a message that asks for a time of delivery."""
    if keys.TIMER_OUT_MS not in properties and any(key in properties for key in TIMERS):
        raise Refused(ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false")


def is_odd(properties: str) -> bool:
    """Whether properties may ask for more than storing, so that a closer look at them is needed."""
    return (
        "DEL" in properties  # DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_DEL_UNIQKEY
        or "TRA" in properties  # TRAN_MSG, TRACE_ON
        or "POP_CK" in properties
        or "INNER_N" in properties
        or "CLUSTER\x01" in properties
    )


def is_plain(request: Send | ShortSend, *, syncs: bool) -> bool:
    """Whether a message, and every one that differs from it in keys and tags alone, asks for nothing but storing."""
    properties = request.properties or ""
    return not (
        request.batch
        or request.sys_flag & _ODD_FLAGS
        or is_odd(properties)
        or not properties.endswith("\x02")
        or "#" in properties
        or (syncs and "WAIT\x01true" not in properties)
    )


def waits_for_store(properties: Mapping[str, str]) -> bool:
    """Whether the sender wants its answer after the sync, where the broker syncs."""
    wait = properties.get(keys.WAIT)
    return wait is None or wait.lower() == "true"
