"""Deletions of a master reach its slaves: topics with their queues, groups, and offsets of groups."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any

import pytest

from campaigns.samples import a_topic
from firearrow.broker.replication.offset_copies import ROWS_AT_ONCE, OffsetCopies, ToldOffsets
from firearrow.broker.tables import changed_rows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.errors import FireArrowError
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.protocol.requests.group.group import DeleteSubscriptionGroup, UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.offset import GetMaxOffset, QueryConsumerOffset, UpdateConsumerOffset
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.transport import LinkProfile
from firearrow.testing.sim.world import World
from tests.unit.broker import test_failover_group as elected
from tests.unit.broker import test_replication as static
from tests.unit.broker.whole import PORT, Client, Names

MESSAGES = 20
NEW_MESSAGES = 12
COPIED_S = 15.0
OLDEST_S = 4.0
"""The age of a slave's offsets that is too old where a look takes about a second and comes every second."""


async def make_group(client: Client, name: str) -> None:
    await client.ask(UpdateAndCreateSubscriptionGroup(), encode_body(SubscriptionGroupConfig(group_name=name)))


async def commit(client: Client, group: str, offset: int, topic: str = "T", queue_id: int = 0) -> None:
    await client.ask(UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset))


async def offset(client: Client, group: str, topic: str = "T", queue_id: int = 0) -> int:
    """The offset that a broker tells; -1 for none."""
    asked = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False)
    try:
        return int((await client.ask(asked)).answer.offset)
    except FireArrowError:
        return -1


async def end(client: Client, topic: str = "T", queue_id: int = 0) -> int:
    """The end of a queue; -1 while nobody answers."""
    try:
        return int((await client.ask(GetMaxOffset(topic=topic, queue_id=queue_id, committed=False))).answer.offset)
    except FireArrowError:
        return -1


async def fill(client: Client, count: int, queue_id: int = 0) -> None:
    for number in range(count):
        await client.send(body=b"%d" % number, queue_id=queue_id)


async def delete_all(client: Client) -> None:
    """Delete the topic, and a group with its offsets."""
    await client.ask(DeleteTopicInBroker(topic="T"))
    await client.ask(DeleteSubscriptionGroup(group_name="other", clean_offset=True))


async def begin(client: Client) -> None:
    await client.ask(a_topic("T"))
    for group in ("g", "other", "third"):
        await make_group(client, group)
    await client.ask(a_topic("U"))
    await client.send("U", b"one")
    await fill(client, MESSAGES)
    for group in ("g", "other", "third"):
        await commit(client, group, MESSAGES)
        await commit(client, group, 1, "U")


async def gone(readers: list[Client]) -> None:
    """Wait until every slave has lost what was deleted."""
    for reader in readers:
        await static.eventually(lambda at=reader: offset(at, "g"), -1)  # type: ignore[misc]
        await static.eventually(lambda at=reader: end(at), 0)  # type: ignore[misc]
        await static.eventually(lambda at=reader: offset(at, "other", "U"), -1)  # type: ignore[misc]
        assert await offset(reader, "third", "U") == 1, "an offset that was not deleted is gone"


async def copied(readers: list[Client]) -> None:
    for reader in readers:
        for group in ("g", "other", "third"):
            await static.eventually(lambda at=reader, who=group: offset(at, who), MESSAGES)  # type: ignore[misc]
            await static.eventually(lambda at=reader, who=group: offset(at, who, "U"), 1)  # type: ignore[misc]


def run_elected(
    scenario: Callable[[elected.Group, Client, list[Client], int], Coroutine[Any, Any, None]],
    *,
    seed: int = 1,
    sync: bool = False,
    min_in_sync: int | None = None,
    disks: Mapping[int, DiskProfile] | None = None,
) -> None:
    """Run a scenario with a group of three, some of which have disks of their own."""

    async def body(world: World) -> None:
        names = await Names(world.node("names")).start()
        group = elected.Group(world, names, CoordinatorFaults(), sync=sync, min_in_sync=min_in_sync, disks=disks)
        group.start()
        await group.until_in_sync(3)
        await group.send_until(1)
        state = group.state
        assert state is not None
        node = world.node("operator")
        clients = {number: Client(node, Address(member.node.host, PORT)) for number, member in group.members.items()}
        master = clients.pop(state.master)
        await scenario(group, master, list(clients.values()), state.master)

    World(seed).run(body)


async def new_master(group: elected.Group, old: int) -> Client:
    """Kill the master; return a client of the next one."""
    await group.members[old].node.crash()
    async with asyncio.timeout(120):
        while (state := group.state) is None or state.master == old:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    client = Client(group.world.node("next operator"), Address(group.members[state.master].node.host, PORT))
    async with asyncio.timeout(120):
        while await end(client, "U") < 0:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return client


def test_a_slave_loses_what_its_master_has_deleted() -> None:
    async def scenario(_world: World, group: static.Group) -> None:
        await group.slave.start()
        await begin(group.client)
        await copied([group.reader])
        await delete_all(group.client)
        await gone([group.reader])

    static.run(scenario)


def test_a_slave_that_was_away_loses_what_its_master_has_deleted() -> None:
    async def scenario(_world: World, group: static.Group) -> None:
        await group.slave.start()
        await begin(group.client)
        await copied([group.reader])
        await group.slave.node.crash()
        await delete_all(group.client)
        await group.slave.start()
        await static.eventually(lambda: end(group.reader), 0)
        await gone([group.reader])

    static.run(scenario)


@pytest.mark.parametrize("is_quick", [False, True])
def test_offsets_of_a_deleted_topic_skip_no_message_after_a_failover(*, is_quick: bool) -> None:
    """Delete a topic and make it again, at once or after slaves looked; lose the master; the group skips nothing."""

    async def scenario(group: elected.Group, client: Client, readers: list[Client], master: int) -> None:
        await begin(client)
        await copied(readers)
        await delete_all(client)
        if not is_quick:
            await gone(readers)
        await client.ask(a_topic("T"))
        await fill(client, NEW_MESSAGES)
        await asyncio.sleep(COPIED_S)
        client = await new_master(group, master)
        assert await end(client) == NEW_MESSAGES
        found = await offset(client, "g")
        assert found <= 0, f"the group skips {found} acknowledged messages of the new topic"

    run_elected(scenario)


def test_offsets_of_the_topics_next_life_are_copied() -> None:
    async def scenario(group: elected.Group, client: Client, readers: list[Client], master: int) -> None:
        await begin(client)
        await copied(readers)
        await delete_all(client)
        await client.ask(a_topic("T"))
        await fill(client, NEW_MESSAGES)
        await commit(client, "g", 5)
        for reader in readers:
            await static.eventually(lambda at=reader: offset(at, "g"), 5)  # type: ignore[misc]
        client = await new_master(group, master)
        assert await offset(client, "g") == 5

    run_elected(scenario)


def knows(_topic: str, group: str) -> bool:
    return group != "deleted"


def take(copies: OffsetCopies, table: dict[str, dict[int, int]], told_at: int = 0) -> bool:
    return asyncio.run(copies.take(ToldOffsets(table), told_at))


def test_a_row_that_was_committed_here_stays_until_the_master_changes_it() -> None:
    offsets = OffsetTable()
    copies = OffsetCopies(offsets, knows)
    take(copies, {"T@g": {0: 1}})
    offsets.commit("g", "T", 0, 2)
    offsets.commit("here", "T", 0, 3)
    take(copies, {"T@g": {0: 1}})
    assert offsets.of("g", "T") == {0: 2}
    assert offsets.of("here", "T") == {0: 3}
    take(copies, {"T@g": {0: 1, 1: 7}})
    assert offsets.of("g", "T") == {0: 1, 1: 7}
    take(copies, {"T@g": {1: 7}})
    assert offsets.of("g", "T") == {1: 7}
    take(copies, {})
    assert offsets.of("g", "T") == {}
    take(copies, {"T@g": {0: 4, 1: 7}, "T@deleted": {0: 1}})
    offsets.commit("g", "T", 0, 5)
    offsets.commit("deleted", "T", 0, 5)
    take(copies, {})
    assert offsets.of("g", "T") == {0: 5}, "the master lost its row, and the group went on here"
    assert offsets.of("deleted", "T") == {}
    assert offsets.of("here", "T") == {0: 3}


def test_rows_that_were_told_before_a_topic_ended_are_taken_at_the_next_look() -> None:
    offsets = OffsetTable()
    copies = OffsetCopies(offsets, knows)
    copies.ended("T", 500)
    assert not take(copies, {"T@g": {0: 9}, "U@g": {0: 1}}, told_at=400), "a row was left out, and nobody tells of it"
    assert offsets.of("g", "T") == {}
    assert offsets.of("g", "U") == {0: 1}
    assert take(copies, {"T@g": {0: 9}, "U@g": {0: 1}}, told_at=600)
    assert offsets.of("g", "T") == {0: 9}


def test_changed_rows_are_taken_and_deleted() -> None:
    offsets = OffsetTable()
    copies = OffsetCopies(offsets, knows)
    asyncio.run(copies.take(ToldOffsets({"T@g": {0: 1}, "T@h": {0: 1}}, "run:5"), 0))
    assert copies.mark == "run:5"
    offsets.commit("h", "T", 0, 9)
    asyncio.run(copies.take(ToldOffsets({"T@g": {0: 3}}, "run:6", "run:5"), 0))
    assert offsets.of("g", "T") == {0: 3}
    assert offsets.of("h", "T") == {0: 9}
    asyncio.run(copies.take(ToldOffsets({"T@g": {}}, "run:7", "run:6"), 0))
    assert offsets.of("g", "T") == {}
    copies.ended("T", 500)
    assert not asyncio.run(copies.take(ToldOffsets({"T@g": {0: 4}}, "run:8", "run:7"), 400))
    assert offsets.of("g", "T") == {}
    assert copies.mark is None, "the row was left out, and nobody asks for all rows"


def take_the_same_offset_in_the_next_life() -> None:
    for since in (None, "run:1"):
        offsets = OffsetTable()
        copies = OffsetCopies(offsets, knows)
        asyncio.run(copies.take(ToldOffsets({"T@g": {0: 3}}, "run:1"), 400))
        offsets.forget_queue("T", 0)
        copies.ended("T", 500)
        assert asyncio.run(copies.take(ToldOffsets({"T@g": {0: 3}}, "run:2", since), 600))
        assert offsets.of("g", "T") == {0: 3}, "the offset of the next life is lost"


def test_the_same_offset_in_the_next_life_is_taken() -> None:
    take_the_same_offset_in_the_next_life()


def test_a_copy_that_is_cut_off_between_two_rows_keeps_every_move() -> None:
    moved = {"T@g": {0: 100}}
    told = {"T@g": {0: 100}, **{f"U{number}@g": {0: 900} for number in range(3 * ROWS_AT_ONCE)}}

    async def cut_off(steps: int) -> OffsetTable:
        offsets = OffsetTable()
        copies = OffsetCopies(offsets, knows)
        await copies.take(ToldOffsets(told, "run:1", None, moved), 0)
        again = asyncio.create_task(copies.take(ToldOffsets(told, "run:2", None, moved), 0))
        for _ in range(steps):
            await asyncio.sleep(0)
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
        return offsets

    for steps in range(6):
        offsets = asyncio.run(cut_off(steps))
        assert offsets.moved_of("T", "g") == {0: 100}
        assert not offsets.commit("g", "T", 0, 5000), "the commit comes from a consumer that has not heard of the reset"


def test_a_copied_row_takes_and_drops_the_moves_of_its_master() -> None:
    offsets = OffsetTable()
    copies = OffsetCopies(offsets, knows)
    asyncio.run(copies.take(ToldOffsets({"T@g": {0: 100}}, "run:1", None, {"T@g": {0: 100}}), 0))
    asyncio.run(copies.take(ToldOffsets({"T@g": {0: 50}}, "run:2", "run:1", {"T@g": {0: 50}}), 0))
    assert (offsets.of("g", "T"), offsets.moved_of("T", "g")) == ({0: 50}, {0: 50})
    asyncio.run(copies.take(ToldOffsets({"T@g": {0: 60}}, "run:3", "run:2", {}), 0))
    assert (offsets.of("g", "T"), offsets.moved_of("T", "g")) == ({0: 60}, {})


def test_a_clone_replaces_an_earlier_move() -> None:
    offsets = OffsetTable()
    offsets.commit("g", "T", 0, 900)
    offsets.move("h", "T", 0, 100)
    offsets.clone("g", "h", "T")
    assert offsets.committed("h", "T", 0) == 900
    assert offsets.take_move("h", "T", 0) is None
    assert offsets.commit("h", "T", 0, 950)


def test_counts_follow_deleted_offsets() -> None:
    offsets = OffsetTable()
    for queue_id in range(3):
        offsets.commit("g", "T", queue_id, 5)
        offsets.note_pulled("g", "T", queue_id, 6)
    offsets.move("g", "T", 1, 2)
    offsets.forget_queue("T", 1)
    assert len(offsets) == 2
    assert not offsets.is_moved("g", "T", 1)
    assert offsets.committed("g", "T", 1) == -1
    offsets.forget_row("T", "g")
    assert len(offsets) == 0
    assert offsets.groups_of("T") == []


def test_changed_rows_are_those_after_the_mark() -> None:
    offsets = OffsetTable(name="run")
    offsets.commit("g", "T", 0, 1)
    offsets.commit("h", "T", 0, 1)
    mark = offsets.changed_rows.mark
    assert offsets.changed_rows.since(mark) == []
    offsets.commit("g", "T", 0, 1)
    assert offsets.changed_rows.since(mark) == []
    offsets.commit("g", "T", 0, 2)
    offsets.forget_row("T", "h")
    assert set(offsets.changed_rows.since(mark) or ()) == {("T", "g"), ("T", "h")}
    assert b'"T@h":{}' in b"".join(offsets.pieces(offsets.changed_rows.since(mark)))
    assert b"T@h" not in b"".join(offsets.pieces())


@pytest.mark.parametrize("mark", [None, "", "run:", "other:1", "run:2", "run:-1", "run:x", ":1"])
def test_a_mark_that_is_not_known_gets_all_rows(mark: str | None) -> None:
    offsets = OffsetTable(name="run")
    offsets.commit("g", "T", 0, 1)
    assert offsets.changed_rows.since(mark) is None


def test_the_memory_of_deleted_rows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_rows, "FORGOTTEN_AT", 10)
    offsets = OffsetTable(name="run")
    mark = offsets.changed_rows.mark
    for number in range(30):
        offsets.commit("g", f"T{number}", 0, 1)
        offsets.forget_topic(f"T{number}")
    assert offsets.changed_rows.since(mark) is None
    assert len(offsets.changed_rows._rows) <= 12


def test_rows_after_a_number_are_those_of_one_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_rows, "FORGOTTEN_AT", 30)
    monkeypatch.setattr(changed_rows, "BLOCK_ROWS", 16)
    monkeypatch.setattr(changed_rows, "MERGED_ROWS", 8)
    monkeypatch.setattr(changed_rows, "LOOK_EVERY", 2)
    random = Random(7)
    rows, table, expected = changed_rows.ChangedRows("run"), set[changed_rows.Key](), dict[changed_rows.Key, int]()
    for number in range(1, 6_000):
        key = ("T", f"g{min(int(random.expovariate(0.03)), 400)}")
        if random.random() < (0.2 if number < 3_000 else 0.6):
            table.discard(key)
        else:
            table.add(key)
        rows.note(key, table)
        expected.pop(key, None)
        expected[key] = number
        if number % 5 == 0:
            start, most = random.randrange(number), random.choice((1, 7, 1000))
            living = [row for row in expected.items() if row[0] in table and row[1] > start]
            found = rows.after(start, len(expected))
            assert [row for row in found if row[0] in table] == living
            assert rows.after(start, most) == found[:most]
            assert len(rows._blocks) < 6 + len(rows._rows)
            assert len(rows._rows) <= 2 * len(table) + 30 + 16 + number % 1000
    assert rows.name != "run.0"
    newest = [key for key, _ in rows.after(0, 6_000)]
    for key in newest:
        rows.note(key, table)
    assert [key for key, _ in rows.after(0, 6_000)] == newest


def test_a_row_that_is_deleted_while_others_are_forgotten_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_rows, "FORGOTTEN_AT", 100)
    monkeypatch.setattr(changed_rows, "BLOCK_ROWS", 16)
    rows, kept, late = changed_rows.ChangedRows("run"), ("T", "kept"), ("T", "late")
    table = {kept, late}
    rows.note(kept, table)
    for number in range(103):
        rows.note(("T", f"gone{number}"), table)
    rows.note(late, table)
    assert rows.name == "run.1"
    mark = rows.mark
    table.discard(kept)
    rows.note(kept, table)
    for _ in range(100):
        rows.note(late, table)
    assert len(rows._rows) == 2, "deleted rows were not forgotten"
    marked = rows.number_of(mark)
    assert marked is not None
    assert kept in dict(rows.after(marked, 10)), "a deletion was forgotten of which nobody was told"


def copy_offsets_over_a_slow_network() -> None:
    """Commit again and again while every question to the master takes long; slaves must have recent offsets."""

    async def body(world: World) -> None:
        names = await Names(world.node("names")).start()
        group = elected.Group(world, names, CoordinatorFaults(), sync=False)
        group.start()
        await group.until_in_sync(3)
        await group.send_until(1)
        state = group.state
        assert state is not None
        node, committed = world.node("operator"), dict[int, float]()
        clients = {number: Client(node, Address(member.node.host, PORT)) for number, member in group.members.items()}
        await make_group(clients[state.master], "g")
        loop = asyncio.get_running_loop()
        began, oldest = loop.time(), 0.0
        while loop.time() < began + 40:
            number = len(committed) + 1
            await commit(clients[state.master], "g", number)
            committed[number] = loop.time()
            for replica, client in clients.items():
                if replica != state.master and loop.time() > began + 10:
                    found = await offset(client, "g")
                    assert found >= 0, "the slave has no offset at all"
                    age = loop.time() - committed[found]
                    assert age < OLDEST_S, f"the slave's offset is {age:.1f} s old"
                    oldest = max(oldest, age)
        assert oldest > 0

    World(1, links=LinkProfile(latency_mean_s=0.05, latency_min_s=0.04)).run(body)


def test_a_slow_copy_makes_no_pause() -> None:
    copy_offsets_over_a_slow_network()
