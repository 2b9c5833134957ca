"""Tables that no answer holds: a replica is told them in parts, and joins when it has all of them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from campaigns.samples import a_topic
from firearrow.broker.handlers.admin import large_answer
from firearrow.broker.handlers.group import group as handlers_of_groups
from firearrow.broker.replication import table_pages
from firearrow.broker.replication.offset_copies import OffsetCopies, ToldOffsets, joined
from firearrow.broker.replication.table_pages import TablePages
from firearrow.broker.tables import changed_rows, offset_parts, pages
from firearrow.broker.tables import groups as tables_of_groups
from firearrow.broker.tables.offset_parts import OffsetPart
from firearrow.broker.tables.offset_rows import OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.errors import RequestRefused
from firearrow.fastjson import decode
from firearrow.protocol.bodies.admin.topic import TopicConfigAndMappingTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from firearrow.protocol.bodies.group.offset import ConsumerOffsetTable
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.topic import GetAllTopicConfig
from firearrow.protocol.requests.group.group import (
    GetAllSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroupList,
    UpdateAndGetGroupForbidden,
)
from firearrow.protocol.requests.replication.replication import GetAllConsumerOffset
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import World
from tests.unit.broker import test_failover_group as elected
from tests.unit.broker import test_replication as static
from tests.unit.broker.test_table_changes import groups_of, in_sync, queues_of
from tests.unit.broker.test_table_copies import begin, commit, knows, make_group, offset, run_elected
from tests.unit.broker.whole import Client, Simulated, simulate

ROWS = 120
PART_BYTES = 200
ANSWER_BYTES = 1200
"""Less than the offsets of all groups."""


def told_part(offsets: OffsetTable, since: str | None) -> tuple[ToldOffsets, bool]:
    told, has_more = told_part_of_any_size(offsets, since)
    assert len(encode_body(ConsumerOffsetTable(offset_table=told.rows, moved=told.moved))) < 2 * PART_BYTES
    return told, has_more


def told_part_of_any_size(offsets: OffsetTable, since: str | None) -> tuple[ToldOffsets, bool]:
    part = OffsetPart(offsets, since)
    body = b"".join(part.pieces())
    table = decode(body, ConsumerOffsetTable)
    return ToldOffsets(table.offset_table, part.mark, part.since, table.moved or {}), part.has_more


def loaded(rows: int) -> OffsetTable:
    """A table as a broker has it after its start."""
    before, offsets = OffsetTable(), OffsetTable(name="run")
    for number in range(rows):
        before.commit(f"g{number}", "T", 0, number)
    OffsetRows(offsets, lambda _topic, _queue_id: ROWS).restore(
        b"".join(OffsetRows(before, lambda _topic, _queue_id: ROWS).pieces())
    )
    return offsets


def change(offsets: OffsetTable, part: int) -> None:
    """Delete, change and move rows that were told, and rows that were not."""
    offsets.forget_row("T", f"g{part}")
    offsets.forget_row("T", f"g{ROWS - 1 - part}")
    offsets.commit(f"g{20 + part}", "T", 0, 1000 + part)
    offsets.move(f"g{40 + part}", "T", 0, 2)
    offsets.take_move(f"g{39 + part}", "T", 0)
    offsets.commit(f"new{part}", "T", 0, 1)


@pytest.mark.parametrize("forgotten_at", [3, 10_000])
def test_all_parts_together_are_the_table(monkeypatch: pytest.MonkeyPatch, forgotten_at: int) -> None:
    monkeypatch.setattr(offset_parts, "PART_BYTES", PART_BYTES)
    monkeypatch.setattr(offset_parts, "PART_ROWS", 15)
    monkeypatch.setattr(changed_rows, "FORGOTTEN_AT", forgotten_at)
    offsets, here = loaded(ROWS), OffsetTable()
    here.commit("gone", "T", 0, 1)
    copies = OffsetCopies(here, knows)
    for _look in range(2):
        told, parts, more = None, 0, True
        while more:
            part, more = told_part(offsets, copies.mark if told is None else told.mark)
            told = joined(told, part)
            if parts < 10 and more:
                change(offsets, parts)
            parts += 1
        assert told is not None
        asyncio.run(copies.take(told, 0))
        assert {key: here.of(key[1], key[0]) for key in here.pairs()} == {
            (topic, group): queues for group, topic, queues in offsets.rows()
        }
        assert here.moved_pairs() == offsets.moved_pairs()
        for number in range(30, 90):
            offsets.commit(f"g{number}", "T", 0, 5000)


def test_a_part_that_begins_with_all_rows_again_takes_the_place_of_the_others() -> None:
    told = joined(ToldOffsets({"T@g": {0: 1}}, "a:1"), ToldOffsets({"T@h": {0: 1}, "T@g": {}}, "a:2", "a:1"))
    assert (told.rows, told.mark, told.since) == ({"T@h": {0: 1}}, "a:2", None)
    told = joined(told, ToldOffsets({"U@g": {0: 1}}, "b:1"))
    assert (told.rows, told.mark) == ({"U@g": {0: 1}}, "b:1")
    changed = joined(ToldOffsets({"T@g": {0: 1}}, "a:3", "a:2"), ToldOffsets({"T@g": {}}, "a:4", "a:3"))
    assert (changed.rows, changed.since) == ({"T@g": {}}, "a:2")


@pytest.mark.parametrize("is_first", [True, False])
def test_the_last_part_tells_what_changed_while_it_was_told(is_first: bool) -> None:
    offsets = loaded(2000)
    since = None if is_first else offsets.changed_rows.mark
    for number in range(1999):
        offsets.move(f"g{number}", "T", 0, 7)
    offsets.commit("g1999", "T", 0, 80)
    part = OffsetPart(offsets, since)
    pieces = part.pieces()
    body = next(pieces) + next(pieces)
    offsets.take_move("g1", "T", 0)
    offsets.forget_row("T", "g2")
    offsets.commit("g1999", "T", 0, 90)
    table = decode(body + b"".join(pieces), ConsumerOffsetTable)
    assert part.has_more == is_first, "a part of all rows tells none as deleted"
    assert is_first or table.offset_table["T@g1999"] == {0: 90}, "a change before the part is lost with a later one"
    rest, has_more = told_part_of_any_size(offsets, part.mark)
    assert not has_more
    told = joined(ToldOffsets(table.offset_table, part.mark, part.since, table.moved or {}), rest)
    assert (told.rows.get("T@g2", {}), told.rows["T@g1999"], told.mark) == ({}, {0: 90}, offsets.changed_rows.mark)
    assert told.moved is not None
    assert ("T@g1" in told.moved, told.moved["T@g3"]) == (False, {0: 7})


def test_a_part_that_was_told_while_deleted_rows_were_forgotten_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changed_rows, "FORGOTTEN_AT", 3)
    offsets = loaded(4)
    mark = offsets.changed_rows.mark
    offsets.forget_row("T", "g0")
    part = OffsetPart(offsets, mark)
    pieces = part.pieces()
    told = next(pieces)
    for number in range(10):
        offsets.commit("h", f"U{number}", 0, 1)
        offsets.forget_topic(f"U{number}")
    told += b"".join(pieces)
    assert part.has_more, "a replica takes it that nothing was deleted"
    again, has_more = told_part(offsets, part.mark)
    assert (again.since, "T@g0" in again.rows, has_more) == (None, False, False)


def ask_for_pages(page_bytes: int) -> None:
    """Ask a master for topics and groups by pages that end after a row and some bytes."""

    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for number in range(30):
            await make_group(client, f"g{number}")
            await client.ask(a_topic(f"N{number}", 3))
        for group in ("g7", "later"):
            await client.ask(UpdateAndGetGroupForbidden(group=group, topic="T", readable=False))
        groups = decode((await client.ask(GetAllSubscriptionGroupConfig())).body, SubscriptionGroupTable)
        topics = decode((await client.ask(GetAllTopicConfig())).body, TopicConfigAndMappingTable)
        told: list[int] = []

        async def call(_master: Address, request: Request[Any], *, timeout_ms: int) -> Any:
            del timeout_ms
            reply = await client.ask(request)
            told.append(len(reply.body))
            return reply

        asked = TablePages(cast("Caller", SimpleNamespace(call=call)))
        master = Address("10.0.0.1", 10911)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large_answer, "ANSWER_BYTES_MAX", ANSWER_BYTES)
            patch.setattr(pages, "PAGE_BYTES", page_bytes)
            assert await asked.groups(master) == groups
            assert (await asked.topics(master)).topic_config_table == topics.topic_config_table
        assert max(told) < page_bytes + 1500, f"a page of {max(told)} bytes"
        rows = len(groups.subscription_group_table) + len(topics.topic_config_table)
        assert page_bytes > 1 or len(told) == rows - 2, "each last page has two rows"

    simulate(scenario)


@pytest.mark.parametrize("page_bytes", [1, 3000])
def test_a_page_ends_after_some_bytes_and_the_next_goes_on(page_bytes: int) -> None:
    ask_for_pages(page_bytes)


def test_a_group_that_no_page_holds_is_refused() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        async def put(*keys: str) -> None:
            given = [SubscriptionGroupConfig(group_name="g", attributes={f"+{key}": "x" * 250}) for key in keys]
            body = encode_body(SubscriptionGroupList(group_config_list=given))
            await client.ask(UpdateAndCreateSubscriptionGroupList(), body)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(handlers_of_groups, "GROUP_BYTES_MAX", 1100)
            with pytest.raises(RequestRefused, match=r"group g would take .* more than 1100; remove some attributes"):
                await put("a", "b", "c")
            assert b'"g"' not in await groups_of(client)
            await put("a", "b")
            with pytest.raises(RequestRefused, match="group g would take"):
                await put("c")
            await put("a")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tables_of_groups, "FORBIDDEN_BYTES_MAX", 30)
            await client.ask(UpdateAndGetGroupForbidden(group="g", topic="T", readable=False))
            with pytest.raises(RequestRefused, match="may not read take 38 bytes, more than 30; allow it some"):
                await client.ask(UpdateAndGetGroupForbidden(group="g", topic="U" * 20, readable=False))
            await client.ask(UpdateAndGetGroupForbidden(group="g", topic="T", readable=True))

    simulate(scenario)


def join_a_master_with_large_tables() -> None:
    """A replica with an empty disk joins a master whose topics, groups and offsets no answer holds."""

    async def scenario(group: elected.Group, client: Client, readers: list[Client], master: int) -> None:
        await begin(client)
        for number in range(ROWS):
            await make_group(client, f"g{number}")
            await commit(client, f"g{number}", number + 1)
        for number in range(10):
            await client.ask(a_topic(f"N{number}", 3))
        slave = next(number for number in group.members if number != master)
        reader = readers[[number for number in group.members if number != master].index(slave)]
        node = group.members[slave].node
        await node.lose_disk()
        await static.eventually(lambda: in_sync(group, slave), 0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large_answer, "ANSWER_BYTES_MAX", ANSWER_BYTES)
            patch.setattr(offset_parts, "PART_BYTES", PART_BYTES)
            patch.setattr(table_pages, "PAGE", 4)
            with pytest.raises(RequestRefused, match="more than an answer"):
                await client.ask(GetAllConsumerOffset())
            node.start(group.members[slave].run)
            await static.eventually(lambda: in_sync(group, slave), 1)
        found = [await offset(reader, f"g{number}") for number in range(ROWS)]
        assert found == list(range(1, ROWS + 1)), "a replica joined with a part of the offsets"
        assert [await queues_of(reader, f"N{number}") for number in range(10)] == [3] * 10
        theirs, own = [decode(await groups_of(one), SubscriptionGroupTable) for one in (client, reader)]
        assert own == theirs

    run_elected(scenario)


def test_a_replica_joins_with_all_parts_of_large_tables() -> None:
    join_a_master_with_large_tables()


def test_a_question_of_an_older_replica_gets_the_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_parts, "PART_BYTES", PART_BYTES)

    async def scenario(_group: elected.Group, client: Client, _readers: list[Client], _master: int) -> None:
        await begin(client)
        for number in range(20):
            await make_group(client, f"g{number}")
            await commit(client, f"g{number}", number + 1)
        whole = await client.ask(GetAllConsumerOffset())
        assert whole.answer.more is None
        assert len(decode(whole.body, ConsumerOffsetTable).offset_table) == 26
        part = await client.ask(GetAllConsumerOffset(in_parts=True))
        assert part.answer.more
        assert len(decode(part.body, ConsumerOffsetTable).offset_table) < 20

    run_elected(scenario)
