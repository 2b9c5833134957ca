"""Half messages: how a transactional send is stored, and the records that follow from a half message. Pure.

A half message keeps the body and the properties of its message. It lies in queue 0 of ``RMQ_SYS_TRANS_HALF_TOPIC``,
which no consumer reads, without transaction bits in its sysFlag; properties REAL_TOPIC and REAL_QID say where it
belongs. Java: ``TransactionalMessageBridge``, ``EndTransactionProcessor``.

Every record that is made of a half message keeps its flag and its retries; Apache loses the flag when it asks about a
transaction. A half message is never delayed: a delay counts from the commit.
"""

from collections.abc import Mapping
from typing import Final

from firearrow.broker.send.incoming import Destination, delay_level, destination_of, is_plain
from firearrow.broker.timer.admission import parked
from firearrow.broker.transaction.half_record import NOT_FINAL, OURS, HalfRecord
from firearrow.broker.transaction.ledger import Half
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset, keys
from firearrow.model.flags import COMMIT, PREPARED, TRANSACTION_MASK
from firearrow.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from firearrow.model.numbers import INT_MAX, LONG_MAX, whole_number
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState
from firearrow.record.decode import RecordHead
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes
from firearrow.record.layout import MAX_PROPERTIES_BYTES
from firearrow.record.message_id import offset_message_id
from firearrow.record.op_message import OP_TAG
from firearrow.record.properties import decode_properties, encode_properties, format_properties
from firearrow.store.placement import AppendPosition
from firearrow.store.timer.config import TimerConfig

HALF_QUEUE: Final = 0
"""The queue of all half messages, and of all op messages."""
PROPERTIES_LEFT: Final = 256
"""Bytes that a half message leaves for properties that the broker adds later: its counter, the time of its delivery."""
MAX_HALF_PROPERTIES: Final = MAX_PROPERTIES_BYTES - PROPERTIES_LEFT


# ---- a send


def is_half(properties: Mapping[str, str], sys_flag: int, reconsume_times: int) -> bool:
    """Whether a send begins a transaction.

    Apache looks at TRAN_MSG alone, and stores a message with only the bit of sysFlag where no consumer finds it.
    """
    wanted = properties.get(keys.TRAN_MSG, "").lower() == "true"
    is_retry = reconsume_times > 0 and delay_level(properties) > 0  # clients before 4.6.1 leave the mark on retries
    return (wanted and not is_retry) or bool(sys_flag & PREPARED)


def half_destination(topic: str, queue_id: int, group: str, properties: Mapping[str, str]) -> Destination:
    """Return where and with which properties a half message for ``topic`` is stored.

    Raise ``Refused`` when the properties are so many that it could not be written again.
    """
    stored = {key: value for key, value in properties.items() if key not in OURS}
    stored.setdefault(keys.PGROUP, group)
    unique = stored.get(keys.UNIQ_KEY)
    if unique:
        stored[keys.TRANSACTION_ID] = unique
    stored[keys.REAL_TOPIC] = topic
    stored[keys.REAL_QID] = str(queue_id)
    if sum(len(key.encode()) + len(value.encode()) + 2 for key, value in stored.items()) > MAX_HALF_PROPERTIES:
        text = f"the properties of a half message take more than {MAX_HALF_PROPERTIES} bytes: "
        text += "the broker adds its own ones later"
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, text)
    return Destination(HALF_TOPIC, HALF_QUEUE, stored)


_PLAIN_MARK: Final = f"{keys.TRAN_MSG}\x01true\x02"
_GROUP_MARK: Final = f"\x02{keys.PGROUP}\x01"


def is_plain_half(sys_flag: int, properties: str, *, syncs: bool) -> bool:
    """Whether a first send, and every one that differs only in keys and tags, begins a transaction and no more.

    Then `half_ending` is all that the broker adds to its properties; False says nothing.
    """
    before, mark, after = properties.partition(_PLAIN_MARK)
    others = before + after
    return (
        bool(mark)
        and before[-1:] in ("", "\x02")
        and sys_flag & TRANSACTION_MASK in (0, PREPARED)
        and "__" not in others  # TRANSACTION_ID, PREVIOUS_HALF
        and "REAL_" not in others
        and "\x01\x02" not in others
        and is_plain(sys_flag & ~TRANSACTION_MASK, others, syncs=syncs)
    )


def half_ending(topic: str, group: str, properties: str) -> bytes:
    """Return what `half_destination` adds to the properties of a plain half message: a template for key and queue."""
    added = {} if _GROUP_MARK in f"\x02{properties}" else {keys.PGROUP: group.replace("%", "%%")}
    added |= {keys.TRANSACTION_ID: "%b", keys.REAL_TOPIC: topic.replace("%", "%%"), keys.REAL_QID: "%d"}
    return format_properties(added).encode()


# ---- reading


def half_of(record: HalfRecord) -> Half:
    """Return the entry of the ledger for a record of the half queue."""
    head = record.head
    place = head.queue_offset, head.physical_offset, head.size, head.born_timestamp
    if not record.was_written_by_a_check:
        return Half(*place, record.group)
    properties = record.properties
    ours, apaches = _number(properties, keys.PREVIOUS_HALF), _number(properties, keys.TRAN_PREPARED_QUEUE_OFFSET)
    replaces = ours if ours is not None else apaches
    return Half(
        *place,
        record.group,
        _number(properties, keys.TRANSACTION_CHECK_TIMES) or 0,
        _number(properties, keys.CHECK_IMMUNITY_TIME),
        # A message cannot replace itself or a later one, whatever its properties say.
        replaces if replaces is not None and replaces < head.queue_offset else -1,
        ours is None and apaches is not None,
    )


def _number(properties: Mapping[str, str], key: str, most: int = LONG_MAX) -> int | None:
    return whole_number(properties.get(key), most)


def is_final_of(half: RecordHead, head: RecordHead) -> bool:
    """Whether a record with the key of a half message is the final message of its commit."""
    return head.sys_flag & TRANSACTION_MASK == COMMIT and is_renewal_of(half, head)


def is_renewal_of(half: RecordHead, head: RecordHead) -> bool:
    """Whether a record with the key of a half message has its birth and its body: it was made of it, or it of that."""
    return head.born_timestamp == half.born_timestamp and head.body_crc == half.body_crc


# ---- records that follow


def final_message(record: HalfRecord, levels: int, timers: TimerConfig, now_ms: int) -> Draft | None:
    """Return the message that a commit stores; None for a half message that does not say where it belongs.

    A delay begins with the commit.
    """
    place, head = record.place, record.head
    if place is None:
        return None
    sys_flag = head.sys_flag & ~TRANSACTION_MASK | COMMIT
    properties = record.plain_final_properties()
    if properties is not None:
        return Draft.of(head, record.data, *place, properties, sys_flag=sys_flag, prepared=head.physical_offset)
    target = destination_of(*place, _without(record.properties, NOT_FINAL), sys_flag, levels)
    target = parked(target, sys_flag, timers, now_ms)
    return _again(record, target, sys_flag, head.physical_offset)


def renewed(record: HalfRecord, checks: int) -> Draft:
    """Return the half message that replaces this one at the end of the half queue."""
    properties = _without(record.properties, (keys.TRAN_PREPARED_QUEUE_OFFSET,))
    properties[keys.PREVIOUS_HALF] = str(record.head.queue_offset)
    if checks:
        properties[keys.TRANSACTION_CHECK_TIMES] = str(checks)
    return _half_again(record, properties)


def resumed(record: HalfRecord, replaced: int | None) -> Draft:
    """Return the half message with which the questions begin anew; it replaces the one at ``replaced``."""
    properties = _without(record.properties, OURS)
    if replaced is not None:
        properties[keys.PREVIOUS_HALF] = str(replaced)
    properties[keys.TRANSACTION_CHECK_TIMES] = "0"
    return _half_again(record, properties)


def as_stored(record: HalfRecord) -> tuple[Draft, AppendPosition]:
    """Return a half message as it is, and its place: to ask about it without writing it again."""
    head, draft = record.head, _half_again(record, record.properties)
    place = AppendPosition(
        head.physical_offset, head.queue_offset, head.physical_offset + head.size, head.store_timestamp
    )
    return draft, place


def given_up(record: HalfRecord) -> Draft:
    """Return the message for the topic of transactions that no producer ended."""
    target = Destination(CHECK_MAX_TIME_TOPIC, 0, _without(record.properties, OURS))
    return _again(record, target)


def _without(properties: Mapping[str, str], left_out: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key not in left_out}


def _half_again(record: HalfRecord, properties: Mapping[str, str]) -> Draft:
    return _again(record, Destination(HALF_TOPIC, HALF_QUEUE, properties))


def _again(record: HalfRecord, target: Destination, sys_flag: int | None = None, prepared: int = 0) -> Draft:
    properties = encode_properties(target.properties)
    head, place = record.head, (target.topic, target.queue_id)
    return Draft.of(head, record.data, *place, properties, sys_flag=sys_flag, prepared=prepared)


def op_message(body: bytes, unique: str, now_ms: int, host: HostBytes) -> Draft:
    """Return the op message with a body."""
    properties = encode_properties({keys.TAGS: OP_TAG, keys.UNIQ_KEY: unique})
    return Draft(OP_HALF_TOPIC, HALF_QUEUE, body, properties, EpochMs(now_ms), host, host)


# ---- a question


def question(draft: Draft, place: AppendPosition) -> tuple[CheckTransactionState, bytes]:
    """Return the request that asks a producer about a half message just stored at ``place``, and its body."""
    properties = decode_properties(draft.properties)
    unique = properties.get(keys.UNIQ_KEY)
    request = CheckTransactionState(
        topic=HALF_TOPIC,
        tran_state_table_offset=place.queue_offset,
        commit_log_offset=place.physical_offset,
        msg_id=unique,
        transaction_id=unique,
        offset_msg_id=offset_message_id(draft.store_host, PhysicalOffset(place.physical_offset)),
    )
    shown = Draft(
        properties.get(keys.REAL_TOPIC, ""),
        _number(properties, keys.REAL_QID, INT_MAX) or 0,
        draft.body,
        draft.properties,
        draft.born_timestamp,
        draft.born_host,
        draft.store_host,
        draft.flag,
        draft.sys_flag,
        draft.reconsume_times,
    )
    physical = PhysicalOffset(place.physical_offset)
    stored_ms = EpochMs(place.store_timestamp)
    return request, encode(shown, QueueOffset(place.queue_offset), physical, stored_ms, stamped=False)
