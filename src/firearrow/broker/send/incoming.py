"""The checks of an incoming message, in Apache's order, and the topic, queue and properties that it is stored with.

Pure. The order of checks is that of ``AbstractSendMessageProcessor.msgCheck``, ``SendMessageProcessor.sendMessage`` and
the hooks of ``HookUtils``, because the first check that fails decides the answer.
How a half message of a transaction is stored says ``transaction.half``; where a message with a time of its own waits
says ``timer.admission``.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from firearrow.errors import FireArrowError, IllegalMessage
from firearrow.model import keys, names
from firearrow.model.flags import COMMIT, INNER_BATCH, TRANSACTION_MASK
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.runtime.disk.door import Usage

MAX_SENT_PROPERTIES: Final = 32_767
MAX_BATCH_TOPIC: Final = 127
SEE: Final = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
_legal = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch
_SPECIAL_FLAGS: Final = TRANSACTION_MASK | INNER_BATCH
TIMERS: Final = (keys.TIMER_DELIVER_MS, keys.TIMER_DELAY_MS, keys.TIMER_DELAY_SEC)


class Destination(Struct, frozen=True):
    """The topic, queue and properties that a message is stored with."""

    topic: str
    queue_id: int
    properties: Mapping[str, str]


def check_time(opens_ms: int, now_ms: int) -> None:
    """Refuse a message before ``opens_ms``, the time from which the broker takes messages; 0 means at any time."""
    if opens_ms and now_ms < opens_ms:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {opens_ms}")


def check_name(topic: str) -> None:
    """Refuse a topic to which clients may not send."""
    check_topic_name(topic)
    if topic in names.UNSENDABLE_TOPICS or topic == names.TIMER_TOPIC:  # Apache takes any topic's name there
        raise Refused(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")


def check_topic_name(topic: str) -> None:
    """Refuse a text that is not a legal topic name."""
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
    """Return the refusal for a topic that does not exist and may not be created."""
    return Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{SEE}")


def missing_group(group: str, why: str) -> Refused:
    """Return the refusal for a retry of a group that does not exist and may not be created."""
    return Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}: {why} {SEE}")


def illegal_message(max_body: int) -> Refused:
    """Return the refusal for an illegal message, such as one that is too large."""
    return Refused(
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {max_body}B, msg properties length limit 32KB.",
    )


def store_unavailable(disk: str, error: Exception) -> Refused:
    """Return the refusal for the time in which the store takes no messages."""
    return Refused(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: the broker's disk is "
        f"full [{disk}], messages are put to the slave, message store has been shut down, etc. ({error})",
    )


def usage_text(usage: Usage) -> str:
    """Return the usage of the disk as Apache writes it."""
    used = 100 * (usage.total - usage.free) / usage.total if usage.total else 0.0
    return f"CL: {used:5.2f} CQ: {used:5.2f} INDEX: {used:5.2f}"


def not_stored(error: FireArrowError, max_body: int, disk_text: Callable[[], str]) -> Refused:
    """Return the refusal for a message that the store did not take."""
    return illegal_message(max_body) if isinstance(error, IllegalMessage) else store_unavailable(disk_text(), error)


def transactions_rejected(broker: str) -> Refused:
    """Return the refusal of a half message by a broker that takes none (``rejectTransactionMessage``)."""
    return Refused(ResponseCode.NO_PERMISSION, f"the broker[{broker}] sending transaction message is forbidden")


def refuse_inner_batch(properties: Mapping[str, str], sys_flag: int, max_body: int) -> None:
    """Refuse a batch that is to be stored as one record: no topic of this broker has batch queues."""
    if keys.INNER_NUM in properties or sys_flag & INNER_BATCH:
        raise illegal_message(max_body)


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the delay level that a message asks for; 0 means no delay."""
    text = properties.get(keys.DELAY, "0")
    try:
        return int(text)
    except ValueError:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, f'java.lang.NumberFormatException: For input string: "{text}"'
        ) from None


def destination_of(
    topic: str, queue_id: int, properties: Mapping[str, str], sys_flag: int, max_level: int
) -> Destination:
    """Return the queue of its delay level, or its own queue without one."""
    if sys_flag & TRANSACTION_MASK not in (0, COMMIT):
        return Destination(topic, queue_id, properties)
    level = delay_level(properties)
    if level <= 0:
        return Destination(topic, queue_id, properties)
    stored = {key: value for key, value in properties.items() if key not in TIMERS}
    level = min(level, max_level)
    stored[keys.DELAY] = str(level)
    stored[keys.REAL_TOPIC] = topic
    stored[keys.REAL_QID] = str(queue_id)
    return Destination(names.SCHEDULE_TOPIC, level - 1, stored)


def is_plain(sys_flag: int, properties: str, *, syncs: bool) -> bool:
    """Whether a message, and every message that differs only in keys and tags, needs no check of the careful way."""
    return not (
        sys_flag & _SPECIAL_FLAGS
        or "DEL" in properties  # DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_DEL_UNIQKEY
        or "TRA" in properties  # TRAN_MSG, TRACE_ON
        or "POP_CK" in properties
        or "INNER_N" in properties
        or "CLUSTER\x01" in properties
        or keys.ROW_ID in properties
        or "#" in properties
        or (syncs and "WAIT\x01true" not in properties)
    )


def waits_for_store(properties: Mapping[str, str]) -> bool:
    """Whether the sender wants its answer after the sync, at a broker that syncs (property WAIT)."""
    wait = properties.get(keys.WAIT)
    return wait is None or wait.lower() == "true"
