"""Faults that a review found, put back: the scenarios of this directory must see each of them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from firearrow.broker.handlers.message.pull import PullHandlers
from firearrow.broker.lanes import Lane, Lanes
from firearrow.broker.pull.backlog import BacklogLine
from firearrow.broker.pull.long_poll import ParkedPull
from firearrow.broker.transaction import checks
from firearrow.broker.transaction.checks import Checks
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.handlers import Call
from firearrow.runtime.turn import ShareBudget
from tests.integration.broker.test_checks import ask_beside_silent_groups
from tests.integration.broker.test_hostile_pulls import (
    leave_while_waiting,
    pipeline_without_reading,
    read_in_vain,
    wait_beside_a_producer,
    wake_a_herd,
)
from tests.integration.broker.test_lanes import ask_beside_lookups, leave_lookups_behind, read_beside_hung_syncs
from tests.integration.broker.test_long_polls import poll_for_no_time

pytestmark = [pytest.mark.real, pytest.mark.complaints("")]  # faults may complain

Plant = Callable[[pytest.MonkeyPatch], None]
ATTEMPTS = 10


def timer_asked_when(patch: pytest.MonkeyPatch) -> None:
    """A23: a handle of the loop is asked when it is due."""

    def set_timer(self: PullHandlers) -> None:
        deadline_ms = self.parked.next_deadline_ms
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer.when() <= deadline_ms / 1000:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(deadline_ms / 1000, self._expire, deadline_ms)

    patch.setattr(PullHandlers, "_set_timer", set_timer)


def answers_without_room(patch: pytest.MonkeyPatch) -> None:
    """A4: everything that was read is answered before anything is written, however much that is."""
    patch.setattr(ConnectionDriver, "_is_full", lambda _self: False)
    patch.setattr(BacklogLine, "is_full", False)


def waiting_in_the_shared_budget(patch: pytest.MonkeyPatch) -> None:
    """A5: pulls that wait count among requests that keep everybody from being read."""
    patch.setattr(Call, "hold", Call.later)


def forgotten_disconnect(patch: pytest.MonkeyPatch) -> None:
    """A5: pulls stay after their connection has ended."""
    patch.setattr(PullHandlers, "disconnected", lambda _self, _peer: None)


def unguarded_wake(patch: pytest.MonkeyPatch) -> None:
    """A17: an exception of one pull that woke ends the turn of all."""

    def serve(self: PullHandlers, parked: ParkedPull[Any], made: Any) -> int:
        answer = self._late_answer(parked, made)
        if answer is not None:
            parked.ticket.later.answer(answer)
        return 0

    patch.setattr(PullHandlers, "_serve", serve)


def herd_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    """D8: everybody who woke is served in one turn."""
    patch.setattr(ShareBudget, "left_ns", 1)


def one_line_of_jobs(patch: pytest.MonkeyPatch) -> None:
    """F1: all clients stand in one line, and a job keeps its place until it is done."""
    line_up, everybody = Lane.add, object()

    def add(self: Lane, work: Any, *, is_begun: bool = False) -> None:
        work.peer = work.owner = everybody
        line_up(self, work, is_begun=is_begun)

    patch.setattr(Lane, "add", add)
    patch.setattr(Lanes, "give_way", lambda _self: asyncio.sleep(0))


def jobs_of_the_gone(patch: pytest.MonkeyPatch) -> None:
    """F1: jobs of a connection that has ended are carried out."""
    patch.setattr(Lanes, "disconnected", lambda _self, _peer: None)
    patch.setattr(Lanes, "give_way", lambda _self: asyncio.sleep(0))


def one_lane_of_jobs(patch: pytest.MonkeyPatch) -> None:
    """F1: reads, lookups and waits for syncs share 32 places."""
    begin = Lanes.__init__

    def share(self: Lanes) -> None:
        begin(self)
        lane = Lane(32)
        lane._most_of_owner = 32
        self._lanes.update(dict.fromkeys(self._lanes, lane))

    patch.setattr(Lanes, "__init__", share)
    patch.setattr(Lane, "take", take_whatever)


def silent_groups_in_turn(patch: pytest.MonkeyPatch) -> None:
    """F2: a round of questions waits for every group that does not read, one after the other."""

    async def wait_for_each(self: Checks, _most_s: float) -> None:
        for _ in self._aside:
            await asyncio.sleep(checks.READ_WAIT_S)

    patch.setattr(Checks, "_ask_aside", wait_for_each)


def take_whatever(self: Lane) -> Any:
    """Take the next job while a place is free, whoever has the others."""
    first = self._line.next()
    return None if first is None or self._running >= self._places else self._start(*first)


PLANTED: dict[Plant, Callable[[], Coroutine[Any, Any, None]]] = {
    timer_asked_when: poll_for_no_time,
    answers_without_room: pipeline_without_reading,
    waiting_in_the_shared_budget: wait_beside_a_producer,
    forgotten_disconnect: leave_while_waiting,
    unguarded_wake: read_in_vain,
    herd_in_one_turn: wake_a_herd,
    one_line_of_jobs: ask_beside_lookups,
    jobs_of_the_gone: leave_lookups_behind,
    one_lane_of_jobs: read_beside_hung_syncs,
    silent_groups_in_turn: ask_beside_silent_groups,
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_seen(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, pytest.raises((AssertionError, TimeoutError)):
        runner.run(_within(PLANTED[plant]))


async def _within(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario until it sees the fault: one that depends on a timer does not see it every time."""
    for _ in range(ATTEMPTS):
        async with asyncio.timeout(30):
            await scenario()
