"""Sends that come too late are refused, whoever else is there; and the broker looks for itself where clients would."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firearrow.broker.send.admission import (
    BURST_PART,
    CALM_PARTS,
    FIRST_GUESS_S,
    LOOK_EVERY,
    MOST_S,
    PACE_PART,
    READ_PART,
    TURN_PART,
    Admission,
)
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.broker.settings.live import LiveSettings
from firearrow.runtime.turn import TurnBudgets
from firearrow.testing.sim.loop import SimLoop
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import Client, Simulated, settings_of

LIMIT_S = 0.2
CHEAPEST_S = 5e-6
"""Less than what 16,000 sends in the tenth of a second make of the first guess, after which costs are learned."""


def _hold_the_loop(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    loop.now += seconds


def run(work: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


def sends_that_fit(admission: Admission) -> int:
    """The number of sends that a turn takes before the first is late."""
    taken = 0
    while not admission.is_late():
        taken += 1
    return taken


def test_a_turn_takes_what_it_has_time_for() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        assert sends_that_fit(admission) == int(LIMIT_S * BURST_PART / FIRST_GUESS_S)
        assert admission.is_shut()
        refusal = admission.refusal
        assert refusal.code == 2
        assert refusal.remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")
        assert "period in queue: 100ms" in refusal.remark
        assert admission.refusal is refusal
        admission.refused_some(2)
        assert admission.refused == 2

    run(scenario())


def test_what_waited_through_a_long_turn_is_late_sooner() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        admission.is_late()
        _hold_the_loop(0.19)
        await asyncio.sleep(0)
        assert 0 < sends_that_fit(admission) <= round((LIMIT_S - 0.19) / FIRST_GUESS_S)

    run(scenario())


def test_writing_and_answering_after_the_last_read_are_part_of_the_turn() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        admission.is_late()
        asyncio.get_running_loop().call_soon(_hold_the_loop, 0.3)
        await asyncio.sleep(0)
        assert sends_that_fit(admission) == 0

    run(scenario())


def test_when_there_is_nothing_to_read_after_a_turn_nobody_has_waited() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        admission.is_late()
        asyncio.get_running_loop().call_soon(_hold_the_loop, 0.3)
        for _ in range(3):
            await asyncio.sleep(0)
        assert sends_that_fit(admission) == int(LIMIT_S * BURST_PART / FIRST_GUESS_S)

    run(scenario())


def test_a_rest_between_turns_lets_everybody_in() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        sends_that_fit(admission)
        await asyncio.sleep(0.5)
        assert not admission.is_late()

    run(scenario())


def test_it_is_behind_for_a_while_after_there_was_no_time() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        assert not admission.is_behind()
        sends_that_fit(admission)
        assert admission.is_shut()
        await asyncio.sleep(LIMIT_S / 2)
        assert not admission.is_shut()
        assert admission.is_behind()
        await asyncio.sleep(LIMIT_S)
        assert not admission.is_behind()

    run(scenario())


async def press(admission: Admission) -> None:
    """Turn after turn, without a rest of the loop, for longer than a send may wait."""
    for _ in range(6):
        admission.is_late()
        _hold_the_loop(LIMIT_S / 5)
        await asyncio.sleep(0)


def test_a_pressed_broker_takes_sends_for_a_part_of_their_time() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        await press(admission)
        assert admission.is_behind()
        assert sends_that_fit(admission) == int(LIMIT_S * TURN_PART / FIRST_GUESS_S)
        await asyncio.sleep(0.01)
        assert not admission.is_behind()

    run(scenario())


def test_a_turn_that_takes_longer_than_expected_is_shut_in_time() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        read_s, reads = 1e-3, 0
        while not admission.is_shut():
            _hold_the_loop(read_s)
            reads += 1
        expected = LIMIT_S * BURST_PART / read_s
        assert expected <= reads <= expected + LOOK_EVERY / READ_PART
        assert reads * READ_PART < LIMIT_S * BURST_PART / FIRST_GUESS_S, "the guess alone would have let more in"

    run(scenario())


def test_the_writing_after_the_reads_is_expected_of_the_next_turn() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        for _ in range(50):  # turns whose reads take 5 ms, and what follows them 15
            for _ in range(500):
                admission.is_shut()
            _hold_the_loop(0.005)
            asyncio.get_running_loop().call_soon(_hold_the_loop, 0.015)
            await asyncio.sleep(1)
        read_s, reads = 0.005 / 500, 0
        while not admission.is_shut():
            _hold_the_loop(read_s)
            reads += 1
        assert reads == pytest.approx(LIMIT_S * BURST_PART / (0.02 / 500), rel=0.1)

    run(scenario())


def test_a_broker_stays_pressed_until_it_had_time_for_everybody_for_a_while() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        await press(admission)
        sends_that_fit(admission)
        assert admission.is_shut()
        await asyncio.sleep(LIMIT_S * (CALM_PARTS - 1))
        pressed = sends_that_fit(admission)
        await asyncio.sleep(LIMIT_S * 2)
        assert sends_that_fit(admission) == pytest.approx(pressed * BURST_PART / TURN_PART, abs=2)

    run(scenario())


def test_who_is_served_is_left_alone_only_while_a_pressed_broker_refuses() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        sends_that_fit(admission)
        assert admission.is_shut()
        assert admission.pace_s == 0
        await asyncio.sleep(2 * LIMIT_S)
        await press(admission)
        assert not admission.is_shut()
        assert admission.pace_s == 0
        sends_that_fit(admission)
        assert admission.is_shut()
        assert admission.pace_s == LIMIT_S * PACE_PART
        await asyncio.sleep(LIMIT_S / 2)
        assert not admission.is_shut()
        assert admission.pace_s == LIMIT_S * PACE_PART, "a rest of the loop may be of our own making"
        await asyncio.sleep(LIMIT_S)
        assert not admission.is_shut()
        assert admission.pace_s == 0

    run(scenario())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 16_000), st.floats(0, 0.5)), min_size=1, max_size=12))
def test_no_turn_takes_more_than_its_part_nor_what_has_waited_for_too_long(turns: list[tuple[int, float]]) -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        waited_s = busy_s = 0.0
        for sends, held_s in turns:
            taken = sum(not admission.is_late() for _ in range(sends))
            assert taken <= LIMIT_S * (TURN_PART if busy_s > LIMIT_S else BURST_PART) / CHEAPEST_S
            assert taken <= max(LIMIT_S - waited_s, 0.0) / CHEAPEST_S
            assert taken > 0 or LIMIT_S - waited_s <= MOST_S
            _hold_the_loop(held_s)
            await asyncio.sleep(0)
            waited_s = held_s
            busy_s += held_s

    run(scenario())


def test_the_cost_of_a_send_is_learned() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()), TurnBudgets())
        for _ in range(20):
            for _ in range(1000):
                admission.is_late()
            _hold_the_loop(0.1)
            await asyncio.sleep(1)
        assert sends_that_fit(admission) == pytest.approx(2000 * BURST_PART, rel=0.05)

    run(scenario())


def test_it_can_be_switched_off_while_running() -> None:
    async def scenario() -> None:
        live = LiveSettings(BrokerSettings())
        admission = Admission(live, TurnBudgets())
        sends_that_fit(admission)
        live.replace(replace(live.value, broker=replace(live.broker, broker_fast_failure_enable=False)))
        assert not admission.is_late()

    run(scenario())


@pytest.mark.parametrize("is_right", [True, False])
def test_a_wrong_address_is_told_in_plain_words(is_right: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        node = world.node("broker")
        elsewhere = world.node("elsewhere")
        config = BrokerConfig(broker_name="broker-a", broker_ip1=node.host if is_right else elsewhere.host)
        broker = Simulated(node, settings_of(config))
        await broker.start()
        await asyncio.sleep(5)
        await Client(world.node("client"), broker.address).send()
        await broker.node.stop()

    with caplog.at_level(logging.WARNING):
        World(1).run(scenario)
    assert ("clients may not reach this broker" in caplog.text) is not is_right
