"""The pulls that wait for filters; every message is counted once."""

import asyncio
from typing import Any

import pytest

from firearrow.broker.pull.filter_budget import FilterClock
from firearrow.broker.pull.long_poll import ParkedPull, Wanted
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.broker.pull.pull_reader import Made, PullReader
from firearrow.broker.pull.woken import WokenPulls
from firearrow.broker.statistics import counters
from firearrow.protocol.codes import ResponseCode
from firearrow.runtime.turn import Share, TurnBudgets, breathe
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SUBSCRIPTION, SimBroker, SimClient, simulate, until
from tests.unit.broker.test_filter_turns import CARRIED, HEAVY, LONGEST_TURN_S, counted, turns, until_found
from tests.unit.broker.test_filters import bodies, check, code_of
from tests.yardstick import steady_s

__all__ = ["turns"]

SQL: dict[str, Any] = {"expression_type": "SQL92"}
NEW_TEXTS = 60


def test_pulls_without_a_filter_do_not_wait_for_filters() -> None:
    async def scenario() -> None:
        now = [0]
        served: list[str] = []

        def serve(parked: ParkedPull[str], _made: Made) -> int:
            served.append(parked.ticket)
            return 0

        budgets = TurnBudgets(lambda: now[0])
        clock, pulls = FilterClock(budgets), budgets.share(Share.PULL, 1_000_000, 1_000_000)
        line = WokenPulls(pulls, clock.share, serve, lambda _parked: None)

        def filter_once() -> None:
            if not served:
                clock.begin()
                now[0] += clock.share.most_ns
                clock.end()

        budgets.on_turn.append(filter_once)
        wants: dict[str, Wanted] = {"filter": MessageFilter(), "all": None, "tags": frozenset({1})}
        line.add([ParkedPull(("T", 0), 0, wanted, name, 0, name, 0, 0) for name, wanted in wants.items()])
        await breathe()
        assert served == ["all", "tags"]
        await breathe()
        assert served == ["all", "tags", "filter"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("kind", "text"), [("SQL92", "a = '1'"), ("CEL", "properties.a == '1'")])
def test_a_message_for_a_parked_pull_is_counted_once(kind: str, text: str) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags=text, expression_type=kind)
        waiting = asyncio.create_task(client.pull(0))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        for _ in range(100):
            broker.put(b"x", a="2")
        await asyncio.sleep(0.5)
        assert not waiting.done()
        broker.put(b"x", a="1")
        assert (await waiting).answer.next_begin_offset == 101
        assert await counted(broker, counters.GROUP_FILTER_JUDGED_NUMS, "T@g") == 101
        assert await counted(broker, counters.GROUP_FILTERED_NUMS, "T@g") == 100

    simulate(scenario)


@pytest.mark.complaints("has no verdict")
def test_a_message_without_a_verdict_is_counted_once() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="properties.missing == '1'", expression_type="CEL")
        waiting = asyncio.create_task(client.pull(0))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        for _ in range(100):
            broker.put(b"x", a="2")
        assert (await waiting).answer.next_begin_offset == 100
        assert await counted(broker, counters.GROUP_FILTER_ERROR_NUMS, "T@g") == 100

    simulate(scenario)


def test_groups_that_share_a_text_each_count_their_messages() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        how: dict[str, Any] = {**CARRIED, **SQL, "subscription": "a = '1'"}
        for group in "gh":
            await client.heartbeat(group)
        waiting = [asyncio.create_task(client.pull(0, group=group, **how)) for group in "gh"]
        await until(lambda: len(broker.consuming.pulls.parked) == 2)
        for _ in range(50):
            broker.put(b"x", a="2")
        broker.put(b"x", a="1")
        await asyncio.gather(*waiting)
        for group in "gh":
            assert await counted(broker, counters.GROUP_FILTER_JUDGED_NUMS, f"T@{group}") == 51

    simulate(scenario)


def new_texts(kind: str) -> list[str]:
    if kind == "SQL92":
        return [f"b = '{number}' OR " + " OR ".join(["a > 1"] * 480) for number in range(NEW_TEXTS)]
    return [f"tag == '{number}' || " + " || ".join(["size(keys) < 0"] * 240) for number in range(NEW_TEXTS)]


@pytest.mark.parametrize("kind", ["SQL92", "CEL"])
def test_many_new_texts_are_compiled_in_several_turns(kind: str, turns: list[float]) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        broker.consuming.pulls._filters._compiled(kind, new_texts(kind)[0] + " ")  # the parser is made
        turns.clear()
        waiting = [
            asyncio.create_task(client.pull(0, **CARRIED, expression_type=kind, subscription=text))
            for text in new_texts(kind)
        ]
        await until(lambda: len(broker.consuming.pulls.parked) == NEW_TEXTS)
        assert steady_s(max(turns), LONGEST_TURN_S) < LONGEST_TURN_S
        assert not any(task.done() for task in waiting), "at the end of the queue they wait as other pulls do"
        broker.put(b"x", b="7")
        if kind == "SQL92":
            assert bodies((await waiting[7]).body) == [b"x"]
        for task in waiting:
            task.cancel()

    simulate(scenario)


@pytest.mark.parametrize("kind", ["SQL92", "CEL"])
def test_checks_of_many_new_texts_are_compiled_in_several_turns(kind: str, turns: list[float]) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        broker.consuming.pulls._filters._compiled(kind, new_texts(kind)[0] + " ")  # the parser is made
        turns.clear()
        await asyncio.gather(*[check(client, text, kind) for text in new_texts(kind)])
        assert steady_s(max(turns), LONGEST_TURN_S) < LONGEST_TURN_S
        codes = await asyncio.gather(*[code_of(check(client, f"(({text}", kind)) for text in new_texts(kind)])
        assert set(codes) == {ResponseCode.SUBSCRIPTION_PARSE_FAILED}

    simulate(scenario)


def test_cold_reads_are_scanned_in_several_turns(turns: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for number in range(3):
            broker.put(b"unwanted", a=f"{number}" + "a" * 20_000)
        broker.put(b"wanted", ok="1")
        how: dict[str, Any] = {"flags": SUBSCRIPTION, **SQL, "subscription": HEAVY["SQL92"].format(0)}
        await client.pull(4, **how)  # compiled
        await until(lambda: broker.store.max_offset("T", 0) == 4)
        monkeypatch.setattr(PullReader, "read_hot", lambda *_: None)
        monkeypatch.setattr(PullReader, "read_once", lambda *_: None)
        turns.clear()
        found = await asyncio.gather(*[until_found(client, 0, **how) for _ in range(20)])
        assert found == [[b"wanted"]] * 20
        assert steady_s(max(turns), LONGEST_TURN_S) < LONGEST_TURN_S

    simulate(scenario)
