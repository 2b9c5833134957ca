"""The decisions on a request to end a transaction, and on a pending half message at a check. Pure.

The checks of `refusal_of` and their words are those of Java's ``EndTransactionProcessor``; their order is kept, because
the first that fails decides the answer. One is added: a request that names another transaction than the record does is
refused. After a loss of power the place of a lost half message may belong to another one of the same group.
"""

from enum import Enum
from typing import Final

from firearrow.broker.settings.transaction_settings import TransactionConfig
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.ledger import Half, Outcome
from firearrow.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from firearrow.model.numbers import INT_MAX, whole_number
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.transaction.transaction import EndTransaction

NOT_FOUND: Final = "Find prepared transaction message failed"


class Check(Enum):
    """The action of a check on a pending half message."""

    WAIT = "wait"
    ASK = "ask"
    GIVE_UP = "give up"
    RENEW = "renew"
    """Write it again at the end of the queue, without a question."""


def not_found() -> Refused:
    """Return the refusal of a request whose half message is not in the log."""
    return Refused(ResponseCode.SYSTEM_ERROR, NOT_FOUND)


def check_end(request: EndTransaction, record: HalfRecord, now_ms: int, config: TransactionConfig) -> None:
    """Raise ``Refused`` unless a request may end the transaction of a record."""
    head = record.head
    if head.topic != HALF_TOPIC:
        raise not_found()
    if not request.from_transaction_check and _is_too_late(record, now_ms, config.transaction_time_out):
        raise Refused(
            ResponseCode.ILLEGAL_OPERATION,
            "the time in which the producer may end this transaction by itself is over "
            "(CHECK_IMMUNITY_TIME_IN_SECONDS): the broker will ask for its state",
        )
    if (record.group or None) != request.producer_group:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if head.queue_offset != request.tran_state_table_offset:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
    if head.physical_offset != request.commit_log_offset:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The commit log offset wrong")
    if _names_another(request, record.unique_key):
        raise not_found()


def _is_too_late(record: HalfRecord, now_ms: int, timeout_ms: int) -> bool:
    immunity = record.immunity
    if not immunity:
        return False
    seconds = whole_number(immunity, INT_MAX) or 0
    return now_ms - record.head.born_timestamp > max(seconds * 1000, timeout_ms)


def _names_another(request: EndTransaction, unique: str) -> bool:
    """Whether a request names a transaction, and that is not the one with the key ``unique``."""
    given = (request.msg_id, request.transaction_id or "")
    return bool(unique) and unique not in given and all(given)


def repeated(outcome: Outcome | None, wanted: Outcome) -> Refused | None:
    """Return the answer to the end of a transaction that is not open: None is success, because it ended so before.

    ``outcome``: how it ended; None when that is not known any more. The end of a transaction that was given up is not
    for this function.
    """
    if outcome is wanted:
        return None
    if outcome in (Outcome.COMMITTED, Outcome.ROLLED_BACK):
        text = f"the transaction is already {outcome.value}: nothing is changed"
    else:
        text = (
            "the transaction is over: nothing is changed. If nobody ended it, its message is in "
            f"{CHECK_MAX_TIME_TOPIC}, where it is moved after the last question"
        )
    return Refused(ResponseCode.ILLEGAL_OPERATION, text)


def judge(
    half: Half, now_ms: int, config: TransactionConfig, reserved_ms: int, *, is_reachable: bool, is_far_behind: bool
) -> Check:
    """Return what a check does with a half message.

    ``is_reachable``: a producer of its group is connected. Apache counts a question that nobody could be asked; here
    the half message waits for a producer. ``is_far_behind``: so many half messages were stored since that a restart
    would take long.
    """
    age_ms = now_ms - half.born_ms
    if half.checks >= config.transaction_check_max or age_ms > reserved_ms:
        return Check.GIVE_UP
    immune_ms = config.transaction_time_out if half.immunity_s is None else half.immunity_s * 1000
    # A birth far in the future is that of a producer whose clock is wrong: it must not delay the question for ever.
    if is_reachable and not -immune_ms <= age_ms <= immune_ms:
        return Check.ASK
    return Check.RENEW if is_far_behind else Check.WAIT
