"""Answers that wait for the log: released in bulk, timed out, and refused when their records are taken back."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from firearrow.broker.send.waiting_answers import Acks
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
