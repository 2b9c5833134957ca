"""Pulls of backlogs beside sends: served once each, in order, behind the sends, a bounded share a turn."""

import asyncio
from contextlib import closing
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.broker.pull.backlog import AHEAD_OF_SENDS, PULL_BYTES, BacklogLine, share
from firearrow.remoting.handlers import Answer, Call, Later
from firearrow.runtime.network import Address
from firearrow.runtime.turn import Share, TurnBudgets
from firearrow.testing.sim.loop import SimLoop

LEAST = 48 << 10
TURNS = st.lists(st.tuples(st.integers(0, 1 << 20), st.lists(st.integers(0, 256 << 10), max_size=9)), max_size=12)


class FakeLog:
    """A log that knows how much of it is written."""

    def __init__(self) -> None:
        self.tail = self.written = 0

    def write_pending(self) -> None:
        self.written = self.tail


class FakeCall:
    """A pull, and what it was answered."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.is_owed = True
        self.peer = self
        self.address = Address("10.0.0.1", 1)

    def later(self) -> Later:
        return cast("Later", self)

    def answer(self, answer: Answer) -> bool:
        self.sizes.append(len(answer.body))
        return True


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 30))
def test_a_share_is_never_less_than_its_floor_and_readers_outrun_senders(appended: int, least: int) -> None:
    assert share(appended, least) >= least
    assert share(appended, least) >= appended * AHEAD_OF_SENDS


@settings(max_examples=100)
@given(TURNS)
def test_a_line_is_served_in_order_and_by_shares(turns: list[tuple[int, list[int]]]) -> None:
    log = FakeLog()
    served: list[tuple[int, int]] = []
    in_turn: list[int] = []
    calls: list[FakeCall] = []

    def hand_out(pull: tuple[int, int], _call: Call) -> Answer:
        assert log.written == log.tail
        served.append(pull)
        in_turn.append(pull[1])
        return Answer(body=bytes(pull[1]))

    async def scenario() -> None:
        budgets = TurnBudgets(lambda: 0)
        line = BacklogLine(budgets, budgets.share(Share.PULL, 1, 1), log, hand_out, LEAST)
        debt = 0
        for appended, sizes in turns:
            log.tail += appended
            for size in sizes:
                if line.is_open:
                    calls.append(FakeCall())
                    line.add((len(calls), size), cast("Call", calls[-1]))
            room = share(log.tail - log.written, LEAST) - (debt if log.tail != log.written else 0)
            while len(line):
                in_turn.clear()
                await asyncio.sleep(0)
                costs = [PULL_BYTES + size for size in in_turn]
                assert bool(costs) == (room > 0)
                assert sum(costs[:-1]) < max(room, 1)
                debt = max(sum(costs) - room, 0)
                room = LEAST  # no more sends come: what was too much before is forgotten
        assert not line.is_open or log.tail != log.written

    with closing(SimLoop()) as loop:
        loop.run_until_complete(scenario())
    assert [number for number, _ in served] == list(range(1, len(calls) + 1))
    assert [call.sizes for call in calls] == [[size] for _, size in served]
