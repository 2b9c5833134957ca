"""Costs of filters: values that are made once, scans that end, and what the statistics count."""

import asyncio
import time
from itertools import count
from typing import Any

import pytest

from firearrow.broker.pull.cel_filter import CelFilter
from firearrow.broker.pull.filter_budget import SCAN_MICROSECONDS, FilterClock, FilterCost, FilterLimits
from firearrow.broker.pull.message_filter import MessageFilter, PropertyFilter, RetryFilter
from firearrow.broker.pull.scanner import Scanner
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.broker.statistics import counters
from firearrow.expression.cel.message_view import MessageView
from firearrow.expression.cel.program import CelVerdict, compile_cel
from firearrow.expression.errors import NoValue
from firearrow.expression.sql import compile_sql
from firearrow.model.names import retry_topic
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.runtime.clock import elapsed_ms
from firearrow.runtime.turn import TurnBudgets
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SUBSCRIPTION, SimBroker, SimClient, simulate, until
from tests.yardstick import least_s

SQL: dict[str, Any] = {"flags": SUBSCRIPTION, "expression_type": "SQL92"}


async def counted(broker: SimBroker, name: str, key: str) -> int:
    await broker.assembly.stats.sample(elapsed_ms())
    kind, which = counters.STATISTICS[name]
    counts = broker.assembly.stats._families[kind].of(key)
    return counts.size if which else counts.messages


def test_keys_are_split_once() -> None:
    program = compile_cel("||".join(["size(keys) < 0"] * 280))

    def judged_s() -> float:
        view = MessageView("t", {"KEYS": "a " * 16000}, bytes, 0, 0)
        begun = time.process_time()
        assert program.judge(view).verdict is CelVerdict.FALSE
        return time.process_time() - begun

    assert least_s(judged_s, 0.05) < 0.05


def test_a_body_without_a_value_is_read_once() -> None:
    reads: list[None] = []

    def read_body() -> bytes:
        reads.append(None)
        raise NoValue("the body is too large")

    program = compile_cel("||".join(["body.a == 1"] * 330))
    judged = program.judge(MessageView("t", {}, read_body, 0, 0))
    assert (judged.verdict, judged.reason) == (CelVerdict.ERROR, "the body is too large")
    assert len(reads) == 1


FILTERS: dict[str, MessageFilter] = {
    "SQL92": PropertyFilter.of(compile_sql("a = '299'")),
    "SQL92, many names": PropertyFilter.of(compile_sql("a = '299' OR b = 1 OR c = 1 OR d = 1 OR e = 1")),
    "CEL": CelFilter(compile_cel("properties.a == '299'"), FilterLimits()),
}


@pytest.mark.parametrize("is_retry", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_a_scan_ends_when_its_time_is_used_up_and_the_next_goes_on_behind(name: str, is_retry: bool) -> None:
    wanted: MessageFilter = RetryFilter(lambda _topic: FILTERS[name]) if is_retry else FILTERS[name]

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(300):
            broker.put(b"x", a=str(number), RETRY_TOPIC="T")
        await until(lambda: broker.store.max_offset("T", 0) == 300)
        clock = FilterClock(TurnBudgets(count(0, 1_000_000).__next__))  # a millisecond passes at every look
        clock.limit(3_500_000)
        scanner, offset, scans, found = Scanner(clock), 0, 0, 0
        while offset < 300:
            read = broker.store.read_hot("T", 0, ReadRequest(offset, 800, 1 << 20))
            assert read is not None
            cost = FilterCost()
            kept = scanner.kept(read, wanted, 32, 1 << 20, cost)
            assert offset < kept.next_offset, "every scan moves on"
            assert cost.messages == kept.next_offset - offset, "every message is counted"
            assert cost.nanoseconds > 0
            offset, scans, found = kept.next_offset, scans + 1, found + kept.messages
        assert found == 1
        assert scans > 1

    simulate(scenario)


def test_one_heavy_evaluation_is_enough_to_look_at_the_clock() -> None:
    wanted = PropertyFilter.of(compile_sql(" OR ".join(["a CONTAINS 'x'"] * 300)))

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(20):
            broker.put(b"x", a=f"{number}" + "a" * 20_000)
        await until(lambda: broker.store.max_offset("T", 0) == 20)
        clock = FilterClock(TurnBudgets(count(0, 1_000_000).__next__))
        clock.limit(3_500_000)
        read = broker.store.read_hot("T", 0, ReadRequest(0, 800, 1 << 20))
        assert read is not None
        assert Scanner(clock).kept(read, wanted, 32, 1 << 20, FilterCost()).next_offset == 4

    simulate(scenario)


MOST_NS = SCAN_MICROSECONDS * 1000


@pytest.mark.parametrize(("before_ns", "left_ns"), [(0, 4_000_000), (2_500_000, 1_500_000), (3_900_000, 1_000_000)])
def test_a_scan_that_begins_late_in_a_turn_has_the_rest_of_its_time(before_ns: int, left_ns: int) -> None:
    now_ns = 0

    async def scans() -> None:
        nonlocal now_ns
        clock = FilterClock(TurnBudgets(lambda: now_ns))
        clock.begin()
        now_ns += before_ns
        clock.end()
        clock.begin()
        now_ns += left_ns
        assert not clock.is_over
        now_ns += 1
        assert clock.is_over
        clock.end()
        over_ns = max(before_ns + left_ns + 1 - MOST_NS, 0)
        for owed_ns in (over_ns, 0):
            await asyncio.sleep(0)  # the next turn
            clock.begin()
            now_ns += MOST_NS - owed_ns
            assert not clock.is_over
            now_ns += 1
            assert clock.is_over, "what was too much in the last turn is missing in this one alone"

    asyncio.run(scans())


def test_the_cost_of_a_retry_topic_is_counted() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        group = broker.assembly.clients.group("g")
        assert group is not None
        retry = retry_topic("g")
        for topic in ("T", retry):
            group.subscriptions[topic] = SubscriptionData(topic=topic, sub_string="tag == 'a'", expression_type="CEL")
        for _ in range(3):
            broker.put(b"x", topic=retry, RETRY_TOPIC="T")
        await client.pull(0, topic=retry, flags=0, version=0)
        assert await counted(broker, counters.GROUP_FILTER_JUDGED_NUMS, f"{retry}@g") == 3

    simulate(scenario, pulls=PullConfig(filter_support_retry=True))


def test_offsets_before_the_first_message_are_not_counted_as_filtered() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        broker.put(b"x", a="1")
        await client.pull(-1_000_000, **SQL, subscription="a = '1'")
        assert await counted(broker, counters.GROUP_FILTERED_NUMS, "T@g") == 0
        await client.pull(0, **SQL, subscription="a = '2'")
        assert await counted(broker, counters.GROUP_FILTERED_NUMS, "T@g") == 1

    simulate(scenario)
