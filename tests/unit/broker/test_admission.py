"""Sends that come too late are refused, whoever else is there; and the broker looks for itself where clients would."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.admission import GAP_NS, Admission
from firearrow.broker.config import BrokerConfig, BrokerSettings
from firearrow.broker.live import LiveSettings
from firearrow.testing.sim.loop import SimLoop
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import Client, Simulated, settings_of

MS = 1_000_000


class Ticks:
    """Time inside a turn, as far as it is told."""

    def __init__(self) -> None:
        self.now = 1_000 * MS

    def __call__(self) -> int:
        return self.now


def run(work: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


def test_what_waited_through_two_long_turns_is_late() -> None:
    async def scenario() -> None:
        ticks = Ticks()
        admission = Admission(ticks, LiveSettings(BrokerSettings()))
        assert not admission.is_late()
        ticks.now += 150 * MS
        assert not admission.is_late()
        await asyncio.sleep(0)
        assert not admission.is_late()
        ticks.now += 60 * MS
        assert admission.is_late()
        refusal = admission.refusal()
        assert refusal.code == 2
        assert refusal.remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")
        assert "period in queue: 210ms" in refusal.remark
        assert admission.refused == 1

    run(scenario())


def test_a_rest_between_turns_lets_everybody_in() -> None:
    async def scenario() -> None:
        ticks = Ticks()
        admission = Admission(ticks, LiveSettings(BrokerSettings()))
        admission.is_late()
        ticks.now += 500 * MS
        assert admission.is_late()
        await asyncio.sleep(0)
        ticks.now += GAP_NS
        assert not admission.is_late()

    run(scenario())


def test_it_can_be_switched_off_while_running() -> None:
    async def scenario() -> None:
        ticks = Ticks()
        live = LiveSettings(BrokerSettings())
        admission = Admission(ticks, live)
        admission.is_late()
        ticks.now += 500 * MS
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
