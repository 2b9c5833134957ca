"""Faults that reviews found in transactions, timers and filters, put back one at a time and hunted by their tests.

Each is what the tree did before it was mended, or the nearest to that which the mended tree can still be made to do. No
seed is drawn here: one run of the test sees the fault or does not.
"""

import functools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from firearrow.broker.pull import filters
from firearrow.broker.pull.filter_budget import FilterClock
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.broker.pull.woken import WokenPulls
from firearrow.broker.timer import due_messages, enqueue
from firearrow.broker.timer.dequeue import Dequeue
from firearrow.broker.timer.due_messages import DueMessages, Recalled
from firearrow.broker.timer.enqueue import Enqueue
from firearrow.broker.timer.records import TimedRecord, delivered, timed_record
from firearrow.broker.transaction import decisions, resumption
from firearrow.broker.transaction.checks import Checks
from firearrow.broker.transaction.ends import EndRequests
from firearrow.broker.transaction.half_record import HalfRecord
from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Ledger, Outcome
from firearrow.broker.transaction.producers import ConnectedProducers
from firearrow.broker.transaction.slice import Slice
from firearrow.client.producer.delivery import Delivery
from firearrow.expression.errors import BadExpression
from firearrow.expression.program import MeteredProperties
from firearrow.model import keys
from firearrow.record.decode import peek
from firearrow.store import keepers
from firearrow.store.read.lookup import IsWanted
from firearrow.store.timer import chain, recovery
from firearrow.store.timer.files import TimerFiles
from firearrow.store.timer.layout import SlotTime
from firearrow.store.timer.wheel import Wheel
from tests.simulation.client import test_producer
from tests.simulation.partplants import PartPlant
from tests.unit.broker import (
    test_filter_bounds,
    test_filter_lines,
    test_filters,
    test_strange_timers,
    test_timer_recalls,
    test_transaction_faults,
    test_transaction_once,
    test_transactions,
)
from tests.unit.expression import test_sql
from tests.unit.store.timer import test_files as test_timer_files

# ---- transactions


def forgets_that_writes_failed(patch: pytest.MonkeyPatch) -> None:
    """Half messages whose end was undone with a failed write count as ended."""
    patch.setattr(Slice, "failed", lambda _self, _error: None)


def confirms_an_end_that_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """The second of two equal ends is answered with success while the first may still fail."""
    patch.setattr(Ledger, "is_announced", lambda _self, _offset: False)


def counts_questions_that_were_not_sent(patch: pytest.MonkeyPatch) -> None:
    """The counter of a half message is raised whether its producer reads or not."""
    renew = Checks._renew

    def counting(self: Checks, *arguments: Any, **named: Any) -> Any:
        self._unasked = set()
        return renew(self, *arguments, **named)

    patch.setattr(Checks, "_renew", counting)


def asks_the_same_member_for_ever(patch: pytest.MonkeyPatch) -> None:
    """All questions go to the member of a group that came first."""
    members = ConnectedProducers._members
    patch.setattr(ConnectedProducers, "_members", lambda self, group, _turn: members(self, group, 0))


def forgets_first_offsets_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """After a start a transaction is known by the offset of its last question alone."""

    async def pending_of(self: Journal, record: HalfRecord) -> int:
        return self.ledger.now_at(record.head.queue_offset)

    patch.setattr(Journal, "pending_of", pending_of)


def ends_whatever_is_at_the_place(patch: pytest.MonkeyPatch) -> None:
    """A request ends the transaction at its offsets, whichever transaction it names."""
    patch.setattr(decisions, "_names_another", lambda _request, _unique: False)


def stores_a_commit_again_whose_op_message_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks for the final message before a question or a repeated commit."""

    async def never(_self: Journal, _record: HalfRecord) -> bool:
        return False

    patch.setattr(Journal, "has_final", never)


def keeps_a_full_disk_full(patch: pytest.MonkeyPatch) -> None:
    """No file is deleted while its half messages cannot be written again, for ever."""
    patch.setattr(keepers, "SHORTAGES", 1 << 60)


def writes_half_messages_again_without_end(patch: pytest.MonkeyPatch) -> None:
    """Files that are not expired are deleted although most of their bytes must be written again."""

    async def blind(_self: keepers.Keepers, _files: Any, wanted: int) -> keepers.DeletionWorth:
        return keepers.DeletionWorth(wanted, 0, Counter())

    patch.setattr(keepers.Keepers, "worth", blind)


def resumes_the_record_that_is_named(patch: pytest.MonkeyPatch) -> None:
    """A resumption writes the record of its id again, wherever its transaction is by now."""

    async def as_named(_journal: Journal, record: HalfRecord) -> tuple[HalfRecord, int]:
        return record, record.head.queue_offset

    patch.setattr(resumption, "_present", as_named)


def looks_at_the_newest_messages_with_a_key(patch: pytest.MonkeyPatch) -> None:
    """Eight later messages with the key of a transaction hide its records."""

    async def newest(self: Journal, topic: str, record: HalfRecord, since_ms: int, is_wanted: IsWanted) -> Any:
        found = await self._store.lookups.by_key(topic, record.unique_key, 8, since_ms, self._clock.now_ms())
        return next((peek(one) for one in found.records if is_wanted(one, peek(one))), None)

    patch.setattr(Journal, "_newest", newest)


def keeps_no_rollback_of_what_was_given_up(patch: pytest.MonkeyPatch) -> None:
    """The rollback of a transaction that was given up is answered with success, and changes nothing."""
    end = EndRequests._end

    def forgetful(self: EndRequests, work: Slice, one: Any, record: Any) -> int | None:
        outcome = self._journal.ledger.outcome_at(self._journal.ledger.now_at(one.request.tran_state_table_offset))
        if outcome is Outcome.GIVEN_UP and one.outcome is Outcome.ROLLED_BACK:
            one.answer(None)
            return None
        return end(self, work, one, record)

    patch.setattr(EndRequests, "_end", forgetful)


def resumes_what_was_rolled_back_before_a_restart(patch: pytest.MonkeyPatch) -> None:
    """The op message of a rollback does not name its transaction."""
    patch.setattr(Journal, "name_rollback", lambda _self, _offset, _record: None)


# ---- timers


def ends_at_a_strange_message(patch: pytest.MonkeyPatch) -> None:
    """Texts of ``isdigit`` are taken for numbers, and an error ends the task of the timers."""

    def number(text: str | None, _most: int = 0) -> int | None:
        return int(text) if text and text.isdigit() else None

    def timed(self: Enqueue, head: Any, buffer: Any) -> Any:
        return enqueue._timed(timed_record(head, buffer), self._files)

    patch.setattr(enqueue, "whole_number", number)
    patch.setattr(Enqueue, "_timed", timed)


def delivers_overdue_messages_at_once(patch: pytest.MonkeyPatch) -> None:
    """A message whose slot is over when it is read goes past the wheel, in which its recall would find it."""
    timed = Enqueue._timed

    def past_the_wheel(self: Enqueue, head: Any, buffer: Any) -> Any:
        found, now_ms = timed(self, head, buffer), self._clock.now_ms()
        if found is None or found.due_ms >= self._files.floor(now_ms):
            return found
        draft = None if found.deletes else delivered(timed_record(head, buffer), 0, now_ms)
        if draft is not None:
            self._store.append(draft)
        return None

    patch.setattr(Enqueue, "_timed", past_the_wheel)


def delivers_before_the_queue_is_read(patch: pytest.MonkeyPatch) -> None:
    """An overdue slot is delivered while the recall of its message is still in the queue."""

    async def at_once(_self: Dequeue) -> None:
        return

    patch.setattr(Dequeue, "_queue_read", at_once)


def recalls_by_key_alone(patch: pytest.MonkeyPatch) -> None:
    """A recall takes back every message with its key, of whatever topic."""

    def is_recalled(record: TimedRecord, recalled: Recalled) -> bool:
        return record.value(keys.UNIQ_KEY) in {key for _, key in recalled}

    patch.setattr(due_messages, "is_recalled", is_recalled)


def counts_recalls_as_messages(patch: pytest.MonkeyPatch) -> None:
    """The slot of a recall takes it from the counts as well, although it was never added to them."""
    one_by_one = DueMessages._one_by_one

    def twice(self: DueMessages, span: Any, numbers: Any, chain: Any, deleted: Recalled, now_ms: int) -> Any:
        for topic, _key in deleted:
            self._counts.change(topic, -1, now_ms)
        return one_by_one(self, span, numbers, chain, deleted, now_ms)

    patch.setattr(DueMessages, "_one_by_one", twice)


def forgets_counts_of_the_last_flush(patch: pytest.MonkeyPatch) -> None:
    """Messages that are in the wheel's log already when the queue is read again after a kill are not counted."""
    count = Enqueue._count

    def only_new(self: Enqueue, timed: Any, now_ms: int) -> None:
        if timed.physical not in self._files.in_log:
            count(self, timed, now_ms)

    patch.setattr(Enqueue, "_count", only_new)


def asks_for_the_version_without_a_deadline(patch: pytest.MonkeyPatch) -> None:
    """A timed send asks a broker for its version as long as a heartbeat may take."""
    check_timers = Delivery._check_timers

    async def patient(self: Delivery, instance: Any, queue: Any, address: Any, _timeout_ms: float) -> None:
        await check_timers(self, instance, queue, address, 3000)

    patch.setattr(Delivery, "_check_timers", patient)


def waits_for_a_place_that_is_taken(patch: pytest.MonkeyPatch) -> None:
    """A message waits, and all others behind it, until the place of its slot is free."""

    def span(self: TimerFiles, due_ms: int, now_ms: int) -> SlotTime | None:
        own = self.own_span(due_ms, now_ms)
        return own if self.wheel.occupant_ms(own.due_ms) in (None, own.due_ms) else None

    patch.setattr(TimerFiles, "span", span)


def takes_slots_as_they_are_named(patch: pytest.MonkeyPatch) -> None:
    """A message of a coarser precision is delivered in the finer slot that begins at the same time."""
    patch.setattr(enqueue, "due_slot_ms", lambda _record, out_ms, precision_ms: out_ms - out_ms % precision_ms)
    patch.setattr(due_messages, "is_early", lambda _record, _precision_ms, _now_ms: False)


def gives_broken_chains_up(patch: pytest.MonkeyPatch) -> None:
    """A slot ends where its chain of units is broken; nobody looks for the rest."""

    async def nothing(*_arguments: Any) -> None:
        return

    patch.setattr(chain, "_search", nothing)


def believes_half_written_slots(patch: pytest.MonkeyPatch) -> None:
    """A unit since the checkpoint counts as known when its slot names a later place, and broken chains are given up."""

    def lay(wheel: Wheel, _counted: Any, due_ms: int, position: int, *, is_new: bool, deletes: bool) -> bool:
        del is_new
        slot = wheel.get(due_ms)
        if slot is not None and position <= slot.last:
            return False
        wheel.add(due_ms, position, deletes=deletes)
        return True

    patch.setattr(recovery, "_lay", lay)
    gives_broken_chains_up(patch)


# ---- filters


def scans_without_end(patch: pytest.MonkeyPatch) -> None:
    """A scan by SQL92 goes on to the end of what was read, however long that takes."""
    patch.setattr(FilterClock, "is_over", False)


def searches_long_values_without_end(patch: pytest.MonkeyPatch) -> None:
    """Steps through long values are counted and have no limit."""

    def charge(self: MeteredProperties, steps: int) -> None:
        self.steps += steps

    patch.setattr(MeteredProperties, "charge", charge)


def serves_pulls_as_they_come(patch: pytest.MonkeyPatch) -> None:
    """Pulls without a filter stand in the line of those that wait for filters."""

    def add(self: WokenPulls[Any], woken: Iterable[Any]) -> None:
        for parked in woken:
            self._filters.add(parked.owner, functools.partial(self._serve_one, self._filters, parked))

    patch.setattr(WokenPulls, "add", add)


def remembers_every_filter(patch: pytest.MonkeyPatch) -> None:
    """Filters are remembered by the length of their texts alone, and short texts are many."""
    patch.setattr(filters, "CHARACTERS_OF_ENTRY", 0)


def remembers_the_parser_of_a_refused_filter(patch: pytest.MonkeyPatch) -> None:
    """The error of an expression is remembered with its traceback, which holds every token."""

    def compiled(compiler: Callable[[str], MessageFilter], _kind: str, text: str) -> MessageFilter | BadExpression:
        try:
            return compiler(text)
        except BadExpression as bad:
            return bad

    patch.setattr(filters, "_compile", compiled)


# ---- the tests


def _patching(test: Callable[..., None], *arguments: Any) -> Callable[[], None]:
    def hunt() -> None:
        with pytest.MonkeyPatch.context() as patch:
            test(*arguments, patch)

    return hunt


def _in_a_directory(test: Callable[[Path], None]) -> Callable[[], None]:
    def hunt() -> None:
        with tempfile.TemporaryDirectory() as directory:
            test(Path(directory))

    return hunt


_with = functools.partial
ends_in_time: Final = test_filter_bounds.test_a_scan_ends_when_its_time_is_used_up_and_the_next_goes_on_behind
STRANGE: Final = {"TIMER_OUT_MS": "\u00b2", "REAL_TOPIC": "T", "REAL_QID": "0"}

MESSAGE_PLANTS: Final = (
    PartPlant(
        "T1", "ends undone by a failed write count as ended", forgets_that_writes_failed,
        test_transaction_faults.test_commits_answered_with_success_are_stored_although_a_write_fails, "range",
    ),
    PartPlant(
        "T2", "success before the end is kept", confirms_an_end_that_is_not_kept,
        _with(test_transaction_faults.test_a_repeated_commit_is_not_confirmed_before_the_first_is_kept, True), "again",
    ),
    PartPlant(
        "T3", "questions that were not sent are counted", counts_questions_that_were_not_sent,
        test_transaction_faults.test_a_question_that_could_not_be_sent_is_not_counted, "firsts",
    ),
    PartPlant(
        "T4", "one silent member answers for its group", asks_the_same_member_for_ever,
        _with(test_transaction_faults.test_another_member_is_asked_the_next_time, "mute"), "TimeoutError",
    ),
    PartPlant(
        "T5", "an end under the first offset is refused after a restart", forgets_first_offsets_at_a_restart,
        test_transaction_faults.test_an_end_under_the_first_offset_after_a_restart_and_again_after_another, "over",
    ),
    PartPlant(
        "T6", "an end for a lost half message ends another one", ends_whatever_is_at_the_place,
        _with(test_transaction_faults.test_an_end_that_names_another_transaction_is_refused, "order-{}"), "RAISE",
    ),
    PartPlant(
        "T7", "a commit is stored again when its op message is lost", stores_a_commit_again_whose_op_message_is_lost,
        _patching(test_transactions.test_a_commit_whose_op_message_was_lost_is_not_stored_again, "check"), "once",
    ),
    PartPlant(
        "T8", "a disk full of half messages stays full", keeps_a_full_disk_full,
        test_transaction_faults.test_a_full_disk_is_freed_although_a_half_is_pending, "< 5",
    ),
    PartPlant(
        "T9", "pending half messages are written again without end", writes_half_messages_again_without_end,
        test_transaction_faults.test_pending_halves_are_not_rewritten_without_end, "6_000_000",
    ),
    PartPlant(
        "T10", "a resumption doubles a pending half message", resumes_the_record_that_is_named,
        test_transaction_faults.test_resuming_the_first_place_of_a_pending_half_does_not_double_it, "RAISE",
    ),
    PartPlant(
        "T11", "eight messages hide a final message", looks_at_the_newest_messages_with_a_key,
        _patching(test_transaction_once.test_a_final_message_is_seen_behind_others_with_its_key, "producer"), "hello",
    ),
    PartPlant(
        "T12", "a rollback of what was given up is not kept", keeps_no_rollback_of_what_was_given_up,
        _with(test_transaction_once.test_a_given_up_transaction_is_rolled_back_once, False), "RAISE",
    ),
    PartPlant(
        "T13", "a rollback is resumed after a restart", resumes_what_was_rolled_back_before_a_restart,
        _with(test_transaction_once.test_a_resumed_transaction_that_was_rolled_back_stays_so, "answer"), "RAISE",
    ),
    PartPlant(
        "M1", "a message with a strange time stops the timers", ends_at_a_strange_message,
        _with(test_strange_timers.test_a_strange_message_of_the_timers_queue_stops_no_timers, STRANGE), "not within",
    ),
    PartPlant(
        "M2", "a recall behind an overdue message comes too late", delivers_overdue_messages_at_once,
        test_timer_recalls.test_a_recall_holds_over_a_power_loss_past_the_due_time, "== \\[\\]",
    ),
    PartPlant(
        "M8", "a slot does not wait for the recalls in the queue", delivers_before_the_queue_is_read,
        test_timer_recalls.test_a_recall_far_behind_its_message_in_the_queue_holds_past_the_due_time, "gone",
    ),
    PartPlant(
        "M3", "a recall takes a message of another topic", recalls_by_key_alone,
        test_timer_recalls.test_a_recall_of_one_topic_takes_no_message_of_another, "not within",
    ),
    PartPlant(
        "M4", "a taken place of the wheel holds up all timers", waits_for_a_place_that_is_taken,
        test_strange_timers.test_a_place_of_the_wheel_that_another_time_has_holds_up_no_timers, "not within",
    ),
    PartPlant(
        "M5", "a finer precision makes messages early", takes_slots_as_they_are_named,
        test_strange_timers.test_a_change_of_precision_makes_no_message_early, "store_timestamp",
    ),
    PartPlant(
        "M6", "a slot behind a lost unit is lost", gives_broken_chains_up,
        _in_a_directory(test_timer_files.test_a_slot_that_names_a_unit_of_another_time_is_not_followed), "tomorrow",
    ),
    PartPlant(
        "M7", "a slot that 5.5.0 was writing is believed", believes_half_written_slots,
        _in_a_directory(test_timer_files.test_a_slot_that_5_5_0_was_writing_when_killed), "of 80 left",
    ),
    PartPlant(
        "M9", "a recall is subtracted from the counts twice", counts_recalls_as_messages,
        test_timer_recalls.test_a_message_that_was_taken_back_is_counted_once, "not within|== 5",
    ),
    PartPlant(
        "M10", "a kill makes the counts forget messages", forgets_counts_of_the_last_flush,
        test_timer_recalls.test_counts_go_on_after_a_kill, "not within",
    ),
    PartPlant(
        "M11", "a timed send outlives its deadline", asks_for_the_version_without_a_deadline,
        test_producer.test_a_timed_send_to_a_broker_that_hangs_keeps_its_deadline_and_says_that_nothing_was_sent,
        "< 0.4",
    ),
    PartPlant(
        "F1", "a scan by SQL92 has no end", scans_without_end,
        _with(ends_in_time, "SQL92", False), "scans > 1",
    ),
    PartPlant(
        "F2", "searches through long values have no end", searches_long_values_without_end,
        test_sql.test_searches_through_long_values_end_without_a_verdict, "steps",
    ),
    PartPlant(
        "F3", "short texts fill the memory", remembers_every_filter,
        test_filters.test_invented_types_and_short_texts_do_not_fill_the_memory, "_remembered",
    ),
    PartPlant(
        "F4", "a refused filter keeps its parser in memory", remembers_the_parser_of_a_refused_filter,
        test_filters.test_a_refused_expression_is_remembered_without_its_traceback, "traceback",
    ),
    PartPlant(
        "F5", "plain pulls wait behind filters", serves_pulls_as_they_come,
        test_filter_lines.test_pulls_without_a_filter_do_not_wait_for_filters, "served",
    ),
)  # fmt: skip
