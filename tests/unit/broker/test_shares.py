"""Filters and reads tell the watched loop what they took."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from firearrow.broker.pull.filter_budget import FilterClock
from firearrow.remoting.turns import AT_ONCE_FIRST, Turns
from firearrow.runtime.turn import Share, Turn, TurnBudgets, counted, soon, tell_holds, watch
from firearrow.store.recovery.scrub import Scrub
from firearrow.testing.sim.loop import SimLoop

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "turn.md"
MS = 1_000_000


class Connection:
    """A connection that asks for work."""

    address = "10.0.0.1:4711"

    def __init__(self, turns: Turns, work: Callable[[], None]) -> None:
        self.mark, self.is_in_line, self.at_once = turns.mark, False, AT_ONCE_FIRST
        self._turns, self._work = turns, work

    def read(self) -> None:
        """Handle a read, or wait."""
        if self._turns.lets(self):
            self.take_turn()
        else:
            self._turns.wait(self)

    def take_turn(self) -> None:
        """Do the work of one request."""
        self._work()
        self._turns.charge(self, 1)


class Cpu:
    """CPU time that work adds to."""

    def __init__(self) -> None:
        self.ns = 0

    def read(self) -> int:
        """Return the time so far."""
        return self.ns

    def work(self, milliseconds: float) -> None:
        """Take time."""
        self.ns += int(milliseconds * MS)


def watched(main: Callable[[Cpu], Coroutine[Any, Any, None]]) -> Turn:
    """The turn of a loop on which a coroutine ran."""
    cpu, loop = Cpu(), SimLoop()
    try:
        with watch(loop, cpu.read) as turn:
            loop.run_until_complete(main(cpu))
    finally:
        loop.close()
    return turn


def taken_ms(turn: Turn, share: Share) -> float:
    """The CPU time of a share."""
    return round(turn.steps(share).total * 1000, 6)


def test_reads_are_charged_also_those_that_waited_in_the_line() -> None:
    async def main(cpu: Cpu) -> None:
        turns = Turns(TurnBudgets(cpu.read))
        one, other = (Connection(turns, lambda: cpu.work(6)) for _ in range(2))
        one.read()
        other.read()
        assert other.is_in_line
        for _ in range(5):
            await asyncio.sleep(0)
        assert not other.is_in_line

    turn = watched(main)
    assert taken_ms(turn, Share.READ) == 12
    assert turn.charged_ns == 12 * MS


def test_a_filter_within_a_read_is_charged_to_filters_alone() -> None:
    async def main(cpu: Cpu) -> None:
        budgets = TurnBudgets(cpu.read)
        turns, clock = Turns(budgets), FilterClock(budgets)

        def pull() -> None:
            cpu.work(1)
            with clock.compiling("a"):
                cpu.work(2)
            clock.begin()
            cpu.work(3)
            clock.end()

        connection = Connection(turns, pull)
        connection.read()

    turn = watched(main)
    assert taken_ms(turn, Share.FILTER) == 5
    assert taken_ms(turn, Share.READ) == 1


def test_a_compilation_within_a_scan_is_charged_once() -> None:
    async def main(cpu: Cpu) -> None:
        clock = FilterClock(TurnBudgets(cpu.read))
        clock.begin()
        with clock.compiling("a"):
            cpu.work(5)
        cpu.work(1)
        assert clock.end() == 6 * MS
        clock.begin()
        cpu.work(2)
        clock.end()

    assert taken_ms(watched(main), Share.FILTER) == 8


def test_a_read_behind_other_work_of_the_turn_is_charged_for_itself_alone() -> None:
    async def main(cpu: Cpu) -> None:
        turns = Turns(TurnBudgets(cpu.read))
        first, resumed, last = (Connection(turns, partial(cpu.work, 0.1)) for _ in range(3))

        def resume() -> None:
            cpu.work(3)
            resumed.read()

        tell_holds()
        first.read()
        cpu.work(30)  # a callback that belongs to no share
        last.read()
        soon(Share.CONNECTION, resume)
        for _ in range(5):
            await asyncio.sleep(0)

    turn = watched(main)
    assert taken_ms(turn, Share.READ) == 0.3
    assert taken_ms(turn, Share.CONNECTION) == 3
    assert turn.holds == [0] * len(Share)


def test_the_scrub_takes_a_twentieth_of_a_busy_loop_at_any_rate() -> None:
    class Machine(Cpu):
        def work(self, milliseconds: float) -> None:
            super().work(milliseconds)
            loop.now += milliseconds / 1000

    class Pieces(Scrub):
        async def step(self) -> int:
            cpu.work(2)
            return 1 << 20

    async def serve() -> None:
        while True:
            cpu.work(0.5)
            await asyncio.sleep(0)

    async def main() -> None:
        scrub = Pieces.__new__(Pieces)
        scrub._rate = 1 << 34
        busy = [
            asyncio.get_running_loop().create_task(one) for one in (serve(), counted(Share.BACKGROUND, scrub.run()))
        ]
        await asyncio.sleep(20)
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)

    loop = SimLoop()
    cpu = Machine()
    try:
        with watch(loop, cpu.read) as turn:
            loop.run_until_complete(main())
    finally:
        loop.close()
    assert 0.02 < turn.steps(Share.BACKGROUND).total / 20 < 0.06


def test_the_page_of_the_turn_has_every_share() -> None:
    text = PAGE.read_text()
    table = text[text.index("## The shares") :].split("\n\n")[1]
    rows = [line.split("|")[1].strip(" `") for line in table.splitlines()[2:]]
    assert rows == [share.label for share in Share]
