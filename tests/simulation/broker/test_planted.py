"""The random clusters find what they are for: each planted bug is caught within a few seeds."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from firearrow.broker.delivery import retry
from firearrow.broker.delivery.schedule import DelayedDelivery, DueDelivery
from firearrow.broker.gate.gate import Gate
from firearrow.broker.gate.waiting_answers import Acks
from firearrow.broker.handlers.message import return_message as sendback
from firearrow.broker.pull import checks as pullchecks
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.timer.dequeue import Dequeue
from firearrow.broker.timer.renewal import Renewal
from firearrow.broker.transaction import checks
from firearrow.broker.transaction.half import renewed
from firearrow.broker.transaction.journal import Journal
from firearrow.errors import FireArrowError
from firearrow.model.flags import COMMIT, TRANSACTION_MASK
from firearrow.protocol.sends import SEND_CODES
from firearrow.record.encode import Draft
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Later, ManyLater
from firearrow.runtime.clock import Clock
from firearrow.store import retention
from firearrow.store.deletion import NO_FLOORS, Floors
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.placement import WRITTEN, AppendPosition
from firearrow.store.timer.timer_log import TimerLog
from tests.simulation.broker.chaos import Options, run_chaos

SEEDS = 25
HARD = Options(
    flush="SYNC_FLUSH",
    name_servers=1,
    brokers=1,
    producers=2,
    consumers=1,
    queues=2,
    power=True,
    faultless=False,
    steps=8,
    step_s=1.0,
    latency_s=0.0005,
    sync_s=0.1,
    menu="machines",
)

CRASHING = replace(HARD, steps=16, kinds=("crash",))
UNDECIDED = replace(HARD, transactions=3)
EXPIRING = replace(UNDECIDED, expires=True, kinds=("expire", "crash_transactions", "bounce"))

TIMED = replace(HARD, timed=0.5, sync_s=0.02, step_s=3.0, kinds=("crash", "crash", "restart"))
STEPPED = replace(TIMED, kinds=("step_clock",))
TIMED_AND_EXPIRING = replace(HARD, expires=True, timed=0.6, steps=12, kinds=("expire", "expire", "bounce"))

Plant = Callable[[pytest.MonkeyPatch], None]


def answers_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    made = Acks.__init__

    def init(self: Acks, log: Any, _level: Any, *rest: Any, **named: Any) -> None:
        made(self, log, WRITTEN, *rest, **named)

    patch.setattr(Acks, "__init__", init)


def shows_messages_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    made = CommitLog.__init__

    def init(self: CommitLog, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        self._dispatches_written = True

    patch.setattr(CommitLog, "__init__", init)


def commits_one_too_many(patch: pytest.MonkeyPatch) -> None:
    commit = OffsetTable.commit
    patch.setattr(OffsetTable, "commit", lambda self, g, t, q, offset: commit(self, g, t, q, offset + 1))


def tries_once_too_often(patch: pytest.MonkeyPatch) -> None:
    most = retry.most_attempts
    patch.setattr(sendback, "most_attempts", lambda *arguments: most(*arguments) + 1)


def delivers_early(patch: pytest.MonkeyPatch) -> None:
    async def at_once(_self: DelayedDelivery, _first: DueDelivery, _level: int) -> int:
        return 0

    patch.setattr(DelayedDelivery, "_until", at_once)


def answers_a_send_back_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    placed = Gate.placed

    def answer(
        self: Gate, call: Call | ManyLater, end: int, answer: Answer = SUCCESS, *more: Any, **named: Any
    ) -> Answer | Later:
        if isinstance(call, ManyLater) or call.asked.heading.code in SEND_CODES:
            return placed(self, call, end, answer, *more, **named)
        later = call.later()
        self.written.add(end, later, answer)
        return later

    patch.setattr(Gate, "placed", answer)


def filters_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pullchecks, "wanted_codes", lambda _subscription: None)


def notes_the_end_before_the_message_is_durable(patch: pytest.MonkeyPatch) -> None:
    append = Journal.append

    def late(self: Journal, draft: Draft, **named: Any) -> Any:
        if draft.sys_flag & TRANSACTION_MASK != COMMIT:
            return append(self, draft, **named)

        def now() -> None:
            with suppress(FireArrowError):  # the store may be closed
                append(self, draft, **named)

        asyncio.get_running_loop().call_later(0.2, now)
        return AppendPosition(self.tail, 0, self.tail, 0)

    patch.setattr(Journal, "append", late)


def forgets_how_often_it_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checks, "renewed", lambda record, _checks: renewed(record, 0))


def deletes_pending_half_messages(patch: pytest.MonkeyPatch) -> None:
    async def at_once(_self: checks.Checks, _physical: int) -> None:
        return

    patch.setattr(checks.Checks, "renew_below", at_once)


def moves_the_wheel_ahead_of_its_log(patch: pytest.MonkeyPatch) -> None:
    async def not_synced(self: TimerLog) -> None:
        self.synced = self.end

    patch.setattr(TimerLog, "sync", not_synced)


def deletes_pending_timers(patch: pytest.MonkeyPatch) -> None:
    async def at_once(_self: Renewal, _physical: int) -> None:
        return

    patch.setattr(Renewal, "renew_below", at_once)


def deletes_ahead_of_the_marks_of_lakes(patch: pytest.MonkeyPatch) -> None:
    async def none_lacked(*_arguments: Any) -> Floors:
        return NO_FLOORS

    patch.setattr(retention, "floors", none_lacked)


class _NeverBack:
    """A clock that does not see that it was set back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest_ms = 0

    def now_ms(self) -> int:
        self._latest_ms = max(self._latest_ms, self._clock.now_ms())
        return self._latest_ms

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def ticks(self) -> int:
        return self._clock.ticks()

    def cpu_ns(self) -> int:
        return self._clock.cpu_ns()


def delivers_early_after_a_step_of_the_clock(patch: pytest.MonkeyPatch) -> None:
    made = Dequeue.__init__

    def init(self: Dequeue, *arguments: Any, **more: Any) -> None:
        made(self, *arguments, **more)
        self._clock = self._slots._clock = _NeverBack(self._clock)

    patch.setattr(Dequeue, "__init__", init)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (answers_before_the_sync, "I1"),
        (shows_messages_before_the_sync, "I4|I8"),
        (commits_one_too_many, "I"),
        (tries_once_too_often, "I12"),
        (delivers_early, "I11"),
        (filters_nothing, "I2"),
    ],
)
def test_a_planted_bug_is_caught(plant: Plant, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=rule):
        run_some()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("plant", "rule", "options"),
    [
        (answers_a_send_back_before_the_sync, "I12", CRASHING),
        (notes_the_end_before_the_message_is_durable, "I10", UNDECIDED),
        (forgets_how_often_it_asked, "I10", UNDECIDED),
        (deletes_pending_half_messages, "I10", EXPIRING),
        (moves_the_wheel_ahead_of_its_log, "I11", TIMED),
        (deletes_ahead_of_the_marks_of_lakes, "I22", EXPIRING),
        (deletes_pending_timers, "I11", TIMED_AND_EXPIRING),
        (delivers_early_after_a_step_of_the_clock, "I11.*early", STEPPED),
    ],
)
def test_a_planted_bug_is_caught_by_its_own_faults(
    plant: Plant, rule: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=rule):
        run_some(options)


def run_some(options: Options = HARD) -> None:
    for seed in range(SEEDS):
        run_chaos(seed, options)
