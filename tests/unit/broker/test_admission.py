"""Sends that come too late are refused, whoever else is there; and the broker looks for itself where clients would."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.admission import FIRST_GUESS_S, Admission
from firearrow.broker.config import BrokerConfig, BrokerSettings
from firearrow.broker.live import LiveSettings
from firearrow.testing.sim.loop import SimLoop
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import Client, Simulated, settings_of

LIMIT_S = 0.2


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
    """How many sends a turn takes before the first is late."""
    taken = 0
    while not admission.is_late():
        taken += 1
    return taken


def test_a_turn_takes_what_it_has_time_for() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()))
        assert sends_that_fit(admission) == round(LIMIT_S / FIRST_GUESS_S)
        assert admission.is_shut()
        refusal = admission.refusal
        assert refusal.code == 2
        assert refusal.remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")
        assert "period in queue: 200ms" in refusal.remark
        assert admission.refusal is refusal
        admission.refused_some(2)
        assert admission.refused == 2

    run(scenario())


def test_what_waited_through_a_long_turn_is_late_sooner() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()))
        admission.is_late()
        _hold_the_loop(0.15)
        await asyncio.sleep(0)
        assert 0 < sends_that_fit(admission) <= round((LIMIT_S - 0.15) / FIRST_GUESS_S)

    run(scenario())


def test_a_rest_between_turns_lets_everybody_in() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()))
        sends_that_fit(admission)
        await asyncio.sleep(0.5)
        assert not admission.is_late()

    run(scenario())


def test_it_remembers_for_a_while_that_there_was_no_time() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()))
        assert not admission.was_shut()
        sends_that_fit(admission)
        assert admission.is_shut()
        await asyncio.sleep(LIMIT_S / 2)
        assert not admission.is_shut()
        assert admission.was_shut()
        await asyncio.sleep(LIMIT_S)
        assert not admission.was_shut()

    run(scenario())


def test_the_cost_of_a_send_is_learned() -> None:
    async def scenario() -> None:
        admission = Admission(LiveSettings(BrokerSettings()))
        for _ in range(20):
            for _ in range(1000):
                admission.is_late()
            _hold_the_loop(0.1)
            await asyncio.sleep(1)
        assert sends_that_fit(admission) == pytest.approx(2000, rel=0.05)

    run(scenario())


def test_it_can_be_switched_off_while_running() -> None:
    async def scenario() -> None:
        live = LiveSettings(BrokerSettings())
        admission = Admission(live)
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
