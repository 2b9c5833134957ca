"""Pulls in turns: connections take turns, and simulated brokers divide theirs as all do."""

import asyncio
from typing import Any

import pytest

from firearrow.broker.pull.backlog import PULL_BYTES
from firearrow.broker.pull.filter_budget import FilterClock
from firearrow.broker.pull.long_poll import ParkedPull
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.broker.pull.pull_reader import Made
from firearrow.broker.pull.woken import WokenPulls
from firearrow.remoting.turns import Turns
from firearrow.runtime.turn import NS_A_BYTE, TARGET_NS, Share, ShareBudget, TurnBudgets, breathe
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SimBroker, SimClient, simulate, until
from tests.unit.broker.test_shares import Connection, Cpu

MS = 1_000_000
SLICE_NS = 4 * PULL_BYTES * NS_A_BYTE
HERD = 300


class Served:
    """Woken pulls, of which a turn serves four, and the names of those that were served."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.budgets = TurnBudgets(lambda: 0)
        self.clock = FilterClock(self.budgets)
        pulls = self.budgets.share(Share.PULL, SLICE_NS, SLICE_NS)
        self.line = WokenPulls(pulls, self.clock.share, self._serve, lambda parked: parked.ticket[0])

    def _serve(self, parked: ParkedPull[str], _made: Made) -> int:
        self.names.append(parked.ticket)
        return 0

    def wake(self, *names: str, wanted: MessageFilter | None = None) -> None:
        """Wake pulls, each of a host (the letter of its name) and a connection (with the digit behind it)."""
        self.line.add([ParkedPull(("T", 0), 0, wanted, name, 0, name[:2], 0, 0) for name in names])


def test_a_connection_with_many_pulls_does_not_keep_others_waiting() -> None:
    async def scenario() -> None:
        served = Served()
        served.wake(*(f"a1.{number}" for number in range(100)), *(f"a2.{number}" for number in range(100)), "b1.0")
        await breathe()
        assert served.names == ["a1.0", "b1.0", "a2.0", "a1.1"]

    asyncio.run(scenario())


def test_pulls_of_a_connection_that_ended_take_no_turn() -> None:
    async def scenario() -> None:
        served = Served()
        served.wake("a1.0", "a1.1", "b1.0")
        served.wake("a1.2", "b1.1", wanted=MessageFilter())
        served.line.drop("a1")
        await breathe()
        assert served.names == ["b1.0", "b1.1"]

    asyncio.run(scenario())


def test_what_was_read_for_woken_pulls_is_not_kept_behind_the_last_of_them() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        pulls: Any = broker.consuming.pulls
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(client.pull(0)) for _ in range(3)]
        await until(lambda: len(pulls.parked) == 3)
        broker.put(b"x" * 1000)
        await asyncio.gather(*waiting)
        assert not pulls._woken._made

    simulate(scenario)


def test_filters_leave_a_turn_to_reads_that_have_taken_much_of_it() -> None:
    async def scenario() -> None:
        cpu = Cpu()
        budgets = TurnBudgets(cpu.read)
        turns, clock = Turns(budgets), FilterClock(budgets)

        def left_ms() -> float:
            clock.begin()
            began = cpu.ns
            while not clock.is_over:
                cpu.work(0.25)
            left, cpu.ns = cpu.ns - began, began
            return left / MS

        assert left_ms() == pytest.approx(clock.share.most_ns / MS, abs=0.3)
        Connection(turns, lambda: cpu.work(TARGET_NS / MS)).read()
        assert left_ms() == pytest.approx(clock.share.part_ns / MS, abs=0.3)
        await breathe()
        assert left_ms() == pytest.approx(clock.share.most_ns / MS, abs=0.3)

    asyncio.run(scenario())


def test_a_simulated_broker_serves_a_herd_in_slices_though_no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[int] = []
    serve = ShareBudget.serve

    def counted(self: ShareBudget) -> None:
        before = self.waiting
        serve(self)
        slices.append(before - self.waiting)

    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(client.pull(0)) for _ in range(HERD)]
        await until(lambda: len(broker.consuming.pulls.parked) == HERD)
        monkeypatch.setattr(ShareBudget, "serve", counted)
        broker.put(b"x" * 1000)
        await asyncio.gather(*waiting)

    simulate(scenario)
    assert sum(slices) == HERD
    assert max(slices) <= 64


def test_woken_pulls_do_not_take_the_bytes_of_pulls_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[tuple[int, bool]] = []
    serve = ShareBudget.serve

    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        pulls: Any = broker.consuming.pulls

        def noting(self: ShareBudget) -> None:
            before = self.waiting
            serve(self)
            slices.append((before - self.waiting, pulls._backlogs.is_full))

        await client.heartbeat()
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(client.pull(0)) for _ in range(HERD)]
        await until(lambda: len(pulls.parked) == HERD)
        monkeypatch.setattr(ShareBudget, "serve", noting)
        pulls.recall_all()
        await asyncio.gather(*waiting)

    simulate(scenario)
    assert max(served for served, _ in slices) > HERD // 8
    assert not any(is_full for _, is_full in slices)
