"""SQL92 filters at a broker on a simulated machine: what passes, how far a pull moves, what wakes it, refusals."""

import asyncio
from typing import Any

import pytest

from firearrow.broker.pull.filters import CHARACTERS_OF_ENTRY, CHARACTERS_REMEMBERED, Filters
from firearrow.broker.pull.pull_reader import SCANNED_MESSAGES
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.broker.statistics.counters import GROUP_FILTERED_NUMS
from firearrow.errors import RequestRefused
from firearrow.expression.errors import BadExpression
from firearrow.model.names import retry_topic
from firearrow.protocol.bodies.group.heartbeat import CheckClientBody, SubscriptionData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.group.heartbeat import CheckClientConfig
from firearrow.record.decode import decode_all
from firearrow.runtime.clock import elapsed_ms
from firearrow.runtime.turn import TurnBudgets
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SUBSCRIPTION, SUSPEND, SimBroker, SimClient, simulate, until

SQL: dict[str, Any] = {"expression_type": "SQL92"}
CARRIED: dict[str, Any] = {"flags": SUBSCRIPTION, "expression_type": "SQL92"}


def bodies(data: bytes) -> list[bytes]:
    return [message.body for message in decode_all(data)]


async def code_of(asked: Any) -> int:
    with pytest.raises(RequestRefused) as refused:
        await asked
    return refused.value.code


def check(client: SimClient, text: str, kind: str = "SQL92") -> Any:
    wanted = SubscriptionData(topic="T", sub_string=text, expression_type=kind)
    return client.ask(CheckClientConfig(), CheckClientBody(group="g", subscription_data=wanted))


def test_a_pull_gets_what_passes_and_moves_behind_what_it_looked_at() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="a > 5", **SQL)
        for number in range(10):
            broker.put(b"%d" % number, a=str(number), b="中文")
        for how in ({"flags": 0}, {**CARRIED, "subscription": "a > 5"}):
            reply = await client.pull(0, most=3, **how)
            assert (bodies(reply.body), reply.answer.next_begin_offset) == ([b"6", b"7", b"8"], 9)
            reply = await client.pull(9, **how)
            assert (bodies(reply.body), reply.answer.next_begin_offset) == ([b"9"], 10)
        reply = await client.pull(0, **CARRIED, subscription="b = '中文' AND a BETWEEN 2 AND 3")
        assert (bodies(reply.body), reply.answer.next_begin_offset) == ([b"2", b"3"], 10)
        reply = await client.pull(0, **CARRIED, subscription="c IS NOT NULL")
        assert (reply.code, reply.answer.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 10)

    simulate(scenario)


def test_a_filter_that_passes_little_moves_a_bounded_number_of_messages_a_pull() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="a = 'wanted'", **SQL)
        count = 2 * SCANNED_MESSAGES + 10
        for number in range(count):
            broker.put(b"%d" % number, a="wanted" if number == count - 1 else "other")
        offset, pulls, found = 0, 0, b""
        while not found:
            reply = await client.pull(offset, flags=0)
            assert 0 < reply.answer.next_begin_offset - offset <= SCANNED_MESSAGES
            offset, pulls, found = reply.answer.next_begin_offset, pulls + 1, reply.body
        assert bodies(found) == [b"%d" % (count - 1)]
        assert pulls == 3
        stats = broker.assembly.stats
        await stats.sample(elapsed_ms() + 10_000)
        seen = stats.view(GROUP_FILTERED_NUMS, "T@g", elapsed_ms() + 10_000)
        assert seen is not None
        assert seen.stats_day is not None

    simulate(scenario)


def test_a_waiting_pull_wakes_for_a_message_that_passes_alone() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="a > 5", **SQL)
        others = {**CARRIED, "flags": SUBSCRIPTION | SUSPEND, "subscription": "a < 3"}
        great, small = asyncio.create_task(client.pull(0)), asyncio.create_task(client.pull(0, **others))
        parked = broker.consuming.pulls.parked
        await until(lambda: len(parked) == 2)
        broker.put(b"4", a="4")
        broker.put(b"none")
        await asyncio.sleep(1)
        assert len(parked) == 2
        broker.put(b"9", a="9")
        reply = await great
        assert (bodies(reply.body), reply.answer.next_begin_offset) == ([b"9"], 3)
        assert len(parked) == 1
        broker.put(b"1", a="1")
        assert bodies((await small).body) == [b"1"]

    simulate(scenario)


def test_a_waiting_pull_moves_on_when_its_time_is_over() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="a > 5", **SQL)
        waiting = asyncio.create_task(client.pull(0, suspend_ms=2000))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        broker.put(b"4", a="4")
        reply = await waiting
        assert (reply.code, reply.answer.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 1)

    simulate(scenario)


def test_more_arrivals_than_can_be_judged_wake_the_pull() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="a > 5", **SQL)
        waiting = asyncio.create_task(client.pull(0))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        for _ in range(700):
            broker.put(b"4", a="4")
        reply = await waiting
        assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert reply.answer.next_begin_offset > 500

    simulate(scenario)


def test_a_newer_version_replaces_the_expression() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        for number in range(4):
            broker.put(b"%d" % number, a=str(number))
        await client.heartbeat(tags="a = 1", version=1, **SQL)
        assert bodies((await client.pull(0, flags=0)).body) == [b"1"]
        await client.heartbeat(tags="a = 2", version=1, **SQL)  # not newer: ignored
        assert bodies((await client.pull(0, flags=0)).body) == [b"1"]
        await client.heartbeat(tags="a = 2", version=2, **SQL)
        assert bodies((await client.pull(0, flags=0, version=2)).body) == [b"2"]
        assert await code_of(client.pull(0, flags=0, version=3)) == ResponseCode.SUBSCRIPTION_NOT_LATEST
        await client.heartbeat(tags="a = = 2", version=3, **SQL)
        assert await code_of(client.pull(0, flags=0, version=3)) == ResponseCode.FILTER_DATA_NOT_EXIST
        await client.heartbeat(tags="*", version=4)
        assert len(bodies((await client.pull(0, flags=0, version=4)).body)) == 4

    simulate(scenario)


def test_the_broker_checks_expressions_before_they_are_used() -> None:
    async def scenario(_world: World, _broker: SimBroker, client: SimClient) -> None:
        await check(client, "A || B", "TAG")
        await check(client, "a > 1")
        await check(client, "a LIKE 'x'")  # as Apache, which does not read the end
        assert await code_of(check(client, "a > 'x'")) == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert await code_of(check(client, "a", "XPATH")) == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    simulate(scenario)


def test_filters_can_be_switched_off() -> None:
    async def scenario(_world: World, _broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="a > 5", **SQL)
        assert await code_of(check(client, "a > 5")) == ResponseCode.SYSTEM_ERROR
        assert await code_of(client.pull(0, flags=0)) == ResponseCode.SYSTEM_ERROR
        assert await code_of(client.pull(0, **CARRIED, subscription="a > 5")) == ResponseCode.SYSTEM_ERROR

    simulate(scenario, pulls=PullConfig(enable_property_filter=False))


@pytest.mark.parametrize("supported", [True, False])
def test_a_retry_topic_is_judged_by_the_first_topic_if_that_is_switched_on(supported: bool) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        group = broker.assembly.clients.group("g")
        assert group is not None
        retry = retry_topic("g")
        for topic, text in (("T", "a > 5"), (retry, "TRUE")):
            group.subscriptions[topic] = SubscriptionData(topic=topic, sub_string=text, expression_type="SQL92")
        for number in (1, 9):
            broker.put(b"%d" % number, topic=retry, a=str(number), RETRY_TOPIC="T")
        broker.put(b"other", topic=retry, RETRY_TOPIC="U")
        found = bodies((await client.pull(0, topic=retry, flags=0, version=0)).body)
        assert found == ([b"9", b"other"] if supported else [b"1", b"9", b"other"])

    simulate(scenario, pulls=PullConfig(filter_support_retry=supported))


def test_invented_types_and_short_texts_do_not_fill_the_memory() -> None:
    async def scenario() -> None:
        filters = Filters(TurnBudgets(lambda: 0))
        for number in range(3_000):
            with pytest.raises(Refused):
                filters.check(SubscriptionData(topic="T", sub_string="", expression_type=f"TYPE{number}"))
            filters.check(SubscriptionData(topic="T", sub_string=f"a = {number}", expression_type="SQL92"))
        assert 0 < len(filters._remembered) <= CHARACTERS_REMEMBERED // CHARACTERS_OF_ENTRY

    asyncio.run(scenario())


def test_a_refused_expression_is_remembered_without_its_traceback() -> None:
    async def scenario() -> None:
        filters = Filters(TurnBudgets(lambda: 0))
        with pytest.raises(Refused):
            filters.check(SubscriptionData(topic="T", sub_string="a = ", expression_type="SQL92"))
        [bad] = filters._remembered.values()
        assert isinstance(bad, BadExpression)
        assert (bad.__traceback__, bad.__context__) == (None, None)

    asyncio.run(scenario())
