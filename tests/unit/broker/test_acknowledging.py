"""Answers that wait for the log: released in bulk, timed out, and refused when their records are taken back."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from firearrow.broker.gate.waiting_answers import Acks
from firearrow.errors import DiskFull, FireArrowError, StoreFenced
from firearrow.remoting.handlers import Answer
from firearrow.store.log.waiters import OnReached, Waiters
from firearrow.store.placement import FLUSHED, WRITTEN, Level
from firearrow.testing.sim.loop import SimLoop


class FakeLog:
    """A log that goes as far as it is told."""

    def __init__(self) -> None:
        self.handed = self.written = self.flushed = 0
        self.fenced: FireArrowError | None = None
        self.asked = 0
        self._waiters = (Waiters(), Waiters())

    def on_reached(self, offset: int, level: Level, call: OnReached) -> None:
        self.asked += 1
        self._waiters[level].add(offset, call)

    def write(self, offset: int) -> None:
        self.handed = self.written = offset
        self._waiters[WRITTEN].reached(offset)

    def flush(self, offset: int) -> None:
        self.flushed = offset
        self._waiters[FLUSHED].reached(offset)

    def fail(self, error: FireArrowError) -> None:
        for waiters in self._waiters:
            for call in waiters.take(above=-1 if self.fenced else self.handed):
                call(error)


class FakeLater:
    """Remembers what it was answered."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def answer(self, answer: Answer | None = None) -> bool:
        if not self.codes:
            self.codes.append((answer or Answer()).code)
        return True


def refusal(_error: FireArrowError) -> Answer:
    return Answer(code=14)


def add(acks: Acks, end: int) -> FakeLater:
    later = FakeLater()
    acks.add(end, later, Answer())
    return later


def test_one_call_of_the_log_releases_everybody() -> None:
    log = FakeLog()
    acks = Acks(log, WRITTEN, refusal)
    laters = [add(acks, end) for end in range(10, 110, 10)]
    assert log.asked == 1
    log.write(100)
    assert [later.codes for later in laters] == [[0]] * 10
    assert len(acks) == 0


def test_nobody_is_released_early() -> None:
    log = FakeLog()
    acks = Acks(log, FLUSHED, refusal)
    first = add(acks, 10)
    log.write(10)
    second = add(acks, 20)
    log.flush(10)
    assert (first.codes, second.codes) == ([0], [])
    log.write(20)
    log.flush(20)
    assert second.codes == [0]


def test_what_is_taken_back_is_refused_and_what_was_handed_over_is_not() -> None:
    log = FakeLog()
    acks = Acks(log, FLUSHED, refusal)
    kept = add(acks, 10)
    log.write(10)
    lost = [add(acks, 20), add(acks, 30)]
    log.fail(DiskFull("no space"))
    assert kept.codes == []
    assert [later.codes for later in lost] == [[14], [14]]
    again = add(acks, 20)
    log.write(20)
    log.flush(20)
    assert (kept.codes, again.codes) == ([0], [0])


def test_a_fenced_log_refuses_what_it_did_not_hand_to_the_disk_and_knows_nothing_of_the_rest() -> None:
    log = FakeLog()
    acks = Acks(log, FLUSHED, refusal)
    handed = add(acks, 10)
    log.write(10)
    pending = add(acks, 20)
    log.fenced = StoreFenced("sync failed")
    log.fail(log.fenced)
    assert (handed.codes, pending.codes) == ([10], [14])
    assert len(acks) == 0


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


def test_a_sync_that_takes_too_long_is_answered_so_once() -> None:
    async def scenario() -> None:
        log = FakeLog()
        acks = Acks(log, FLUSHED, refusal, lambda: 5000)
        first = add(acks, 10)
        await asyncio.sleep(3)
        second = add(acks, 20)
        await asyncio.sleep(2.1)
        assert (first.codes, second.codes) == ([10], [])
        log.write(20)
        log.flush(20)
        assert (first.codes, second.codes) == ([10], [0])
        await asyncio.sleep(10)
        third = add(acks, 30)
        await asyncio.sleep(5.1)
        assert third.codes == [10]

    in_virtual_time(scenario())


class CountedLater(FakeLater):
    """Counts how often it was answered, in all."""

    answers = 0

    def answer(self, answer: Answer | None = None) -> bool:
        CountedLater.answers += 1
        return super().answer(answer)


def wait_for_a_hung_sync() -> None:
    """The disk syncs nothing while sends come one by one, each with a deadline of its own."""

    async def scenario() -> None:
        CountedLater.answers = 0
        log = FakeLog()
        acks = Acks(log, FLUSHED, refusal, lambda: 1000)
        longest, laters = 0, []
        for number in range(1, 3001):
            laters.append(CountedLater())
            acks.add(number * 10, laters[-1], Answer())
            log.write(number * 10)
            longest = max(longest, len(acks))
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.1)
        assert longest <= 102, "late answers stay in the line"
        assert len(acks) == 0
        assert CountedLater.answers == 3000, "late answers are walked over again and again"
        assert {code for later in laters for code in later.codes} == {10}
        log.flush(30_000)
        after = add(acks, 30_010)
        log.write(30_010)
        log.flush(30_010)
        assert after.codes == [0]

    in_virtual_time(scenario())


def test_a_hung_sync_costs_each_answer_once_and_keeps_the_line_short() -> None:
    wait_for_a_hung_sync()


def test_a_record_behind_late_ones_is_still_refused_when_it_is_taken_back() -> None:
    async def scenario() -> None:
        log = FakeLog()
        acks = Acks(log, FLUSHED, refusal, lambda: 1000)
        late = add(acks, 10)
        log.write(10)
        await asyncio.sleep(1.1)
        lost = add(acks, 20)
        log.fail(DiskFull("no space"))
        assert (late.codes, lost.codes) == ([10], [14])

    in_virtual_time(scenario())
