"""Resumption: the questions about a half message begin anew, because an operator wants it.

That is for a transaction that is pending or was given up. One that was committed or rolled back is refused: Apache asks
about it again, and stores its message a second time. Java: ``AdminBrokerProcessor.resumeCheckHalfMessage``.

A message that was given up is resumed under the offset of its last half message, so that the producer's end of that and
the answer to a new question end one transaction. Its half messages are looked up by its key: without the key index
(``messageIndexEnable``) both would store the message. A rollback is looked up by the key too, in the op queue: after a
restart nothing else tells it from giving up.
"""

from firearrow.broker.transaction.half import resumed
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Outcome
from firearrow.broker.transaction.slice import Slice
from firearrow.errors import FireArrowError
from firearrow.model import keys
from firearrow.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused


async def resume(journal: Journal, record: HalfRecord) -> int:
    """Ask about the half message in a record again, from the first question on; return when that is kept."""
    is_half = record.head.topic in (HALF_TOPIC, CHECK_MAX_TIME_TOPIC)
    if not is_half or keys.REAL_TOPIC not in record.properties:
        text = f"the message is not a half message: it is not one of {HALF_TOPIC} or {CHECK_MAX_TIME_TOPIC} "
        raise Refused(ResponseCode.SYSTEM_ERROR, text + f"with property {keys.REAL_TOPIC}")
    record, replaced = await _present(journal, record)
    work = Slice(journal)
    try:
        end = journal.append(resumed(record, replaced)).end
    except FireArrowError as error:
        work.failed(error)
        raise
    if replaced is not None:
        work.over(replaced, Outcome.MOVED, end)
    return await work.kept()


async def _present(journal: Journal, record: HalfRecord) -> tuple[HalfRecord, int | None]:
    """Return the last record of the transaction, and the offset of its last half message; None when that is not there.

    An end that names one of the half messages before then ends the resumed one. Raise ``Refused`` when the transaction
    has ended, or nothing is known of it but a half message.
    """
    ledger, was_moved = journal.ledger, record.head.topic == CHECK_MAX_TIME_TOPIC
    offset = await (journal.last_half_of(record) if was_moved else journal.pending_of(record))
    found = await _found_end(journal, record, offset)
    half = None if offset is None else ledger.open_at(offset)
    if half is not None and half.physical != record.head.physical_offset:
        record = await journal.record_of(half) or record
    outcome = None
    if offset is not None:  # the transaction may have gone on while its records were read
        offset = ledger.now_at(offset)
        half, outcome = ledger.open_at(offset), ledger.outcome_at(offset)
    is_last = half is not None and half.physical == record.head.physical_offset
    is_given_up = half is None and (outcome is Outcome.GIVEN_UP or (was_moved and outcome is None))
    if found is None and (is_last or is_given_up):
        return record, offset
    raise _over(found or outcome)


def _over(outcome: Outcome | None) -> Refused:
    text = f"the transaction is {'over' if outcome is None else outcome.value}: nobody is asked about it again. "
    text += f"A message in {CHECK_MAX_TIME_TOPIC} can be resumed by its own id"
    return Refused(ResponseCode.SYSTEM_ERROR, text)


async def _found_end(journal: Journal, record: HalfRecord, offset: int | None) -> Outcome | None:
    """Return the end of the transaction that the key index finds; None when it finds none."""
    if await journal.finds_final(record):
        return Outcome.COMMITTED
    was_moved = record.head.topic == CHECK_MAX_TIME_TOPIC
    return Outcome.ROLLED_BACK if was_moved and await journal.finds_rollback(record, offset) else None
