"""Requests to end a transaction: taken one after the other, in slices of one turn.

A slice reads the records of its half messages, then decides and appends without a pause: the final messages first, one
batch of op messages after them. So many ends of one turn share an op message, and a single end is written at once.
Apache gathers op messages for up to 3 s and loses those 3 s when it is killed.

A transaction ends once: a request for one that has ended changes nothing (`decisions.repeated`). One that was given up
has not ended: its first commit or rollback is kept as that of a pending one. Apache stores the message of a repeated
commit again. A request for one whose end is on its way to the disk waits for that: the end may
still fail, and success means that it is kept.
"""

import logging
from collections import deque
from typing import Final

from msgspec import Struct

from firearrow.broker.gate.gate import Gate
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.transaction.decisions import check_end, not_found, repeated
from firearrow.broker.transaction.half import final_message
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Outcome
from firearrow.broker.transaction.side_by_side import side_by_side
from firearrow.broker.transaction.slice import Slice
from firearrow.errors import DiskError, FireArrowError, IllegalMessage, OffsetNotStored
from firearrow.model.flags import COMMIT, ROLLBACK
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.remoting.handlers import Answer, Later
from firearrow.runtime.clock import Clock
from firearrow.runtime.turn import breathe

AT_ONCE: Final = 64
"""Most requests decided in one turn."""
BYTES_AT_ONCE: Final = 1 << 20
"""Half messages of one turn: no further one after so many bytes."""
MAX_WAITING: Final = 100_000
"""Most requests that wait (Apache's ``endTransactionPoolQueueCapacity``)."""
OUTCOMES: Final = {COMMIT: Outcome.COMMITTED, ROLLBACK: Outcome.ROLLED_BACK}

_Read = tuple[HalfRecord, int, bool] | Refused
"""The record that a request names, the offset where its transaction is now, and whether it was committed before."""

log = logging.getLogger(__name__)


class _End(Struct, frozen=True, gc=False):
    """A request, the outcome that it asks for, and its answer; a one-way request has none."""

    request: EndTransaction
    outcome: Outcome
    later: Later | None

    def answer(self, refusal: Refused | None) -> None:
        if refusal is not None and self.later is None:
            log.info(
                "an end of a transaction of %s is refused: %s", self.request.producer_group, refusal.remark,
                extra={"group": self.request.producer_group, "transaction": self.request.transaction_id},
            )  # fmt: skip
        elif self.later is not None and refusal is None:
            self.later.answer()
        elif self.later is not None and refusal is not None:
            self.later.refuse(int(refusal.code), refusal.remark)


class _ConfirmedEnd:
    """The answer to a request whose records replicas are waited for."""

    __slots__ = ("_end",)

    def __init__(self, end: _End) -> None:
        self._end = end

    def answer(self, answer: Answer) -> bool:
        code = ResponseCode(answer.code)
        self._end.answer(None if code is ResponseCode.SUCCESS else Refused(code, answer.remark or ""))
        return True


class EndRequests:
    """The requests of one broker to end transactions."""

    def __init__(self, journal: Journal, settings: LiveSettings, clock: Clock, gate: Gate) -> None:
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._gate = gate
        self._waiting: deque[_End] = deque()
        self.ended: Final = dict.fromkeys(OUTCOMES.values(), 0)
        """Transactions that were ended since the start, by outcome."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: EndTransaction, outcome: Outcome, later: Later | None) -> None:
        """Take a request; raise ``Refused`` when too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"{MAX_WAITING} requests to end a transaction wait already; the broker will ask about this one",
            )
        self._waiting.append(_End(request, outcome, later))

    async def serve(self) -> None:
        """Decide all requests that wait, except those that are early; append op messages that are owed."""
        left = len(self._waiting)
        if self._journal.owed:
            self._finish([], Slice(self._journal))
        while left > 0:
            ends, looked_at = self._take(left)
            left -= looked_at
            try:
                records = await self._records([end.request for end in ends])
            except BaseException as error:
                self._refuse(ends, f"the transaction could not be looked up: {error!r}; the broker will ask about it")
                raise
            self._decide(ends, records)
            await breathe()

    def _take(self, left: int) -> tuple[list[_End], int]:
        """Take the requests of one turn; those that are early go to the end of the line."""
        ends: list[_End] = []
        ledger, size, count = self._journal.ledger, 0, 0
        while count < min(left, AT_ONCE) and size < BYTES_AT_ONCE:
            end = self._waiting.popleft()
            count += 1
            offset = end.request.tran_state_table_offset
            half = ledger.open_at(offset)
            if half is None and self._is_early(offset):
                self._put_off(end)
                continue
            ends.append(end)
            half = half or ledger.pending.get(ledger.now_at(offset))
            size += 0 if half is None else half.size
        return ends, count

    def _put_off(self, end: _End) -> None:
        """Look at a request again later; refuse it where its half message waits for replicas that are away."""
        try:
            self._gate.check()
        except Refused as refusal:
            end.answer(refusal)
        else:
            self._waiting.append(end)

    def _is_early(self, offset: int) -> bool:
        """Whether the half message is appended and not folded yet, or its end is."""
        ledger = self._journal.ledger
        return self._journal.is_on_its_way(offset) or ledger.is_announced(ledger.now_at(offset))

    def close(self) -> None:
        """Refuse the requests that wait: the broker stops, and will ask about their transactions after its start."""
        self._refuse(list(self._waiting), "the broker is stopping: after its start it will ask about the transaction")
        self._waiting.clear()

    def _refuse(self, ends: list[_End], why: str) -> None:
        for end in ends:
            end.answer(Refused(ResponseCode.SYSTEM_ERROR, why))

    async def _records(self, requests: list[EndTransaction]) -> list[_Read]:
        """Return what each request names; what must be read is read side by side."""
        recent = [self._recent(request) for request in requests]
        old = [request for request, record in zip(requests, recent, strict=True) if record is None]
        read = iter(await side_by_side(self._record, old))
        return [next(read) if record is None else record for record in recent]

    def _recent(self, request: EndTransaction) -> _Read | None:
        """Return what a request names without reading it; None when it must be read."""
        record = self._journal.take_recent(request.commit_log_offset)
        return None if record is None else (record, self._journal.ledger.now_at(record.head.queue_offset), False)

    async def _record(self, request: EndTransaction) -> _Read:
        """Read what a request names."""
        journal = self._journal
        half = journal.ledger.pending.get(request.tran_state_table_offset)
        size = half.size if half is not None and half.physical == request.commit_log_offset else 0
        try:
            record = await journal.record_at(request.commit_log_offset, size)
            if record is None:
                return not_found()
            return record, await journal.pending_of(record), await journal.has_final(record)
        except (DiskError, OffsetNotStored) as error:
            return Refused(ResponseCode.SYSTEM_ERROR, f"{not_found().remark}: {error}")

    def _decide(self, ends: list[_End], records: list[_Read]) -> None:
        decided: list[tuple[_End, int]] = []
        work = Slice(self._journal)
        for end, record in zip(ends, records, strict=True):
            try:
                offset = self._end(work, end, record)
            except Refused as refusal:
                end.answer(refusal)
            except FireArrowError as error:
                work.failed(error)
                end.answer(_not_stored(error))
            else:
                if offset is not None:
                    decided.append((end, offset))
        if decided or self._journal.owed:
            self._finish(decided, work)

    def _end(self, work: Slice, end: _End, record: _Read) -> int | None:
        """Append the final message of a commit; return the half message that is over, None when there is none."""
        if isinstance(record, Refused):
            raise record
        self._gate.check()
        half, offset, was_stored = record
        check_end(end.request, half, self._clock.now_ms(), self._settings.value.transactions)
        ledger = self._journal.ledger
        offset = ledger.now_at(offset)
        if ledger.is_announced(offset):
            self._waiting.append(end)
            return None
        is_open, outcome = ledger.open_at(offset) is not None, ledger.outcome_at(offset)
        if was_stored and is_open:
            # A crash lost the op message of a commit, and nothing else.
            ledger.announce(offset, Outcome.COMMITTED)
            self._journal.owed[offset] = 0
        if was_stored or not (is_open or outcome is Outcome.GIVEN_UP):
            refusal = repeated(Outcome.COMMITTED if was_stored else outcome, end.outcome)
            if refusal is not None:
                raise refusal
            self._gate.confirm(EndTransaction.code, self._journal.tail, _ConfirmedEnd(end))
            return None
        if end.outcome is Outcome.COMMITTED:
            work.over(offset, end.outcome, self._append_final(half))
        else:
            self._journal.name_rollback(offset, half)
            work.over(offset, end.outcome)
        return offset

    def _append_final(self, half: HalfRecord) -> int:
        levels, timers = len(self._settings.broker.delays_ms), self._settings.value.timers
        final = final_message(half, levels, timers, self._clock.now_ms())
        if final is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the half message does not name its topic and queue")
        return self._journal.append(final).end

    def _finish(self, decided: list[tuple[_End, int]], work: Slice) -> None:
        """Append the op messages, and answer when everything is kept, and replicas have it that are waited for."""
        end = work.close()

        def reached(error: FireArrowError | None) -> None:
            if error is not None:
                work.lost(error)
            for one, offset in decided:
                reason = work.error_of(offset)
                self.ended[one.outcome] += reason is None
                if reason is not None:
                    one.answer(_not_stored(reason))
                else:
                    self._gate.confirm(EndTransaction.code, end, _ConfirmedEnd(one))

        self._journal.when_kept(end, reached)


def _not_stored(error: FireArrowError) -> Refused:
    if isinstance(error, IllegalMessage):
        return Refused(ResponseCode.MESSAGE_ILLEGAL, f"The message is illegal: {error}")
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, f"Service not available now. ({error})")
