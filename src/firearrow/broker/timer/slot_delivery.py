"""Delivers one slot of the wheel. Java: ``TimerDequeueGetMessageService``, ``TimerDequeuePutMessageService``.

The messages of a slot are stored for their topics in the order in which they came, or, with ``timerExactDelivery``, in
the order of their times and each not before its own. They are stored in small portions with pauses between them, so
that a slot of any size leaves room for clients. The slot counts as delivered, and is emptied, when every message of it
is written; after a crash before that, all of it is delivered again. Where the disk has no room for a message, the
delivery goes on from that message later: those before it are known to be written (`_AppendedMessages`), and come once.

Messages are delivered also while sends are refused because the disk is nearly full: until they are delivered, retention
must keep them (`Renewal`), and cannot make room.
"""

import asyncio
import heapq
import logging
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.due_messages import DueMessages, Fate, Recalled, SlotPiece
from firearrow.broker.timer.outcomes import Outcome, outcome_of
from firearrow.broker.timer.records import read_spans, taken_back
from firearrow.errors import DiskError, FireArrowError, IllegalMessage, Overloaded
from firearrow.model.names import TIMER_TOPIC
from firearrow.runtime.clock import Clock
from firearrow.runtime.turn import breathe
from firearrow.store.store import Store
from firearrow.store.timer.chain import Chain
from firearrow.store.timer.files import TimerFiles
from firearrow.store.timer.layout import DELETES, NO_POSITION, PRECISIONS_MS, ROLLS, Slot, Unit
from firearrow.telemetry.damped import DampedEvents

PORTION: Final = 256
"""Messages stored before the loop runs."""
PORTION_BYTES: Final = 256 << 10
RETRY_S: Final = 1.0
RENEWED_S: Final = 0.01
DIVIDED_AT_ONCE: Final = 4096
"""Units of a slot looked at before the loop runs."""
LONGEST_WAIT_MS: Final = 100
"""The longest wait within a slot before the wall clock is read again."""

log = logging.getLogger(__name__)


class _Run:
    """Messages of a slot that were read together, in the order in which they are delivered."""

    __slots__ = ("at", "chain", "deleted", "end_ms", "order")

    def __init__(self, chain: Chain, deleted: Recalled, order: Sequence[int], end_ms: int | None) -> None:
        self.chain = chain
        self.deleted = deleted
        self.order = order
        self.end_ms = end_ms
        """The end of the slot if messages are delivered in the order of their exact times, else None."""
        self.at = 0
        """The number of messages that are stored for their topics."""

    def __lt__(self, other: "_Run") -> bool:
        return False  # runs of one time are delivered as they came

    @property
    def first(self) -> int:
        """The physical offset of its first record."""
        return self.chain.physicals[0]

    def is_stored(self, unit: Unit) -> bool:
        """Whether a unit of the run is stored for its topic already."""
        if not self.at:
            return False
        last = self.order[self.at - 1]
        return self._rank(unit.exact_ms, unit.physical) <= self._rank(
            self.chain.exact[last], self.chain.physicals[last]
        )

    def _rank(self, exact_ms: int, physical: int) -> tuple[int, int]:
        return (0 if self.end_ms is None else _time_within(exact_ms, self.end_ms), physical)


class _AppendedMessages(NamedTuple):
    """Messages that were appended together, or messages of the slot that nothing is stored for."""

    fates: Sequence[Fate]
    outcome: Outcome | None = None
    """None when nothing is stored."""
    topic: str = ""
    messages: int = 0
    size: int = 0


class SlotDelivery:
    """Stores the messages of a slot for their topics."""

    def __init__(
        self, files: TimerFiles, counts: TimerCounts, *, store: Store, stats: BrokerStats, clock: Clock
    ) -> None:
        self._store = store
        self._pressure = store.views.pressure
        self._stats = stats
        self._clock = clock
        self._files = files
        self._due = DueMessages(store.log, counts, files.precision_ms)
        self._segment_bytes = store.opened.segments.size
        self._is_exact = files.config.timer_exact_delivery
        self.added = asyncio.Event()
        """Set when a message was added to the wheel."""
        self.current_ms: int | None = None
        """The slot that is being delivered."""
        self._is_failing = self._is_storing = False
        self._runs: list[_Run] = []  # of the slot that is being delivered, in the order of their records
        self._failures = DampedEvents()

    @property
    def is_held(self) -> bool:
        """Whether a slot is being delivered and nothing of it can be stored for now."""
        is_stopped = self._is_failing or self._pressure.refusal is not None
        return self.current_ms is not None and is_stopped and not self._is_storing

    def is_stored(self, unit: Unit) -> bool:
        """Whether a unit of the slot that is being delivered is stored for its topic already.

        A recall is not: the messages that it takes back may come later.
        """
        if unit.due_ms != self.current_ms or unit.magic & DELETES:
            return False
        at = bisect_right(self._runs, unit.physical, key=lambda run: run.first) - 1
        return at >= 0 and self._runs[at].is_stored(unit)

    async def deliver(self, time_ms: int) -> None:
        """Deliver the slot of a time, if it has messages: each when it is due, and those that are added meanwhile."""
        if self._files.wheel.get(time_ms) is None:
            return
        self.current_ms = time_ms
        try:
            await self._deliver(time_ms)
        finally:
            self.current_ms, self._is_failing, self._runs = None, False, []

    async def _deliver(self, time_ms: int) -> None:
        wheel, end_ms = self._files.wheel, time_ms + self._files.precision_ms
        runs: list[tuple[int, int, _Run]] = []
        deleted: Recalled = set()
        taken, last, number, self._due.missing = 0, NO_POSITION, 0, 0
        while (slot := wheel.get(time_ms)) is not None:
            if slot.last != last:
                chain = await self._files.chain(slot, after=last)
                self._warn_of_lost(slot, slot.number - number, chain)
                run = await self._read(chain, deleted, end_ms)
                taken, last, number = taken + 1, slot.last, slot.number
                if run.order:
                    self._runs.append(run)
                    heapq.heappush(runs, (self._due_ms(run, end_ms), taken, run))
            elif runs and runs[0][0] <= self._clock.now_ms():
                await self._store_some(runs, end_ms)
            elif runs and self._files.read_ms < time_ms:
                # The clock was set back and an earlier slot needs delivery first; this one is delivered again then.
                return
            elif runs:
                await self._wait_until(runs[0][0])
            else:
                wheel.clear(time_ms)  # a message that is added to it later makes it due again
        if self._due.missing:
            extra = {"slot": time_ms, "messages": self._due.missing}
            log.warning("timed messages are not in the log any more", extra=extra)

    def _warn_of_lost(self, slot: Slot, wanted: int, chain: Chain) -> None:
        """Warn when the timer log has fewer messages of a slot than were added to it."""
        found, time_ms = chain.number, slot.time * self._files.precision_ms
        if slot.first < self._files.log.start:
            # Units of deleted files are not missed: their messages were stored again before (`Renewal`).
            if not chain.physicals:
                log.warning("a slot of the timer wheel has no messages in the timer log", extra={"slot": time_ms})
            return
        if chain.physicals and found >= wanted:
            return
        log.warning(
            "timed messages are not delivered: the timer log is damaged, and has %d of the %d messages of the slot %d; "
            "check the device, look in queue 0 of topic %s for messages whose TIMER_OUT_MS is that slot, and send "
            "those again that did not come",
            found,
            wanted,
            time_ms,
            TIMER_TOPIC,
            extra={"slot": time_ms, "found": found, "counted": wanted},
        )

    async def _read(self, chain: Chain, deleted: Recalled, end_ms: int) -> _Run:
        wanted, recalls = await _divided(chain)
        if self._is_exact:
            wanted = await _by_time(chain, wanted, end_ms)
        deleted |= await self._deleted(chain, recalls)  # also for messages of earlier runs
        return _Run(chain, deleted, wanted, end_ms if self._is_exact else None)

    def _due_ms(self, run: _Run, end_ms: int) -> int:
        """Return when the next message of a run is due: at the end of its slot, or in its own millisecond."""
        exact_ms = run.chain.exact[run.order[run.at]] if self._is_exact else 0
        return min(exact_ms or end_ms, end_ms)

    async def _wait_until(self, time_ms: int) -> None:
        self.added.clear()
        await self.wait(min(max(time_ms - self._clock.now_ms(), 1), LONGEST_WAIT_MS) / 1000)

    async def wait(self, longest_s: float) -> None:
        """Wait until a message is added to the wheel, or for some time."""
        try:
            async with asyncio.timeout(longest_s):
                await self.added.wait()
        except TimeoutError:
            return

    async def _store_some(self, runs: list[tuple[int, int, _Run]], end_ms: int) -> None:
        """Store a portion of the first run."""
        _, number, run = heapq.heappop(runs)
        portion = self._portion(run, end_ms)
        self._is_storing = True
        try:
            await self._store_portion(run, portion)
            self._is_failing = False
        except (DiskError, Overloaded) as error:
            self._is_failing = self._pressure.refusal is None  # a refusal tells itself when it ends
            values = {"slot_ends": end_ms, "reason": str(error)}
            self._failures.warn(log, asyncio.get_running_loop().time(), "timed messages wait", values)
            self._is_storing = False
            await asyncio.sleep(RETRY_S)
        finally:
            self._is_storing = False
        if run.at < len(run.order):
            heapq.heappush(runs, (self._due_ms(run, end_ms), number, run))
        await breathe()

    def _portion(self, run: _Run, end_ms: int) -> list[int]:
        """Return the messages that are stored next: some that are due, or one large one."""
        portion = list(run.order[run.at : run.at + PORTION])
        now_ms, size, sizes = self._clock.now_ms(), 0, run.chain.sizes
        if not self._is_exact and sum([sizes[number] for number in portion]) <= PORTION_BYTES:
            return portion
        for count, number in enumerate(portion):
            size += sizes[number]
            is_later = self._is_exact and min(run.chain.exact[number] or end_ms, end_ms) > now_ms
            if count and (size > PORTION_BYTES or is_later):
                return portion[:count]
        return portion

    async def _deleted(self, chain: Chain, numbers: Sequence[int]) -> Recalled:
        """Return what the recalls of a slot with these numbers take back."""
        places = [chain.physicals[number] for number in numbers], [chain.sizes[number] for number in numbers]
        found: Recalled = set()
        async for span in read_spans(self._store.bytes, self._segment_bytes, *places):
            found.update(one for record in span.records() if record is not None for one in taken_back(record))
        return found

    async def _store_portion(self, run: _Run, portion: list[int]) -> None:
        """Store some messages of a run, or some first ones of them, and count those that are written as stored."""
        files, physicals = self._files, [run.chain.physicals[number] for number in portion]
        # Renewals end soon, and are met seldom.
        while any(files.renewed <= physical < files.renewing for physical in physicals):  # noqa: ASYNC110
            await asyncio.sleep(RENEWED_S)
        is_renewed = physicals[0] < files.renewed
        count = next((at for at, one in enumerate(physicals) if (one < files.renewed) != is_renewed), len(portion))
        if is_renewed:
            run.at += count  # they were stored again for the timers (`Renewal`)
            return
        now_ms = self._clock.now_ms()
        places = physicals[:count], [run.chain.sizes[number] for number in portion[:count]]
        pieces: list[SlotPiece] = []
        async for span in read_spans(self._store.bytes, self._segment_bytes, *places):
            pieces += self._due.pieces(span, portion[span.first : span.last], run.chain, run.deleted, now_ms)
        appended, failure = self._append(pieces)
        for one in appended:
            if one.outcome is not None and (error := await one.outcome) is not None:
                raise error
            run.at += len(one.fates)
            self._due.stored(one.fates, now_ms)
            if one.topic != TIMER_TOPIC:  # messages that go round the wheel once more are counted already
                self._stats.stored(one.topic, one.messages, one.size)
        if failure is not None:
            raise failure

    def _append(self, pieces: list[SlotPiece]) -> tuple[list[_AppendedMessages], FireArrowError | None]:
        """Append messages in order, up to the first failure; return those that were appended, and the failure."""
        appended: list[_AppendedMessages] = []
        if self._pressure.refusal is not None:
            return appended, self._pressure.refusal
        try:
            for piece in pieces:
                self._append_piece(piece, appended)
        except (DiskError, Overloaded) as error:
            return appended, error
        return appended, None

    def _append_piece(self, piece: SlotPiece, appended: list[_AppendedMessages]) -> None:
        if piece.columns is None:
            appended.append(_AppendedMessages(piece.fates))
            return
        envelope, columns = piece.columns
        store = self._store
        queues = {queue_id: store.queues.tail_of(envelope.topic, queue_id) for queue_id in set(columns.queue_ids)}
        tails = [queues[queue_id] for queue_id in columns.queue_ids]
        try:
            places = store.log.append_columns(envelope, tails, columns)
        except IllegalMessage:
            self._append_singly(piece, appended)
        else:
            outcome = outcome_of(store, places.end)
            size = places.end - places.physical_offsets[0]
            appended.append(_AppendedMessages(piece.fates, outcome, envelope.topic, len(tails), size))

    def _append_singly(self, piece: SlotPiece, appended: list[_AppendedMessages]) -> None:
        """Append messages one by one, without those that no record can hold."""
        for draft, fates in piece.drafts():
            try:
                place = self._store.log.append(self._store.queues.tail_of(draft.topic, draft.queue_id), draft)
            except IllegalMessage as error:
                log.exception("a timed message cannot be delivered", extra={"reason": str(error)})
                appended.append(_AppendedMessages(fates))
                continue
            size = place.end - place.physical_offset
            appended.append(_AppendedMessages(fates, outcome_of(self._store, place.end), draft.topic, 1, size))


def _time_within(exact_ms: int, end_ms: int) -> int:
    """Return the time at which a message is delivered in a slot of the coarsest precision; 0 stands for its end."""
    return min(max(exact_ms or end_ms, end_ms - PRECISIONS_MS[-1]), end_ms)


async def _divided(chain: Chain) -> tuple["array[int]", list[int]]:
    """Return the numbers of the messages of a slot that are stored, and those of its recalls. Yields to the loop."""
    wanted = array("i")
    recalls: list[int] = []
    magics = chain.magics
    for first in range(0, len(magics), DIVIDED_AT_ONCE):
        some = range(first, min(first + DIVIDED_AT_ONCE, len(magics)))
        recalls += (is_recall := [number for number in some if magics[number] & (DELETES | ROLLS) == DELETES])
        wanted.extend(some if not is_recall else [n for n in some if magics[n] & (DELETES | ROLLS) != DELETES])
        await breathe()
    return wanted, recalls


async def _by_time(chain: Chain, numbers: Sequence[int], end_ms: int) -> "array[int]":
    """Return the numbers of messages of a slot in the order of their exact times. Yields to the loop.

    A slot has a thousand times at most: each gets an array of its own, and only the times are sorted.
    """
    by_time: dict[int, array[int]] = {}
    for first in range(0, len(numbers), DIVIDED_AT_ONCE):
        for number in numbers[first : first + DIVIDED_AT_ONCE]:
            time_ms = _time_within(chain.exact[number], end_ms)
            if time_ms not in by_time:
                by_time[time_ms] = array("i")
            by_time[time_ms].append(number)
        await breathe()
    order = array("i")
    for time_ms in sorted(by_time):
        order += by_time[time_ms]
    return order
