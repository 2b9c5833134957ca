"""A change that was acknowledged to an operator of an elected group is there at the next master, whenever the master is
lost."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from campaigns.samples import a_topic
from firearrow.broker.failover.group_values import MemberFacts
from firearrow.broker.failover.in_sync_set import InSyncSet
from firearrow.broker.failover.table_reports import TableReports
from firearrow.broker.handlers.admin import large_answer
from firearrow.broker.replication.metadata import Metadata
from firearrow.broker.tables.table_changes import TableChanges
from firearrow.errors import FireArrowError, RequestRefused, RequestTimedOut
from firearrow.fastjson import decode
from firearrow.model.group_state import GroupState
from firearrow.protocol.bodies.admin.topic import TopicConfigAndQueueMapping
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import GroupForbidden, SubscriptionGroupConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker, GetTopicConfig
from firearrow.protocol.requests.group.group import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndGetGroupForbidden,
)
from firearrow.protocol.requests.group.reset import InvokeBrokerToResetOffset
from firearrow.runtime.network import Address
from tests.unit.broker import test_failover_group as elected
from tests.unit.broker import test_replication as static
from tests.unit.broker.test_table_copies import (
    MESSAGES,
    begin,
    commit,
    end,
    fill,
    make_group,
    new_master,
    offset,
    run_elected,
)
from tests.unit.broker.whole import PORT, Client

Act = Callable[[Client], Coroutine[Any, Any, None]]


async def queues_of(client: Client, topic: str) -> int:
    """The number of queues of a topic; -1 for no such topic."""
    try:
        return decode((await client.ask(GetTopicConfig(topic=topic))).body, TopicConfigAndQueueMapping).read_queue_nums
    except RequestRefused as refusal:
        if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return -1


async def groups_of(client: Client) -> bytes:
    return bytes((await client.ask(GetAllSubscriptionGroupConfig())).body)


def act_and_fail_over(act: Act, check: Act) -> None:
    """Lose the master as soon as it has answered; check the next one."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        await begin(client)
        await act(client)
        await check(await new_master(group, master))

    run_elected(scenario)


def delete_a_topic() -> None:
    async def act(client: Client) -> None:
        await client.ask(DeleteTopicInBroker(topic="T"))

    async def check(client: Client) -> None:
        assert await queues_of(client, "T") == -1, "the deleted topic is back"
        assert await end(client) == 0, "the messages of a deleted topic are back"
        assert await offset(client, "g") == -1
        assert await offset(client, "g", "U") == 1

    act_and_fail_over(act, check)


def test_a_deleted_topic_does_not_come_back() -> None:
    delete_a_topic()


def test_a_deleted_group_does_not_come_back() -> None:
    async def act(client: Client) -> None:
        await client.ask(DeleteSubscriptionGroup(group_name="g", clean_offset=True))

    async def check(client: Client) -> None:
        assert b'"g"' not in await groups_of(client)
        assert await offset(client, "g") == await offset(client, "g", "U") == -1
        assert await offset(client, "other") == MESSAGES

    act_and_fail_over(act, check)


def change_topics_and_groups() -> None:
    async def act(client: Client) -> None:
        await client.ask(a_topic("T", 7))
        await client.ask(a_topic("N", 3))
        group = SubscriptionGroupConfig(group_name="g", retry_max_times=77)
        await client.ask(UpdateAndCreateSubscriptionGroup(), encode_body(group))
        await client.ask(UpdateAndGetGroupForbidden(group="other", topic="U", readable=False))

    async def check(client: Client) -> None:
        assert await queues_of(client, "T") == 7, "the change of a topic is lost"
        assert await queues_of(client, "N") == 3, "the new topic is lost"
        assert b'"retryMaxTimes":77' in await groups_of(client)
        asked = UpdateAndGetGroupForbidden(group="other", topic="U")
        readable = decode((await client.ask(asked)).body, GroupForbidden).readable
        assert not readable, "a forbidden topic may be read again"

    act_and_fail_over(act, check)


def test_changes_of_topics_and_groups_are_at_the_next_master() -> None:
    change_topics_and_groups()


def forbid_a_group_that_does_not_exist() -> None:
    """Forbid a topic to a group that is made later, where the master's groups are copied by pages."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        await begin(client)
        for number in range(20):
            await make_group(client, f"h{number}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large_answer, "ANSWER_BYTES_MAX", 1200)
            await client.ask(UpdateAndGetGroupForbidden(group="later", topic="T", readable=False))
            next_master = await new_master(group, master)
        asked = await next_master.ask(UpdateAndGetGroupForbidden(group="later", topic="T"))
        assert not decode(asked.body, GroupForbidden).readable, "a forbidden topic may be read again"

    run_elected(scenario)


def test_a_topic_is_forbidden_to_a_group_that_does_not_exist_yet_at_the_next_master() -> None:
    forbid_a_group_that_does_not_exist()


def move_a_group() -> None:
    """An operator moves a group whose consumers go on at another master without having heard of it."""

    async def act(client: Client) -> None:
        reset = InvokeBrokerToResetOffset(topic="T", group="g", queue_id=0, offset=3, timestamp=-1, is_force=True)
        await client.ask(reset)

    async def check(client: Client) -> None:
        assert await offset(client, "g") == 3
        await commit(client, "g", MESSAGES)
        assert await offset(client, "g") == 3, "a commit of consumers that did not hear of the move has undone it"
        told = await client.pull(offset=MESSAGES)
        assert (told.code, told.answer.next_begin_offset) == (ResponseCode.PULL_OFFSET_MOVED, 3)
        await commit(client, "g", 4)
        assert await offset(client, "g") == 4

    act_and_fail_over(act, check)


def test_an_offset_that_was_reset_is_at_the_next_master() -> None:
    move_a_group()


def test_a_move_that_consumers_have_taken_is_over_at_the_next_master() -> None:
    async def act(client: Client) -> None:
        reset = InvokeBrokerToResetOffset(topic="T", group="g", queue_id=0, offset=3, timestamp=-1, is_force=True)
        await client.ask(reset)
        await client.pull(offset=MESSAGES)
        await commit(client, "g", 7)
        await asyncio.sleep(5)

    async def check(client: Client) -> None:
        assert await offset(client, "g") == 7
        await commit(client, "g", 8)
        assert await offset(client, "g") == 8

    act_and_fail_over(act, check)


def test_a_change_is_not_answered_while_a_replica_in_sync_does_not_take_it() -> None:
    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        await begin(client)
        slave = next(number for number in group.members if number != master)
        group.members[slave].node.freeze()
        with pytest.raises(FireArrowError):
            await client.ask(DeleteTopicInBroker(topic="T"), timeout_ms=2_000)
        group.members[slave].node.thaw()
        await group.until_in_sync(3)
        await client.ask(DeleteTopicInBroker(topic="T"))

    run_elected(scenario)


async def no_copy(_self: Metadata, _master: Address, _agreed: int) -> None:
    raise RequestTimedOut("the tables are not told")


def lose_the_directory_of_a_replica(*, has_told: bool = False) -> None:
    """A replica that begins with nothing is in sync again when it has the tables, and not before.

    Either it has told the last change before, from the directory that it lost, or it has not.
    """

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        await begin(client)
        slave = next(number for number in group.members if number != master)
        node = group.members[slave].node
        if has_told:
            await client.ask(a_topic("N", 3))
        await node.lose_disk()
        await static.eventually(lambda: in_sync(group, slave), 0)
        if not has_told:
            await client.ask(a_topic("N", 3), timeout_ms=30_000)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Metadata, "_copy", no_copy)
            node.start(group.members[slave].run)
            await asyncio.sleep(20)
            state = group.state
            assert state is not None
            assert slave not in state.iss, "a replica is in sync without the tables"
        await group.until_in_sync(3)
        reader = Client(group.world.node("reader of the slave"), Address(node.host, PORT))
        assert await queues_of(reader, "N") == 3
        assert await queues_of(reader, "U") == 1

    run_elected(scenario)


def replace_the_disk_of_a_replica() -> None:
    """A replica loses its directory after it has told of every change."""
    lose_the_directory_of_a_replica(has_told=True)


async def in_sync(group: elected.Group, replica: int) -> int:
    """The number of times a replica is in the in-sync set."""
    state = group.state
    return 0 if state is None else state.iss.count(replica)


@pytest.mark.parametrize("has_told", [False, True])
def test_a_replica_that_lost_its_directory_joins_with_the_tables(*, has_told: bool) -> None:
    lose_the_directory_of_a_replica(has_told=has_told)


def test_reports_of_another_directory_or_of_an_earlier_membership_count_for_nothing() -> None:
    changes = TableChanges()
    group = GroupState(epoch=4, master=1, iss=(1, 2), iss_seq=1, min_iss=2, directories=((1, 11), (2, 12)))
    found = TableReports(changes, lambda: InSyncSet(group), lambda: 5_000)
    found.reported(2, 0)
    assert found.has_tables(2)
    old, group = group, group.with_directory(2, 22)
    assert not found.has_tables(2), "an empty directory has what another one had"
    group = old
    assert found.has_tables(2)
    found.left({2})
    assert not found.has_tables(2), "a replica that left the set has told for ever"
    found.reported(2, 0)
    assert found.has_tables(2)


def join_a_master_that_does_not_serve_yet() -> None:
    """A replica that missed a change is needed by the next master, which dies as soon as the replica is in sync.

    Tables take half a second to arrive: a replica that joins by its log alone has not got them then.
    """
    copy = Metadata._copy

    async def copy_late(self: Metadata, master: Address, agreed: int) -> None:
        await asyncio.sleep(0.5)
        await copy(self, master, agreed)

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        away, second = [number for number in group.members if number != master]
        await group.members[away].node.crash()
        await group.until_out(away)
        await begin(client)
        await group.members[master].node.crash()
        group.members[away].node.start(group.members[away].run)
        async with asyncio.timeout(120):
            while (state := group.state) is None or state.master != second or away not in state.iss:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await group.members[second].node.crash()
        group.members[master].node.start(group.members[master].run)
        async with asyncio.timeout(120):
            while (state := group.state) is None or state.master == second:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert state.master == away
        last = Client(group.world.node("last operator"), Address(group.members[away].node.host, PORT))
        async with asyncio.timeout(120):
            while await end(last) < 0:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert await queues_of(last, "U") == 1, "a replica joined without the tables"
        assert b'"third"' in await groups_of(last), "a replica joined without the tables"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Metadata, "_copy", copy_late)
        run_elected(scenario)


def test_a_replica_joins_a_master_that_does_not_serve_yet_with_the_tables() -> None:
    join_a_master_that_does_not_serve_yet()


def reports(iss: tuple[int, ...] = (1, 2, 3)) -> tuple[TableChanges, TableReports]:
    changes = TableChanges()
    group = GroupState(epoch=4, master=1, iss=iss, iss_seq=1, min_iss=2, directories=((1, 11), (2, 12), (3, 13)))
    return changes, TableReports(changes, lambda: InSyncSet(group), lambda: 5_000)


def test_the_replicas_of_this_epoch_and_directory_alone_are_known() -> None:
    _, found = reports()
    assert found.knows(3, 4, 13)
    for replica, epoch, directory in ((3, 3, 13), (3, 4, 12), (9, 4, 0)):
        assert not found.knows(replica, epoch, directory)


def test_a_change_is_confirmed_when_all_replicas_have_told_so() -> None:
    changes, found = reports()
    changes.number = 2
    found.reported(2, 2)
    assert found.line.confirmed == 0
    found.reported(3, 3)
    assert found.line.confirmed == 0
    found.reported(3, 1)
    assert found.line.confirmed == 1
    found.reported(3, 2)
    assert found.line.confirmed == 2


def test_a_replica_that_lacks_an_answered_change_does_not_join() -> None:
    changes, found = reports(iss=(1, 2))
    assert not found.has_tables(3)
    found.reported(3, 0)
    assert found.has_tables(3)
    changes.number = 1
    found.reported(2, 1)
    assert found.line.confirmed == 1
    assert not found.has_tables(3)
    found.reported(3, 1)
    assert found.has_tables(3)


def test_members_of_older_versions_are_not_waited_for() -> None:
    changes, found = reports()
    changes.number = 1
    found.reported(2, 1)
    assert found.line.confirmed == 0
    found.old = frozenset({3})
    found.look()
    assert found.line.confirmed == 1
    assert found.has_tables(3)
    assert not MemberFacts("a", "b").tells_tables


def make_the_topic_again_at_once() -> None:
    """A producer makes a deleted topic again before any replica has looked; its other queues must stay empty."""

    async def act(client: Client) -> None:
        await client.ask(a_topic("T", 2))
        await fill(client, 5, queue_id=1)
        deletion = asyncio.create_task(client.ask(DeleteTopicInBroker(topic="T")))
        async with asyncio.timeout(20):
            while await queues_of(client, "T") >= 0:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            while not await took(client):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await deletion

    async def check(client: Client) -> None:
        assert await end(client, queue_id=0) == 1
        assert await end(client, queue_id=1) == 0, "messages of a deleted topic are back"
        assert await offset(client, "g") == -1

    act_and_fail_over(act, check)


async def took(client: Client) -> bool:
    try:
        return (await client.send("T", b"new life")).code == 0
    except FireArrowError:
        return False


def test_a_topic_that_is_made_again_at_once_has_nothing_of_its_earlier_life() -> None:
    make_the_topic_again_at_once()
