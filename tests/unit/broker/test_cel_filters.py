"""CEL filters at a broker on a simulated machine: what passes, what it costs, what is refused, what wakes a pull."""

import asyncio
import logging
import zlib
from typing import Any

import pytest

from firearrow.broker.pull.cel_filter import CelFilter
from firearrow.broker.pull.filter_budget import FilterCost, FilterLimits
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.broker.statistics import counters
from firearrow.expression.cel.program import compile_cel
from firearrow.model.flags import COMPRESSED, COMPRESSION_ZLIB
from firearrow.model.names import retry_topic
from firearrow.model.units import EpochMs
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.protocol.codes import ResponseCode
from firearrow.record.encode import Draft
from firearrow.record.properties import encode_properties
from firearrow.runtime.clock import elapsed_ms
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import HOST, SUBSCRIPTION, SUSPEND, SimBroker, SimClient, simulate, until
from tests.unit.broker.test_filters import bodies, check, code_of

CEL: dict[str, Any] = {"expression_type": "CEL"}
CARRIED: dict[str, Any] = {"flags": SUBSCRIPTION, "expression_type": "CEL"}


def amounts(broker: SimBroker, count: int = 10) -> None:
    for number in range(count):
        broker.put(b'{"amount": %d}' % number, region="eu" if number % 2 else "us")


def test_a_pull_gets_messages_by_their_bodies_and_properties() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="body.amount > 5 && properties.region == 'eu'", **CEL)
        amounts(broker)
        text = "body.amount > 5 && properties.region == 'eu'"
        for how in ({"flags": 0}, {**CARRIED, "subscription": text}):
            reply = await client.pull(0, **how)
            assert bodies(reply.body) == [b'{"amount": 7}', b'{"amount": 9}']
            assert reply.answer.next_begin_offset == 10
        for text in ("topic == 'T' && store_ms >= born_ms && born_ms > 0", "keys == [] && tag == ''"):
            assert len(bodies((await client.pull(0, **CARRIED, subscription=text)).body)) == 10

    simulate(scenario)


def test_compressed_bodies_are_read_up_to_a_limit() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        flag, now, none = COMPRESSED | COMPRESSION_ZLIB, EpochMs(broker.node.clock.now_ms()), encode_properties({})
        for size in (10, 100_000):
            body = b'{"text": "' + b"a" * size + b'"}'
            broker.store.append(Draft("T", 0, zlib.compress(body), none, now, HOST, HOST, sys_flag=flag))
            broker.put(body)
        broker.store.append(Draft("T", 0, b"not zlib", none, now, HOST, HOST, sys_flag=flag))
        await client.heartbeat()
        reply = await client.pull(0, **CARRIED, subscription="body.text.startsWith('a')")
        assert len(bodies(reply.body)) == 2, "the large ones, and the broken one, do not pass"
        assert reply.answer.next_begin_offset == 5

    simulate(scenario, pulls=PullConfig(max_filter_body_bytes=50_000))


async def counted(broker: SimBroker, name: str) -> int:
    stats = broker.assembly.stats
    await stats.sample(elapsed_ms())
    seen = stats.view(name, "T@g", elapsed_ms() + 10_000)
    return 0 if seen is None or seen.stats_day is None else broker_total(broker, name)


def broker_total(broker: SimBroker, name: str) -> int:
    kind, which = counters.STATISTICS[name]
    counts = broker.assembly.stats._families[kind].of("T@g")
    return counts.size if which else counts.messages


@pytest.mark.complaints("has no verdict")
def test_operators_see_what_a_filter_costs(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="body.amount > 5", **CEL)
        amounts(broker)
        broker.put(b"not json")
        broker.put(b"{}")
        await client.pull(0, flags=0)
        assert await counted(broker, counters.GROUP_FILTER_JUDGED_NUMS) == 12
        assert await counted(broker, counters.GROUP_FILTER_ERROR_NUMS) == 2
        assert await counted(broker, counters.GROUP_FILTER_STEPS) == 12 * compile_cel("body.amount > 5").steps
        assert await counted(broker, counters.GROUP_FILTERED_NUMS) == 8

    with caplog.at_level(logging.WARNING):
        simulate(scenario)
    (line,) = [record for record in caplog.records if "has no verdict" in record.getMessage()]
    assert vars(line)["group"] == "g"
    assert vars(line)["messages"] == 2
    assert vars(line)["reason"] == "the map has no key 'amount'"


def test_a_message_beyond_its_budget_does_not_pass() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        broker.put(b"[" + b",".join([b"1"] * 200) + b"]")
        broker.put(b"[1]")
        reply = await client.pull(0, **CARRIED, subscription="body.all(a, body.all(b, a == b))")
        assert bodies(reply.body) == [b"[1]"]

    simulate(scenario)


def test_a_waiting_pull_wakes_if_its_filter_may_let_the_message_pass() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        how = {**CARRIED, "flags": SUBSCRIPTION | SUSPEND}
        by_property = asyncio.create_task(client.pull(0, **how, subscription="properties.region == 'eu'"))
        by_body = asyncio.create_task(client.pull(0, **how, subscription="body.amount > 5"))
        parked = broker.consuming.pulls.parked
        await until(lambda: len(parked) == 2)
        broker.put(b'{"amount": 1}', region="us")
        reply = await by_body
        assert (reply.code, reply.answer.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 1)
        assert len(parked) == 1
        broker.put(b'{"amount": 1}', region="eu")
        assert len(bodies((await by_property).body)) == 1

    simulate(scenario)


def test_the_broker_checks_expressions_before_they_are_used() -> None:
    async def scenario(_world: World, _broker: SimBroker, client: SimClient) -> None:
        await check(client, "body.amount > 1", "CEL")
        for wrong in ("amount > 1", "body.amount >", "", "(" * 9000):
            assert await code_of(check(client, wrong, "CEL")) == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    simulate(scenario)


def test_a_retry_topic_is_judged_by_the_first_topic() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        group = broker.assembly.clients.group("g")
        assert group is not None
        retry = retry_topic("g")
        for topic, text in (("T", "topic == 'T' && body.amount > 5"), (retry, "true")):
            group.subscriptions[topic] = SubscriptionData(topic=topic, sub_string=text, expression_type="CEL")
        for number in (1, 9):
            broker.put(b'{"amount": %d}' % number, topic=retry, RETRY_TOPIC="T")
        found = bodies((await client.pull(0, topic=retry, flags=0, version=0)).body)
        assert found == [b'{"amount": 9}']

    simulate(scenario, pulls=PullConfig(filter_support_retry=True))


def test_properties_of_the_wire_are_those_of_the_expression() -> None:
    wanted = CelFilter(compile_cel("properties['a b'] == '中文' && tag == 't' && 'k' in keys"), FilterLimits())
    assert wanted.passes(encode_properties({"a b": "中文", "TAGS": "t", "KEYS": "k l"}), FilterCost())
    assert not wanted.passes(encode_properties({"a b": "中文", "TAGS": "u", "KEYS": "k l"}), FilterCost())
    by_body = CelFilter(compile_cel("body.a == 1"), FilterLimits())
    assert by_body.passes(b"", FilterCost()), "the body must be seen first"
