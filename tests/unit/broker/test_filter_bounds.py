"""What filters may cost: values that are made once, scans that end, and what the statistics count."""

import time
from typing import Any

from firearrow.broker.pull.cel_filter import CelFilter, FilterBudgets
from firearrow.broker.pull.message_filter import PropertyFilter, RetryFilter, ScanClock, kept
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.broker.statistics import counters
from firearrow.expression.cel.message_view import MessageView
from firearrow.expression.cel.meter import Budget
from firearrow.expression.cel.program import Verdict, compile_cel
from firearrow.expression.errors import NoValue
from firearrow.expression.sql import compile_sql
from firearrow.model.names import retry_topic
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.runtime.clock import elapsed_ms
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SUBSCRIPTION, SimBroker, SimClient, simulate, until

SQL: dict[str, Any] = {"flags": SUBSCRIPTION, "expression_type": "SQL92"}


async def counted(broker: SimBroker, name: str, key: str) -> int:
    await broker.tables.stats.sample(elapsed_ms())
    kind, which = counters.STATISTICS[name]
    counts = broker.tables.stats._families[kind].of(key)
    return counts.size if which else counts.messages


def test_keys_are_split_once() -> None:
    program = compile_cel("||".join(["size(keys) < 0"] * 280))
    view = MessageView("t", {"KEYS": "a " * 16000}, bytes, 0, 0)
    judged = program.judge(view, Budget(microseconds=10_000_000), time.process_time_ns)
    assert judged.verdict is Verdict.FALSE
    assert judged.nanoseconds < 50_000_000


def test_a_body_without_a_value_is_read_once() -> None:
    reads: list[None] = []

    def read_body() -> bytes:
        reads.append(None)
        raise NoValue("the body is too large")

    program = compile_cel("||".join(["body.a == 1"] * 330))
    judged = program.judge(MessageView("t", {}, read_body, 0, 0), Budget(), lambda: 0)
    assert (judged.verdict, judged.reason) == (Verdict.ERROR, "the body is too large")
    assert len(reads) == 1


def test_a_scan_of_a_retry_topic_ends_when_its_time_is_used_up() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for _ in range(300):
            broker.put(b"x", RETRY_TOPIC="T")
        await until(lambda: broker.store.max_offset("T", 0) == 300)
        read = broker.store.read_hot("T", 0, ReadRequest(0, 800, 1 << 20))
        assert read is not None
        clock = iter(range(0, 1 << 40, 1_000_000))
        found = CelFilter.of(compile_cel("tag == 'none'"), FilterBudgets(lambda: next(clock)))
        wanted = RetryFilter(lambda _topic: found, found.steps)
        first = kept(read, wanted, 32, 1 << 20).next_offset
        assert 0 < first < 300
        assert kept(read, wanted, 32, 1 << 20).next_offset == first, "the next scan has its own time"

    simulate(scenario)


def test_the_cost_of_a_retry_topic_is_counted() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        group = broker.tables.clients.group("g")
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


def test_an_sql_scan_ends_when_its_time_is_used_up_and_goes_on_behind() -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(300):
            broker.put(b"x", a=str(number))
        await until(lambda: broker.store.max_offset("T", 0) == 300)
        clock = ScanClock(iter(range(0, 10_000_000, 1_000_000)).__next__)  # a millisecond passes at every look
        clock.most_ns = 5_000_000
        wanted = PropertyFilter.of(compile_sql("a = '299'"), clock)
        read = broker.store.read_hot("T", 0, ReadRequest(0, 800, 1 << 20))
        assert read is not None
        assert kept(read, wanted, 32, 1 << 20).next_offset == 24

    simulate(scenario)
