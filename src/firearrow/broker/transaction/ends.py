"""Requests to end a transaction: taken one after the other, in slices of one turn.

A slice reads the records of its half messages, then decides and appends without a pause: the final messages first, one
batch of op messages after them. So many ends of one turn share an op message, and a single end is written at once.
Apache gathers op messages for up to 3 s and loses those 3 s when it is killed.

A transaction ends once: a request for one that has ended changes nothing (`decisions.repeated`). Apache stores the
message of a repeated commit again.
"""

import asyncio
import logging
from collections import deque
from typing import Final

from msgspec import Struct

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.transaction.decisions import check_end, not_found, repeated
from firearrow.broker.transaction.half import final_message
from firearrow.broker.transaction.journal import Journal, Record
from firearrow.broker.transaction.ledger import Outcome
from firearrow.errors import DiskError, FireArrowError, IllegalMessage, OffsetNotStored, ResourceShortage
from firearrow.model.flags import COMMIT, ROLLBACK
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.record.properties import decode_properties
from firearrow.remoting.handlers import Later
from firearrow.runtime.clock import Clock

AT_ONCE: Final = 64
"""Most requests decided in one turn."""
MAX_WAITING: Final = 100_000
"""Most requests that wait (Apache's ``endTransactionPoolQueueCapacity``)."""
OUTCOMES: Final = {COMMIT: Outcome.COMMITTED, ROLLBACK: Outcome.ROLLED_BACK}

_Read = tuple[Record, bool] | Refused

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


class Ends:
    """The requests of one broker to end transactions."""

    def __init__(self, journal: Journal, settings: LiveSettings, clock: Clock) -> None:
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._waiting: deque[_End] = deque()

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
        """Decide all requests that wait, except those whose half message is appended and not folded yet."""
        left = len(self._waiting)
        while left > 0:
            ends = self._take(min(left, AT_ONCE))
            left -= AT_ONCE
            try:
                records = [await self._record(end.request) for end in ends]
            except BaseException:
                self._refuse(ends)
                raise
            self._decide(ends, records)
            await asyncio.sleep(0)

    def _take(self, count: int) -> list[_End]:
        """Take the next requests; those that are early go to the end of the line."""
        ends: list[_End] = []
        for _ in range(min(count, len(self._waiting))):
            end = self._waiting.popleft()
            (self._waiting if self._journal.is_on_its_way(end.request.tran_state_table_offset) else ends).append(end)
        return ends

    def close(self) -> None:
        """Refuse the requests that wait: the broker stops, and will ask about their transactions after its start."""
        self._refuse(list(self._waiting))
        self._waiting.clear()

    def _refuse(self, ends: list[_End]) -> None:
        for end in ends:
            end.answer(Refused(ResponseCode.SYSTEM_ERROR, "the broker is stopping"))

    async def _record(self, request: EndTransaction) -> _Read:
        """Return the record of a request, and whether its final message was stored before the last start."""
        journal = self._journal
        half = journal.ledger.pending.get(request.tran_state_table_offset)
        size = half.size if half is not None and half.physical == request.commit_log_offset else 0
        try:
            record = await journal.record_at(request.commit_log_offset, size)
            return not_found() if record is None else (record, await journal.has_final(record))
        except (DiskError, OffsetNotStored) as error:
            return Refused(ResponseCode.SYSTEM_ERROR, f"{not_found().remark}: {error}")

    def _decide(self, ends: list[_End], records: list[_Read]) -> None:
        over: list[int] = []
        kept: list[_End] = []
        for end, record in zip(ends, records, strict=True):
            try:
                offset = self._end(end, record)
            except Refused as refusal:
                end.answer(refusal)
            except (DiskError, IllegalMessage, ResourceShortage) as error:
                end.answer(_not_stored(error))
            else:
                kept.append(end)
                over += () if offset is None else (offset,)
        if kept or self._journal.owes:
            self._finish(kept, over)

    def _end(self, end: _End, record: _Read) -> int | None:
        """Append the final message of a commit; return the half message that is over, None when it was before."""
        if isinstance(record, Refused):
            raise record
        (head, data), was_stored = record
        request, ledger = end.request, self._journal.ledger
        config = self._settings.value.transactions
        check_end(request, head, decode_properties(head.properties(data)), self._clock.now_ms(), config)
        offset = ledger.now_at(head.queue_offset)
        if was_stored and ledger.open_at(offset) is not None:
            # A crash lost the op message of a commit, and nothing else.
            ledger.announce(offset, Outcome.COMMITTED)
            self._journal.owe(offset)
        if ledger.open_at(offset) is None:
            refusal = repeated(ledger, offset, end.outcome)
            if refusal is not None:
                raise refusal
            return None
        if end.outcome is Outcome.COMMITTED:
            levels, timers = len(self._settings.broker.delays_ms), self._settings.value.timers
            final = final_message(head, data, levels, timers, self._clock.now_ms())
            if final is None:
                raise Refused(ResponseCode.SYSTEM_ERROR, "the half message does not name its topic and queue")
            self._journal.append(final)
        ledger.announce(offset, end.outcome)
        return offset

    def _finish(self, kept: list[_End], over: list[int]) -> None:
        """Append the op messages, and answer when everything is kept."""
        try:
            end = self._journal.end(over)
        except (DiskError, IllegalMessage, ResourceShortage) as error:
            for one in kept:
                one.answer(_not_stored(error))
            return

        def reached(error: FireArrowError | None) -> None:
            for offset in over if error is not None else ():
                self._journal.ledger.take_back(offset)
            for one in kept:
                one.answer(None if error is None else _not_stored(error))

        self._journal.when_kept(end, reached)


def _not_stored(error: FireArrowError) -> Refused:
    if isinstance(error, IllegalMessage):
        return Refused(ResponseCode.MESSAGE_ILLEGAL, f"The message is illegal: {error}")
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, f"Service not available now. ({error})")
