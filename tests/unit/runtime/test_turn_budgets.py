"""The budgets of shares: parts of a turn, debts, and lines in which keys take turns."""

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from firearrow.runtime.turn import (
    STEP_NS,
    TARGET_NS,
    Share,
    ShareBudget,
    TurnBudgets,
    breathe,
    watch,
)
from firearrow.runtime.turn.budgets import DROPPED_AT_ONCE
from firearrow.testing.sim.loop import SimLoop

MS = 1_000_000
PART_NS = MS
MOST_NS = 4 * MS


class Machine:
    """A loop, and CPU time that work adds to."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.ns = 0

    def work(self, nanoseconds: int) -> None:
        """Take CPU time."""
        self.ns += nanoseconds

    def run(self, main: Callable[["Machine", TurnBudgets], Coroutine[Any, Any, None]]) -> TurnBudgets:
        """Run a coroutine with the budgets of a loop that is not watched."""

        async def begun() -> TurnBudgets:
            budgets = TurnBudgets(lambda: self.ns)
            await main(self, budgets)
            return budgets

        return self.loop.run_until_complete(begun())


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine."""
    machine = Machine()
    yield machine
    machine.loop.close()


def pulls(budgets: TurnBudgets) -> ShareBudget:
    """The budget of a share."""
    return budgets.share(Share.PULL, PART_NS, MOST_NS)


def test_a_share_takes_up_to_its_most_and_has_it_again_in_the_next_turn(machine: Machine) -> None:
    async def main(_machine: Machine, budgets: TurnBudgets) -> None:
        share = pulls(budgets)
        share.spent(MOST_NS - 1)
        assert share.has_time()
        share.spent(1)
        assert not share.has_time()
        await breathe()
        assert share.left_ns == MOST_NS

    machine.run(main)


def test_what_others_have_taken_leaves_a_share_its_part(machine: Machine) -> None:
    async def main(_machine: Machine, budgets: TurnBudgets) -> None:
        share, other = pulls(budgets), budgets.share(Share.FILTER, PART_NS, 2 * TARGET_NS)
        other.spent(TARGET_NS - 2 * MS)
        assert share.left_ns == 2 * MS, "what is left of the turn"
        other.spent(TARGET_NS)
        assert share.left_ns == PART_NS
        share.spent(PART_NS)
        assert not share.has_time()

    machine.run(main)


def test_what_is_charged_elsewhere_counts_as_taken(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share = pulls(budgets)
        assert share.left_ns == MOST_NS
        budgets.turn.run(Share.READ, machine.work, (TARGET_NS,))
        assert share.left_ns == PART_NS
        await breathe()
        assert share.left_ns == MOST_NS

    machine.run(main)


def test_an_overrun_is_deducted_from_the_next_turn_but_never_from_the_part(machine: Machine) -> None:
    async def main(_machine: Machine, budgets: TurnBudgets) -> None:
        share = pulls(budgets)
        share.spent(MOST_NS + MS)
        await breathe()
        assert share.left_ns == MOST_NS - MS
        await breathe()
        assert share.left_ns == MOST_NS
        share.spent(100 * MOST_NS)
        await breathe()
        assert share.left_ns == PART_NS
        await breathe()
        assert share.left_ns == MOST_NS, "a single step does not stop a share for long"

    machine.run(main)


def test_budgets_are_renewed_once_for_each_poll_wherever_somebody_asks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls, run_once = [0], SimLoop._run_once

    def counted(self: SimLoop) -> None:
        polls[0] += 1
        run_once(self)

    monkeypatch.setattr(SimLoop, "_run_once", counted)

    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share, begun = pulls(budgets), list[int]()
        budgets.on_turn.append(lambda: begun.append(polls[0]))
        for _ in range(20):
            machine.loop.call_soon(share.spent, MS)
            machine.loop.call_soon(machine.loop.call_soon, share.spent, MS)
            share.spent(MS)
            await breathe()
        for _ in range(5):
            await breathe()
        assert len(begun) >= 20
        assert begun == list(range(begun[0], begun[0] + len(begun)))

    machine.run(main)


def test_nothing_is_marked_while_nobody_asks(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        turns = list[None]()
        budgets.on_turn.append(lambda: turns.append(None))
        share = pulls(budgets)
        assert share.has_time()
        for _ in range(10):
            await breathe()
        assert len(turns) == 2, "the turn, and the one in which nobody asked"
        assert not machine.loop._ready

    machine.run(main)


def served(machine: Machine, served_by: list[str], name: str, cost_ns: int, share: ShareBudget | None = None) -> bool:
    """Serve one step: by CPU time, or by a price."""
    served_by.append(name)
    if share is None:
        machine.work(cost_ns)
    else:
        share.spent(cost_ns)
    return True


@pytest.mark.parametrize("is_priced", [False, True], ids=["CPU time", "prices, as in a simulation"])
def test_a_line_is_served_for_the_time_of_its_share(is_priced: bool, machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share, order, counts = pulls(budgets), list[str](), list[int]()
        for _ in range(12):
            share.add("key", partial(served, machine, order, "x", MS, share if is_priced else None))
        assert not order, "not in this turn"
        while share.waiting:
            before = len(order)
            await breathe()
            counts.append(len(order) - before)
        assert counts == [4, 4, 4]

    machine.run(main)


def test_steps_without_a_price_end_a_turn_though_no_time_passes(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share, order = pulls(budgets), list[str]()
        for _ in range(1000):
            share.add("key", partial(served, machine, order, "x", 0))
        await breathe()
        assert len(order) == MOST_NS // STEP_NS

    machine.run(main)


def test_owners_take_turns_and_then_their_keys(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share, order = pulls(budgets), list[str]()
        for key, owner in (("a1", "a"), ("a2", "a"), ("b1", "b")):
            for number in range(2):
                share.add(key, partial(served, machine, order, f"{key}.{number}", MS), owner)
        for _ in range(3):
            await breathe()
        assert order == ["a1.0", "b1.0", "a2.0", "b1.1", "a1.1", "a2.1"]

    machine.run(main)


def test_a_step_that_is_not_done_goes_on_before_the_others_of_its_key(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share, order, left = pulls(budgets), list[str](), [3]

        def long() -> bool:
            order.append("long")
            left[0] -= 1
            return left[0] == 0

        share.add("key", long)
        share.add("key", partial(served, machine, order, "short", MS))
        share.add("other", partial(served, machine, order, "other", MS))
        await breathe()
        assert order == ["long", "other", "long", "long", "short"]

    machine.run(main)


def test_the_work_of_a_dropped_key_is_not_done(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share, order = pulls(budgets), list[str]()
        for key in ("gone", "stays"):
            share.add(key, partial(served, machine, order, key, MS), "owner")
        share.drop("gone")
        share.drop("never came")
        await breathe()
        assert order == ["stays"]

    machine.run(main)


def test_a_key_that_is_dropped_while_its_step_runs_is_not_served_again(machine: Machine) -> None:
    async def main(_machine: Machine, budgets: TurnBudgets) -> None:
        share, order = pulls(budgets), list[str]()

        def step(key: str) -> bool:
            order.append(key)
            if order == ["gone"]:
                share.drop("gone")
            return len(order) > 4

        share.add("gone", partial(step, "gone"))
        share.add("stays", partial(step, "stays"))
        for _ in range(3):
            await breathe()
        assert order == ["gone", *["stays"] * 4]

    machine.run(main)


def test_the_work_of_a_dropped_key_is_freed_in_several_turns(machine: Machine) -> None:
    class Kept:
        def __init__(self) -> None:
            left[0] += 1

        def __del__(self) -> None:
            left[0] -= 1

    left = [0]

    async def main(_machine: Machine, budgets: TurnBudgets) -> None:
        share = pulls(budgets)
        for _ in range(2 * DROPPED_AT_ONCE + 1):
            share.add("gone", partial(bool, Kept()))
        counts = []
        share.drop("gone")
        while left[0]:
            counts.append(left[0])
            await breathe()
        assert share.waiting == 0
        assert counts == [DROPPED_AT_ONCE + 1, 1]

    machine.run(main)


def test_a_step_that_fails_keeps_no_others_from_their_turn(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share, other, order = pulls(budgets), budgets.share(Share.FILTER, PART_NS, MOST_NS), list[str]()

        def fail() -> bool:
            raise ValueError

        machine.loop.set_exception_handler(lambda _loop, context: order.append(type(context["exception"]).__name__))
        share.add("bad", fail)
        share.add("good", partial(served, machine, order, "good", MS))
        other.add("other", partial(served, machine, order, "other", MS))
        for _ in range(2):
            await breathe()
        assert order == ["ValueError", "other", "good"]

    machine.run(main)


def test_a_line_that_fails_in_every_turn_keeps_no_others_from_theirs(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        share, other, order = pulls(budgets), budgets.share(Share.FILTER, PART_NS, MOST_NS), list[str]()

        def fail() -> bool:
            raise ValueError

        machine.loop.set_exception_handler(lambda _loop, context: order.append(type(context["exception"]).__name__))
        for _ in range(10):
            share.add("bad", fail)
        other.add("other", partial(served, machine, order, "other", MS))
        for _ in range(2):
            await breathe()
        assert order == ["ValueError", "other", "ValueError"]

    machine.run(main)


def test_a_line_that_is_full_does_not_take_the_part_of_another(machine: Machine) -> None:
    async def main(machine: Machine, budgets: TurnBudgets) -> None:
        greedy, modest = budgets.share(Share.PULL, PART_NS, 2 * TARGET_NS), pulls(budgets)
        order = list[str]()
        for _ in range(100):
            greedy.add("key", partial(served, machine, order, "greedy", MS))
            modest.add("key", partial(served, machine, order, "modest", MS))
        await breathe()
        assert order == ["greedy"] * (TARGET_NS // MS) + ["modest"]

    machine.run(main)


def test_steps_are_charged_to_their_share_of_a_watched_loop(machine: Machine) -> None:
    async def main() -> None:
        budgets = TurnBudgets(lambda: 0)
        share = pulls(budgets)
        share.add("key", partial(served, machine, [], "x", 3 * MS))
        share.add("key", partial(served, machine, [], "x", 2 * MS))
        await breathe()

    with watch(machine.loop, lambda: machine.ns) as turn:
        machine.loop.run_until_complete(main())
    steps = turn.steps(Share.PULL)
    assert steps.total == pytest.approx(0.005)
    assert sum(steps.counts) == 2
