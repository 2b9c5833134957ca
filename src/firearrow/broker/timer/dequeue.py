"""Delivers due slots of the wheel. Java: ``TimerMessageStore.dequeue`` and its threads.

A slot is due when the wall clock has passed its end. Its messages are stored for their topics in the order in which
they came, in small portions with pauses between them, so that a slot of any size leaves room for clients. The slot
counts as delivered, and is emptied, when every message of it is written; after a crash before that, all of it is
delivered again.
"""

import asyncio
import logging
from typing import Final

from firearrow.broker.tables.tables import Tables
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.records import TimedRecord, delivered, in_columns, read_records, recalls, rolled
from firearrow.errors import DiskError, IllegalMessage
from firearrow.model import keys
from firearrow.record.encode import Draft
from firearrow.store.pacing import Pace
from firearrow.store.placement import WRITTEN
from firearrow.store.timer.files import Chain, TimerFiles
from firearrow.store.timer.layout import DELETES, ROLLS

PORTION: Final = 128
"""Messages stored before the loop runs."""
PORTION_BYTES: Final = 256 << 10
LONGEST_SLEEP_MS: Final = 1_000
"""The longest sleep before the wall clock is read again: it may be set forward meanwhile."""
RETRY_S: Final = 1.0
STEPS_AT_ONCE: Final = 4096
"""Empty slots passed one by one; a longer way is looked up in the wheel as a whole."""

log = logging.getLogger(__name__)


class Dequeue:
    """Moves messages from the wheel to their topics when their slot is due."""

    def __init__(self, tables: Tables, files: TimerFiles, counts: TimerCounts) -> None:
        self._store = tables.store
        self._clock = tables.clock
        self._settings = tables.settings
        self._files = files
        self._counts = counts
        self._segment_bytes = tables.store.opened.segments.size
        self.added = asyncio.Event()
        """Set when a message was added to the wheel."""
        self.current_ms: int | None = None
        """The slot that is being delivered."""

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            self.added.clear()
            if self._settings.value.timers.timer_stop_dequeue:
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await self._deliver_due()
            except DiskError as error:
                log.warning("timed messages wait", extra={"time": self._files.read_ms, "reason": str(error)})
                await asyncio.sleep(RETRY_S)
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next slot may be due."""
        if not self._files.wheel.used:
            await self.added.wait()
            return
        left_ms = self._files.read_ms + self._files.precision_ms - self._clock.now_ms()
        await asyncio.sleep(min(max(left_ms, 1), LONGEST_SLEEP_MS) / 1000)

    async def _deliver_due(self) -> None:
        files = self._files
        pace = Pace(STEPS_AT_ONCE // 8)
        until_ms = files.floor(self._clock.now_ms())
        if not files.wheel.used:
            files.read_ms = max(files.read_ms, until_ms)
        if until_ms - files.read_ms > STEPS_AT_ONCE * files.precision_ms:
            async for time_ms in files.overdue(until_ms):
                await self.deliver(time_ms)
                files.read_ms = min(files.read_ms, time_ms) if time_ms < files.read_ms else time_ms
            files.read_ms = max(files.read_ms, until_ms)
        while files.read_ms < files.floor(self._clock.now_ms()):
            time_ms = files.read_ms
            await self.deliver(time_ms)
            # The clock may have been set back while the slot was delivered, and a message added before it.
            if files.read_ms == time_ms:
                files.read_ms = time_ms + files.precision_ms
            await pace.did()

    async def deliver(self, time_ms: int) -> None:
        """Deliver the slot of a time, if it has messages."""
        slot = self._files.wheel.get(time_ms)
        if slot is None:
            return
        self.current_ms = time_ms
        try:
            chain = await self._files.chain(slot)
            if not chain.physicals:
                log.warning("a slot of the timer wheel has no messages in the timer log", extra={"time": time_ms})
            await self._store_chain(chain, time_ms)
            self._files.wheel.clear(time_ms)
        finally:
            self.current_ms = None

    async def _store_chain(self, chain: Chain, time_ms: int) -> None:
        deleted = await self._deleted(chain)
        at, missing = 0, 0
        wanted = [number for number, magic in enumerate(chain.magics) if not magic & DELETES or magic & ROLLS]
        while at < len(wanted):
            portion = self._portion(chain, wanted, at)
            try:
                missing += await self._store_portion(chain, portion, deleted)
            except DiskError as error:
                log.warning("timed messages wait", extra={"time": time_ms, "reason": str(error)})
                await asyncio.sleep(RETRY_S)
                continue
            at += len(portion)
            await asyncio.sleep(0)
        if missing:
            log.warning("timed messages are not in the log any more", extra={"time": time_ms, "messages": missing})

    @staticmethod
    def _portion(chain: Chain, wanted: list[int], at: int) -> list[int]:
        """Return the messages that are stored next: some, or one large one."""
        portion = wanted[at : at + PORTION]
        size = 0
        for count, number in enumerate(portion):
            size += chain.sizes[number]
            if count and size > PORTION_BYTES:
                return portion[:count]
        return portion

    async def _deleted(self, chain: Chain) -> set[str]:
        """Return the keys of the messages of a slot that were taken back."""
        numbers = [number for number, magic in enumerate(chain.magics) if magic & DELETES and not magic & ROLLS]
        places = [chain.physicals[number] for number in numbers], [chain.sizes[number] for number in numbers]
        found = read_records(self._store.bytes, self._segment_bytes, *places)
        taken_back = {record.value(keys.TIMER_DEL_UNIQKEY) async for _, record in found if record is not None}
        return {key for key in taken_back if key is not None}

    async def _store_portion(self, chain: Chain, portion: list[int], deleted: set[str]) -> int:
        """Store some messages of a slot; return how many of them are not in the log any more."""
        places = [chain.physicals[number] for number in portion], [chain.sizes[number] for number in portion]
        now_ms, missing = self._clock.now_ms(), 0
        drafts: list[Draft] = []
        async for at, record in read_records(self._store.bytes, self._segment_bytes, *places):
            if record is None:
                # Those of deleted files were stored again before the deletion (`Renewal`).
                missing += chain.physicals[portion[at]] >= self._store.log.min_offset
                continue
            draft = self._draft(record, chain.magics[portion[at]], chain.written[portion[at]], deleted, now_ms)
            if draft is not None:
                drafts.append(draft)
        end = self._append(drafts)
        if end:
            await self._store.reached(end, WRITTEN)
        return missing

    def _append(self, drafts: list[Draft]) -> int:
        """Append messages in order; return the end of the last record, 0 without any."""
        end, store = 0, self._store
        if store.retention.refusal is not None:
            raise store.retention.refusal
        for rows, envelope, columns in in_columns(drafts):
            tails = [store.queues.tail_of(envelope.topic, queue_id) for queue_id in columns.queue_ids]
            try:
                end = store.log.append_columns(envelope, tails, columns).end
            except IllegalMessage:
                end = self._append_singly(rows) or end
        return end

    def _append_singly(self, drafts: list[Draft]) -> int:
        """Append messages one by one, without those that no record can hold."""
        end = 0
        for draft in drafts:
            try:
                end = self._store.append(draft).end
            except IllegalMessage as error:
                log.exception("a timed message cannot be delivered", extra={"reason": str(error)})
        return end

    def _draft(self, record: TimedRecord, magic: int, added_ms: int, deleted: set[str], now_ms: int) -> Draft | None:
        if magic & ROLLS:
            return rolled(record, added_ms, now_ms)
        self._counts.change(record.value(keys.REAL_TOPIC) or "", -1, now_ms)
        if recalls(record, deleted):
            return None
        self._counts.delivered += 1
        return delivered(record, added_ms, now_ms)
