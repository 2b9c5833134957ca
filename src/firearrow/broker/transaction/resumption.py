"""Resumption: the questions about a half message begin anew, because an operator wants it.

That is for a transaction that is pending or was given up. One that was committed or rolled back is refused: Apache asks
about it again, and stores its message a second time. Java: ``AdminBrokerProcessor.resumeCheckHalfMessage``.
"""

from firearrow.broker.transaction.half import resumed
from firearrow.broker.transaction.half_record import Record
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Outcome
from firearrow.broker.transaction.slice import Slice
from firearrow.errors import FireArrowError
from firearrow.model import keys
from firearrow.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused


async def resume(journal: Journal, record: Record) -> None:
    """Ask about the half message in a record again, from the first question on; return when that is kept."""
    head = record.head
    is_half = head.topic in (HALF_TOPIC, CHECK_MAX_TIME_TOPIC)
    if not is_half or keys.REAL_TOPIC not in record.properties:
        text = f"the message is not a half message: it is not one of {HALF_TOPIC} or {CHECK_MAX_TIME_TOPIC} "
        raise Refused(ResponseCode.SYSTEM_ERROR, text + f"with property {keys.REAL_TOPIC}")
    is_pending = head.topic == HALF_TOPIC
    if is_pending:
        record = await _present(journal, record)
    work = Slice(journal)
    try:
        end = journal.append(resumed(record, is_pending=is_pending)).end
    except FireArrowError as error:
        work.failed(error)
        raise
    if is_pending:
        work.over(record.head.queue_offset, Outcome.MOVED, end)
    await work.kept()


async def _present(journal: Journal, record: Record) -> Record:
    """Return the last record of the transaction; raise ``Refused`` unless it is pending or given up."""
    ledger = journal.ledger
    offset = await journal.pending_of(record)
    half = ledger.open_at(offset)
    if half is not None and half.physical != record.head.physical_offset:
        record = await journal.record_of(half) or record
    if record.head.queue_offset == offset and (
        ledger.open_at(offset) is not None or ledger.outcome_at(offset) is Outcome.GIVEN_UP
    ):
        return record
    outcome = ledger.outcome_at(ledger.now_at(offset))
    text = f"the transaction is {'over' if outcome is None else outcome.value}: nobody is asked about it again. "
    text += f"A message in {CHECK_MAX_TIME_TOPIC} can be resumed by its own id"
    raise Refused(ResponseCode.SYSTEM_ERROR, text)
