"""Filters share turns of the loop with everybody else: many of the heaviest kind, and what groups are charged."""

import asyncio
import gc
import time
import tracemalloc
import zlib
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any

import pytest

from firearrow.broker.handlers.message.pull import _weight
from firearrow.broker.pull.filters import Filters
from firearrow.broker.pull.long_poll import TAG_BYTES
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.broker.statistics import counters
from firearrow.model import EpochMs
from firearrow.model.flags import COMPRESSED
from firearrow.protocol.codes import ResponseCode
from firearrow.record.encode import Draft
from firearrow.record.properties import encode_properties
from firearrow.runtime.clock import elapsed_ms
from firearrow.runtime.turn import TurnBudgets
from firearrow.testing.sim.clock import SimClock
from firearrow.testing.sim.loop import SimLoop
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import HOST, SUBSCRIPTION, SUSPEND, SimBroker, SimClient, simulate, until
from tests.unit.broker.test_filters import bodies
from tests.yardstick import least_s, steady_s

NEEDLE = "a" * 48 + "b" + "a" * 50
NUMBERS = ",".join(["1"] * 90)
HEAVY = {
    "SQL92": "b = '{}' OR ok = '1' OR " + " OR ".join([f"a CONTAINS '{NEEDLE}'"] * 150),
    "CEL": f"('ok' in properties) || ([{NUMBERS}].all(x, [{NUMBERS}].all(y, x + y > 0)) && tag == '{{}}')",
}
CARRIED: dict[str, Any] = {"flags": SUBSCRIPTION | SUSPEND}
LONGEST_TURN_S = 0.1


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Real CPU time for filters, and the CPU seconds of every turn of the loop, without those of the garbage collector.

    The collector's time grows with the objects that tests before this one have left.
    """
    taken: list[float] = []
    run_once = SimLoop._run_once

    def timed(self: SimLoop) -> None:
        begun = time.thread_time()
        run_once(self)
        taken.append(time.thread_time() - begun)

    monkeypatch.setattr(SimLoop, "_run_once", timed)
    monkeypatch.setattr(SimClock, "cpu_ns", lambda _self: time.thread_time_ns())
    gc.disable()
    yield taken
    gc.enable()


def longest_turn_s(
    scenario: Callable[[World, SimBroker, SimClient], Coroutine[Any, Any, None]], turns: list[float]
) -> float:
    simulate(scenario)
    return max(turns)


async def until_found(client: SimClient, offset: int = 0, **how: Any) -> list[bytes]:
    """Pull as a consumer does, until messages come."""
    while True:
        reply = await client.pull(offset, **how)
        if reply.body:
            return bodies(reply.body)
        offset = reply.answer.next_begin_offset


@pytest.mark.complaints("has no verdict")
@pytest.mark.parametrize(("kind", "many"), [("SQL92", 20), ("CEL", 200)])
def test_many_heavy_filters_hold_no_turn_and_lose_no_message(kind: str, many: int, turns: list[float]) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        texts = [HEAVY[kind].format(number) for number in range(many)]
        waiting = []
        for text in texts:
            how: dict[str, Any] = {**CARRIED, "expression_type": kind, "subscription": text}
            waiting.append(asyncio.create_task(until_found(client, **how)))
        await until(lambda: len(broker.consuming.pulls.parked) == many)
        turns.clear()
        broker.put(b"unwanted", a="a" * 29_900)
        broker.put(b"wanted", ok="1")
        assert await asyncio.gather(*waiting) == [[b"wanted"]] * many

    assert least_s(lambda: longest_turn_s(scenario, turns), LONGEST_TURN_S) < LONGEST_TURN_S


def test_many_pulls_of_one_turn_are_served_in_several(turns: list[float]) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for number in range(3):
            broker.put(b"unwanted", a=f"{number}" + "a" * 20_000)
        broker.put(b"wanted", ok="1")
        how: dict[str, Any] = {
            "flags": SUBSCRIPTION,
            "expression_type": "SQL92",
            "subscription": HEAVY["SQL92"].format(0),
        }
        await client.pull(3, **how)  # compiled
        turns.clear()
        found = await asyncio.gather(*[until_found(client, 0, **how) for _ in range(8)])
        assert found == [[b"wanted"]] * 8

    assert least_s(lambda: longest_turn_s(scenario, turns), LONGEST_TURN_S) < LONGEST_TURN_S


def test_a_verdict_does_not_depend_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(0, 10**9)
    monkeypatch.setattr(SimClock, "cpu_ns", lambda _self: next(seconds))
    monkeypatch.setattr(SimClock, "ticks", lambda _self: next(seconds))

    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for number in range(100):
            broker.put(b"%d" % number, ok="1", a="x" * 10_000)
        for kind in HEAVY:
            how: dict[str, Any] = {
                "flags": SUBSCRIPTION,
                "expression_type": kind,
                "subscription": HEAVY[kind].format(0),
            }
            offset, found = 0, 0
            while offset < 100:
                reply = await client.pull(offset, **how)
                found += len(bodies(reply.body))
                assert reply.answer.next_begin_offset > offset
                offset = reply.answer.next_begin_offset
            assert found == 100, "a slow machine ends scans early, but lets the same messages pass"

    simulate(scenario)


async def counted(broker: SimBroker, name: str, key: str) -> int:
    await broker.assembly.stats.sample(elapsed_ms())
    kind, which = counters.STATISTICS[name]
    counts = broker.assembly.stats._families[kind].of(key)
    return counts.size if which else counts.messages


@pytest.mark.parametrize(("kind", "text"), [("CEL", "properties.a == '1'"), ("SQL92", "a = '1'")])
def test_the_cost_of_a_carried_filter_is_that_of_the_group_that_asked(kind: str, text: str) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        await client.heartbeat("h")
        how: dict[str, Any] = {"expression_type": kind, "subscription": text}
        waiting = asyncio.create_task(client.pull(0, group="g", **CARRIED, **how))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        for _ in range(20):
            broker.put(b"x", a="2")
        await client.pull(19, group="h", flags=SUBSCRIPTION, **how)
        assert await counted(broker, counters.GROUP_FILTER_JUDGED_NUMS, "T@h") == 1
        assert await counted(broker, counters.GROUP_FILTER_STEPS, "T@g") > 20, "arrivals are judged for the parked pull"
        assert await counted(broker, counters.GROUP_FILTER_JUDGED_NUMS, "T@g") == 0, "and counted when it looks"
        broker.put(b"x", a="1")
        await waiting
        assert await counted(broker, counters.GROUP_FILTER_JUDGED_NUMS, "T@g") == 21
        assert await counted(broker, counters.GROUP_FILTER_JUDGED_NUMS, "T@h") == 1

    simulate(scenario)


@pytest.mark.complaints("has no verdict")
def test_messages_without_a_verdict_of_sql_are_counted() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        broker.put(b"x", a="a" * 29_900)
        how: dict[str, Any] = {
            "flags": SUBSCRIPTION,
            "expression_type": "SQL92",
            "subscription": HEAVY["SQL92"].format(0),
        }
        reply = await client.pull(0, **how)
        assert (reply.code, reply.answer.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 1)
        assert await counted(broker, counters.GROUP_FILTER_ERROR_NUMS, "T@g") == 1

    simulate(scenario)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("SQL92", "a IN (" + ",".join(f"'{number:026d}'" for number in range(1000)) + ")"),
        ("SQL92", "a = '" + "x" * 30_000 + "'"),
        ("SQL92", " OR ".join(["a"] * 900)),
        ("SQL92", "a > 1"),
        ("CEL", "tag in [" + ",".join(f"'{number:03d}'" for number in range(900)) + "]"),
        ("CEL", "tag == 'x'"),
    ],
)
def test_a_parked_filter_counts_about_the_memory_that_it_takes(kind: str, text: str) -> None:
    async def scenario() -> None:
        filters = Filters(TurnBudgets(lambda: 0))
        filters._compiled(kind, "a = 'warm'" if kind == "SQL92" else "tag == 'warm'")
        tracemalloc.start()
        found = filters._compiled(kind, text + " ")
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(found, MessageFilter)
        counts = 1024 + _weight(found) * TAG_BYTES
        assert held / 1.5 < counts < held * 15

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [("SQL92", "a = 'old'", "a = 'new'"), ("TAG", "old", "new"), ("CEL", "tag == ''", "tag != ''")],
)
def test_a_new_expression_reaches_parked_pulls(kind: str, old: str, new: str) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        parked = broker.consuming.pulls.parked
        await client.heartbeat(tags=old, expression_type=kind)
        await client.heartbeat("other", tags=old, expression_type=kind)
        others = asyncio.create_task(client.pull(0, group="other"))
        waiting = asyncio.create_task(client.pull(0))
        await until(lambda: len(parked) == 2)
        await client.heartbeat(tags=old, expression_type=kind, version=2)
        await client.heartbeat(tags=new, expression_type=kind, version=2)
        await asyncio.sleep(1)
        assert len(parked) == 2, "the expression or the version is not new"
        broker.put(b"x", a="new", TAGS="new")
        await asyncio.sleep(1)
        assert not waiting.done()
        begun = asyncio.get_running_loop().time()
        await client.heartbeat(tags=new, expression_type=kind, version=3)
        assert bodies((await waiting).body) == [b"x"], "a message that came before the new expression is not missed"
        assert asyncio.get_running_loop().time() - begun < 1
        assert not others.done(), "pulls of other groups go on waiting"
        others.cancel()

    simulate(scenario)


@pytest.mark.complaints("has no verdict")
def test_bodies_that_stand_for_longer_ones_end_a_scan_in_time(turns: list[float]) -> None:
    bomb = zlib.compress(bytes(16 << 20), 9)

    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        for _ in range(20):
            stored = encode_properties({})
            broker.store.append(Draft("T", 0, bomb, stored, EpochMs(1), HOST, HOST, 0, COMPRESSED))
        how: dict[str, Any] = {**CARRIED, "flags": SUBSCRIPTION, "expression_type": "CEL", "subscription": "body.a > 1"}
        await client.pull(0, **how)  # compiles
        turns.clear()
        reply = await client.pull(0, **how)
        looked_at, taken = reply.answer.next_begin_offset, max(turns)
        assert 0 < looked_at < 20
        assert steady_s(taken, LONGEST_TURN_S) < LONGEST_TURN_S

    simulate(scenario, pulls=PullConfig(max_filter_micros_of_pull=1, max_filter_body_bytes=1 << 20))
