"""Offsets over the wire: committed, lost with the power, found by time, moved by operators."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from firearrow import fastjson
from firearrow.broker.handlers.admin import large_answer as large
from firearrow.broker.state.state_file import ROWS_AT_ONCE
from firearrow.errors import RequestRefused
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.admin.stats import ConsumeStats, ConsumeStatsList, QueryConsumeTimeSpanBody
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupTable
from firearrow.protocol.bodies.group.offset import (
    ConsumerOffsetTable,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
)
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import INT64_MAX
from firearrow.protocol.requests.admin.stats import GetBrokerConsumeStats, GetConsumeStats
from firearrow.protocol.requests.group.group import GetAllSubscriptionGroupConfig
from firearrow.protocol.requests.group.offset import (
    BoundaryType,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from firearrow.protocol.requests.group.reset import CloneGroupOffset, InvokeBrokerToResetOffset, QueryCorrectionOffset
from firearrow.protocol.requests.message.query import QueryConsumeTimeSpan
from firearrow.protocol.requests.replication.replication import GetAllConsumerOffset
from firearrow.store.placement import FLUSHED
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SimBroker, SimClient, simulate, until


async def refused(awaitable: Awaitable[Any]) -> int:
    with pytest.raises(RequestRefused) as caught:
        await awaitable
    return caught.value.code


def ask(queue_id: int = 0, zero: bool | None = None) -> QueryConsumerOffset:
    return QueryConsumerOffset(consumer_group="g", topic="T", queue_id=queue_id, set_zero_if_not_found=zero)


def commit(offset: int, queue_id: int = 0, topic: str = "T", group: str = "g") -> UpdateConsumerOffset:
    return UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)


def test_committing_and_asking() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        assert (await client.ask(ask())).answer.offset == 0, "nothing was ever sent: its end is 0"
        await client.ask(commit(7))
        assert (await client.ask(ask())).answer.offset == 7
        assert await refused(client.ask(commit(1, topic="X"))) == ResponseCode.TOPIC_NOT_EXIST
        assert await refused(client.ask(commit(1, group="x"))) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        table = fastjson.decode((await client.ask(GetAllConsumerOffset())).body, ConsumerOffsetTable)
        assert table.offset_table == {"T@g": {0: 7}}
        del broker

    simulate(scenario)


def test_answers_about_all_offsets_and_groups_are_made_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    async def counted() -> None:
        nonlocal turns
        turns += 1
        await asyncio.sleep(0)

    monkeypatch.setattr(large, "breathe", counted)

    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        offsets, groups = broker.assembly.offsets.table, broker.assembly.groups.table
        for number in range(20_000):
            offsets.commit(f"group-{number % 500}", f"topic-{number}", 0, number)
            groups.create(f"group-{number}", 1)
        reply = await client.ask(GetAllConsumerOffset())
        table = fastjson.decode(reply.body, ConsumerOffsetTable)
        assert table.offset_table == {f"topic-{n}@group-{n % 500}": {0: n} for n in range(20_000)}
        assert turns >= 20_000 // ROWS_AT_ONCE
        reply = await client.ask(GetAllSubscriptionGroupConfig())
        shown = fastjson.decode(reply.body, SubscriptionGroupTable).subscription_group_table
        assert set(shown) == set(groups)
        assert reply.answer.total_group_num == len(shown)
        assert turns >= 2 * 20_000 // ROWS_AT_ONCE
        reply = await client.ask(GetBrokerConsumeStats(is_order=False))
        assert len(fastjson.decode(reply.body, ConsumeStatsList).consume_stats_list) == len(shown)
        assert turns >= 3 * 20_000 // ROWS_AT_ONCE

    simulate(scenario)


def test_an_answer_that_no_frame_holds_is_refused() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        for number in range(4000):
            broker.assembly.offsets.table.commit(f"group-{number}".ljust(4000, "x"), "T", 0, number)
        with pytest.raises(RequestRefused, match="more than an answer of 15 MiB holds"):
            await client.ask(GetAllConsumerOffset())

    simulate(scenario)


def test_a_young_queue_is_read_from_its_beginning() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        broker.node.disk.profile = DiskProfile(cold_chance=0.0)  # what was just written is in memory
        await client.heartbeat()
        broker.put()
        await asyncio.sleep(0.1)
        assert (await client.ask(ask())).answer.offset == 0
        assert await refused(client.ask(ask(zero=False))) == ResponseCode.QUERY_NOT_FOUND
        assert await refused(client.ask(ask(queue_id=1, zero=False))) == ResponseCode.QUERY_NOT_FOUND

    simulate(scenario)


def test_a_queue_without_messages_is_young_and_one_that_is_not_there_is_not() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        broker.put()
        assert (await client.ask(ask(queue_id=1))).answer.offset == 0
        assert await refused(client.ask(ask(queue_id=1000))) == ResponseCode.QUERY_NOT_FOUND
        elsewhere = QueryConsumerOffset(consumer_group="g", topic="nowhere", queue_id=0)
        assert await refused(client.ask(elsewhere)) == ResponseCode.QUERY_NOT_FOUND

    simulate(scenario)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_offsets_survive_but_never_run_ahead_of_the_log(seed: int, sync: bool) -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for _ in range(10):
            broker.put()
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        await client.ask(commit(10))
        await until(lambda: broker.node.disk.exists("config/consumerOffset.json"), 10)
        for _ in range(50):
            broker.put(b"x" * 500)
        await asyncio.sleep(0.01)
        await client.ask(commit(60))
        await asyncio.sleep(0.02)
        await broker.restart(power=True)
        await client.reconnect()
        offset = (await client.ask(ask())).answer.offset
        end = (await client.ask(GetMaxOffset(topic="T", queue_id=0))).answer.offset
        assert 10 <= offset <= end
        stored = fastjson.decode(await broker.node.disk.read_whole("config/consumerOffset.json"), ConsumerOffsetTable)
        assert stored.offset_table["T@g"][0] <= end, "a second crash must not find the old number"

    simulate(scenario, seed=seed, sync=sync)


def test_offsets_are_written_every_five_seconds_and_at_the_end() -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for _ in range(20):
            broker.put()
        path = "config/consumerOffset.json"
        start = world.loop.time()
        await client.ask(commit(3))
        await client.ask(commit(4))
        await until(lambda: broker.node.disk.exists(path), 10)
        assert 4.9 <= world.loop.time() - start <= 5.7
        await client.ask(commit(20))
        await broker.node.stop()
        stored = fastjson.decode(await broker.node.disk.read_whole(path), ConsumerOffsetTable)
        assert stored.offset_table == {"T@g": {0: 20}}

    simulate(scenario)


def test_places_by_time() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        times = []
        for _ in range(5):
            times.append(broker.put().store_timestamp)
            await asyncio.sleep(0.5)

        async def search(time_ms: int, boundary: BoundaryType | None = None) -> int:
            request = SearchOffsetByTimestamp(topic="T", queue_id=0, timestamp=time_ms, boundary_type=boundary)
            return int((await client.ask(request)).answer.offset)

        assert [await search(time) for time in times] == [0, 1, 2, 3, 4]
        assert [await search(time + 1) for time in times] == [1, 2, 3, 4, 5]
        assert await search(times[2] + 1, BoundaryType.UPPER) == 2
        assert (await client.ask(GetMinOffset(topic="T", queue_id=0))).answer.offset == 0
        assert (await client.ask(GetMaxOffset(topic="T", queue_id=0))).answer.offset == 5
        assert (await client.ask(GetMaxOffset(topic="T", queue_id=9))).answer.offset == 0
        assert (await client.ask(GetEarliestMsgStoretime(topic="T", queue_id=0))).answer.timestamp == times[0]
        assert (await client.ask(GetEarliestMsgStoretime(topic="T", queue_id=9))).answer.timestamp == -1

    simulate(scenario)


def test_a_group_is_moved_by_time() -> None:
    async def scenario(world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        times = []
        for _ in range(6):
            times.append(broker.put().store_timestamp)
            await asyncio.sleep(0.2)
        await client.ask(commit(6))
        waiting = asyncio.create_task(client.pull(6))
        await until(lambda: len(broker.consuming.pulls.parked) == 1)
        start = world.loop.time()
        reset = InvokeBrokerToResetOffset(group="g", topic="T", timestamp=times[2], is_force=True)
        body = (await client.ask(reset)).body
        moved = fastjson.decode(body, ResetOffsetBody).offset_table
        assert body == encode_body(ResetOffsetBody(offset_table=moved))
        assert moved[MessageQueue("T", "b", 0)] == 2
        assert len(moved) == 16
        reply = await waiting
        assert (reply.code, reply.remark, reply.answer.next_begin_offset) == (21, "OFFSET_RESET", 2)
        assert world.loop.time() - start < 1, "a waiting pull hears of it at once"
        assert (await client.pull(2)).answer.next_begin_offset == 6
        assert (await client.ask(ask())).answer.offset == 2
        await client.ask(commit(3))
        assert (await client.ask(ask())).answer.offset == 3

    simulate(scenario)


def test_a_group_that_is_off_line_finds_its_new_place_and_old_commits_do_not_count() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        for _ in range(4):
            broker.put()
        await client.ask(commit(1))
        to_end = InvokeBrokerToResetOffset(group="g", topic="T", timestamp=-1, is_force=True)
        await client.ask(to_end)
        reply = await client.ask(commit(2))
        assert reply.remark == "Offset has been previously reset"
        assert (await client.ask(ask())).answer.offset == 4
        one = InvokeBrokerToResetOffset(group="g", topic="T", timestamp=0, is_force=True, queue_id=0, offset=1)
        await client.ask(one)
        assert (await client.pull(9)).answer.next_begin_offset == 1
        far = InvokeBrokerToResetOffset(group="g", topic="T", timestamp=0, is_force=True, queue_id=0, offset=99)
        assert await refused(client.ask(far)) == ResponseCode.SYSTEM_ERROR
        unknown = InvokeBrokerToResetOffset(group="x", topic="T", timestamp=0, is_force=True)
        assert await refused(client.ask(unknown)) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    simulate(scenario)


def test_progress_is_shown() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        stored = [broker.put() for _ in range(5)]
        await client.ask(commit(3))
        await client.pull(3)
        reply = await client.ask(GetConsumeStats(consumer_group="g"))
        stats = fastjson.decode(reply.body, ConsumeStats).offset_table
        first = stats[MessageQueue("T", "b", 0)]
        assert (first.broker_offset, first.consumer_offset, first.pull_offset) == (5, 3, 5)
        assert first.last_timestamp == stored[2].store_timestamp
        every = fastjson.decode((await client.ask(GetBrokerConsumeStats(is_order=False))).body, ConsumeStatsList)
        assert (every.total_diff, every.total_inflight_diff) == (2, 2)
        spans = await client.ask(QueryConsumeTimeSpan(topic="T", group="g"))
        span = fastjson.decode(spans.body, QueryConsumeTimeSpanBody).consume_time_span_set[0]
        assert span.min_time_stamp == stored[0].store_timestamp
        assert span.consume_time_stamp == stored[2].store_timestamp

    simulate(scenario)


def test_offsets_are_cloned() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat()
        await client.ask(commit(3))
        await client.ask(CloneGroupOffset(src_group="g", dest_group="copy", topic="T", offline=True))
        assert broker.assembly.offsets.table.committed("copy", "T", 0) == 3

    simulate(scenario)


def test_the_lowest_offset_of_all_groups_is_shown() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        offsets = broker.assembly.offsets.table
        for group, place in (("g", {0: 5, 1: 9}), ("h", {0: 3, 2: 4}), ("compared", {0: 7, 1: 1, 2: 1})):
            offsets.put_row("T", group, place)

        async def lowest(without: str | None, compared: str) -> dict[int, int]:
            asked = QueryCorrectionOffset(topic="T", filter_groups=without, compare_group=compared)
            reply = await client.ask(asked)
            return fastjson.decode(reply.body, QueryCorrectionOffsetBody).correction_offsets

        assert await lowest("compared", "nobody") == {0: 3, 1: 9, 2: 4}
        assert await lowest("compared,h", "compared") == {0: 5, 1: INT64_MAX}
        assert await lowest(None, "nobody") == {0: 3, 1: 1, 2: 1}

    simulate(scenario)
