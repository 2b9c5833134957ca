"""Pulls against a broker on a simulated machine: what they get, how long they wait, what wakes them."""

import asyncio
from typing import Any

import pytest

from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.errors import RequestRefused
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.record.decode import decode_all
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import COMMIT, SUBSCRIPTION, SUSPEND, SimBroker, SimClient, simulate, until


def bodies(data: bytes) -> list[bytes]:
    return [message.body for message in decode_all(data)]


def test_a_pull_gets_the_records_as_they_lie() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        places = [broker.put(b"%d" % number) for number in range(5)]
        reply = await client.pull(1, most=3)
        assert reply.code == 0
        assert reply.remark == "FOUND"
        assert bodies(reply.body) == [b"1", b"2", b"3"]
        assert reply.body == broker.store.read_from(
            places[1].physical_offset, places[3].end - places[1].physical_offset
        )
        answer = reply.answer
        assert (answer.next_begin_offset, answer.min_offset, answer.max_offset) == (4, 0, 5)
        assert (answer.suggest_which_broker_id, answer.topic_sys_flag, answer.group_sys_flag) == (0, 0, 0)

    simulate(scenario)


@pytest.mark.parametrize(
    ("stored", "asked", "code", "next_offset", "remark"),
    [
        (0, 0, 19, 0, "NO_MATCHED_LOGIC_QUEUE"),
        (0, 5, 21, 0, "NO_MATCHED_LOGIC_QUEUE"),
        (3, 3, 19, 3, "OFFSET_OVERFLOW_ONE"),
        (3, 9, 21, 3, "OFFSET_OVERFLOW_BADLY"),
        (3, -1, 21, 0, "OFFSET_TOO_SMALL"),
    ],
)
def test_places_without_messages(stored: int, asked: int, code: int, next_offset: int, remark: str) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for _ in range(stored):
            broker.put()
        await asyncio.sleep(0.1)
        reply = await client.pull(asked, flags=0)
        assert (reply.code, reply.answer.next_begin_offset, reply.remark) == (code, next_offset, remark)

    simulate(scenario)


@pytest.mark.parametrize("suspend_ms", [0, 50, 1000, 15_000])
def test_a_pull_is_held_for_its_own_time(suspend_ms: int) -> None:
    async def scenario(world: World, _broker: SimBroker, client: SimClient) -> float:
        await client.heartbeat()
        start = world.loop.time()
        reply = await client.pull(0, suspend_ms=suspend_ms)
        assert reply.code == 19
        return (world.loop.time() - start) * 1000

    held_ms = simulate(scenario)
    assert suspend_ms <= held_ms <= suspend_ms + 100


@pytest.mark.parametrize("sync", [False, True])
def test_a_message_wakes_the_pulls_of_its_queue_alone(sync: bool) -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        waiting = [asyncio.create_task(client.pull(0, queue_id=queue_id)) for queue_id in range(3)]
        await until(lambda: len(broker.consuming.pulls.parked) == 3)
        await asyncio.sleep(5)
        start = world.loop.time()
        broker.put(b"a", queue_id=1)
        broker.put(b"b", queue_id=1)
        reply = await waiting[1]
        assert (reply.code, bodies(reply.body)) == (0, [b"a", b"b"])
        assert world.loop.time() - start < 0.1
        assert not waiting[0].done()
        assert [(await task).code for task in (waiting[0], waiting[2])] == [19, 19]
        assert len(broker.consuming.pulls.parked) == 0

    simulate(scenario, sync=sync)


def test_a_pull_goes_on_waiting_when_its_filter_passes_over_what_came() -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="A || B")
        start = world.loop.time()
        waiting = asyncio.create_task(client.pull(0))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        broker.put(TAGS="C")
        broker.put()
        await asyncio.sleep(2)
        assert not waiting.done()
        broker.put(b"b", TAGS="B")
        reply = await waiting
        assert (bodies(reply.body), reply.answer.next_begin_offset) == ([b"b"], 3)
        assert world.loop.time() - start < 3

    simulate(scenario)


def test_a_filter_that_finds_nothing_says_where_to_go_on() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="A")
        for _ in range(40):
            broker.put(TAGS="C")
        reply = await client.pull(0)
        assert (reply.code, reply.remark, reply.answer.next_begin_offset) == (20, "NO_MATCHED_MESSAGE", 40)

    simulate(scenario)


def test_limits_are_apaches_unless_a_large_answer_is_asked_for() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for _ in range(100):
            broker.put(b"x" * 3000)
        assert len(bodies((await client.pull(0, most=1000)).body)) == 32
        assert len(bodies((await client.pull(0, most=5)).body)) == 5
        assert len(bodies((await client.pull(0, most=1000, max_msg_bytes=4 << 20)).body)) == 32
        assert len(bodies((await client.pull(0, most=1000, max_msg_bytes=4 << 20, large=True)).body)) == 100
        assert len(bodies((await client.pull(0, most=1000, max_msg_bytes=10_000, large=True)).body)) == 3

    simulate(scenario)


def test_bytes_are_limited_but_one_message_always_goes() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for _ in range(3):
            broker.put(b"x" * 3000)
        assert len(bodies((await client.pull(0)).body)) == 2
        broker.put(b"x" * 9000)
        assert len(bodies((await client.pull(3)).body)) == 1

    simulate(scenario, pulls=PullConfig(max_transfer_bytes_on_message_in_memory=7000))


def test_what_lies_far_behind_comes_in_smaller_portions() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for _ in range(40):
            broker.put()
        await asyncio.sleep(6)  # what is in no queue file yet is read by the start, and in memory since
        await broker.restart()
        await client.reconnect()
        assert len(bodies((await client.pull(0)).body)) == 8

    simulate(scenario, pulls=PullConfig(access_message_in_memory_max_ratio=0))


def test_nothing_above_the_confirm_offset_is_seen() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        codes = []
        for number in range(20):
            place = broker.put()
            while True:
                reply = await client.pull(number, flags=0)
                end = (await client.ask(GetMaxOffset(topic="T", queue_id=0))).answer.offset
                codes.append(reply.code)
                if reply.code == 0 or end > number:
                    assert broker.store.log.flushed >= place.end
                    break
        assert 19 in codes, "a pull came before the sync at least once"

    simulate(scenario, sync=True)


def test_a_pull_may_carry_a_subscription_and_an_offset() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        broker.put(b"a", TAGS="A")
        broker.put(b"b", TAGS="B")
        reply = await client.pull(0, flags=SUBSCRIPTION | COMMIT, subscription="B", commit=1)
        assert bodies(reply.body) == [b"b"]
        assert broker.assembly.offsets.table.committed("g", "T", 0) == 1

    simulate(scenario)


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        ({"topic": "Missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 16}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": -1}, ResponseCode.INVALID_PARAMETER),
        ({"group": "other"}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"group": "no such%%group!"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"version": 2}, ResponseCode.SUBSCRIPTION_NOT_LATEST),
        ({"flags": 4, "expression_type": "SQL92", "subscription": "a >"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"flags": 4, "expression_type": "XPATH", "subscription": "a"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"flags": 4, "expression_type": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_pulls_that_are_refused(request_of: dict[str, Any], code: ResponseCode) -> None:
    async def scenario(_world: World, _broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        with pytest.raises(RequestRefused) as refused:
            await client.pull(**request_of)
        assert refused.value.code == code

    simulate(scenario)


def test_a_pull_that_waits_hears_of_a_deleted_topic() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        waiting = asyncio.create_task(client.pull(0, suspend_ms=1000))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        broker.topics.begin_deletion("T", lambda _error: None)
        with pytest.raises(RequestRefused) as refused:
            await waiting
        assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST

    simulate(scenario)


def test_pulls_of_a_client_that_went_away_leave_nothing_behind() -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        waiting = asyncio.create_task(client.pull(0, suspend_ms=2000))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        await client.caller.close()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(3)
        assert len(broker.consuming.pulls.parked) == 0
        assert broker.consuming.pulls.parked.next_deadline_ms is None
        del world

    simulate(scenario)


def test_a_thousand_pulls_wait_at_their_queues() -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        broker.topics.put(
            [broker.topics.table.topics["T"].__class__(topic_name="T", read_queue_nums=1000)], print_error
        )
        waiting = [asyncio.create_task(client.pull(0, queue_id=number, suspend_ms=5000)) for number in range(1000)]
        await until(lambda: len(broker.consuming.pulls.parked) == 1000)
        broker.put(b"hit", queue_id=777)
        assert bodies((await waiting[777]).body) == [b"hit"]
        codes = [(await task).code for task in waiting]
        assert codes.count(19) == 999
        del world

    simulate(scenario)


def print_error(error: Exception | None) -> None:
    assert error is None


SUSPENDING = SUSPEND
