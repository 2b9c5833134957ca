"""A group that is moved in the next life of a topic: what was answered stays, also at the next master."""

import asyncio
from contextlib import suppress

import pytest

from campaigns.samples import a_topic
from firearrow.broker.handlers.group import reset
from firearrow.broker.replication.metadata import Metadata
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.protocol.requests.group.group import DeleteSubscriptionGroup
from firearrow.protocol.requests.group.reset import CloneGroupOffset, InvokeBrokerToResetOffset
from firearrow.runtime.network import Address
from firearrow.runtime.turn import Pace
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.read.lookup import Lookups
from firearrow.testing.sim.world import World
from tests.unit.broker import test_failover_group as elected
from tests.unit.broker import test_replication as static
from tests.unit.broker.test_table_copies import (
    MESSAGES,
    begin,
    copied,
    end,
    fill,
    make_group,
    new_master,
    offset,
    run_elected,
)
from tests.unit.broker.whole import Client

SLOW_S = 2.0
TIMEOUT_MS = 20_000
TO = 3


def a_move(to: int, queue_id: int = 0) -> InvokeBrokerToResetOffset:
    return InvokeBrokerToResetOffset(topic="T", group="g", timestamp=-2, is_force=True, queue_id=queue_id, offset=to)


def move_in_the_next_life() -> None:
    """Delete a topic, make it again, send, and move a group, within one look of the replicas, beside other traffic."""
    copy = Metadata._copy

    async def slow(self: Metadata, master: Address, agreed: int) -> None:
        await asyncio.sleep(SLOW_S)
        await copy(self, master, agreed)

    async def scenario(group: elected.Group, client: Client, readers: list[Client], master: int) -> None:
        await begin(client)
        await client.ask(a_topic("T", 2))
        await fill(client, MESSAGES, queue_id=1)
        await copied(readers)
        busy = asyncio.create_task(send_on(Client(group.world.node("busy"), client.broker)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Metadata, "_copy", slow)
            changes = [asyncio.create_task(client.ask(DeleteTopicInBroker(topic="T"), timeout_ms=TIMEOUT_MS))]
            await asyncio.sleep(0.3)
            changes.append(asyncio.create_task(client.ask(a_topic("T", 2), timeout_ms=TIMEOUT_MS)))
            await asyncio.sleep(0.1)
            await asyncio.gather(*[client.send(body=b"new", queue_id=1) for _ in range(TO + 2)])
            await client.ask(a_move(TO, 1), timeout_ms=TIMEOUT_MS)
            next_client = await new_master(group, master)
        for task in (busy, *changes):
            task.cancel()
        found = await offset(next_client, "g", queue_id=1)
        assert found == TO, f"an answered move to {TO} is lost: the group is at {found}"

    run_elected(scenario)


async def send_on(client: Client) -> None:
    while True:
        with suppress(FireArrowError):
            await client.send("U", bytes(100))
        await asyncio.sleep(0.001)


def test_a_move_in_the_next_life_of_a_topic_is_answered_when_replicas_have_it() -> None:
    move_in_the_next_life()


@pytest.mark.parametrize("is_cloned", [False, True])
def test_a_deletion_that_still_runs_does_not_undo_the_move_of_a_group(*, is_cloned: bool) -> None:
    async def scenario(_world: World, group: static.Group) -> None:
        client = group.client
        await begin(client)
        await make_group(client, "copy")
        deletion = asyncio.create_task(client.ask(DeleteTopicInBroker(topic="T")))
        creation = asyncio.create_task(client.ask(a_topic("T")))
        await asyncio.sleep(0)
        moved = await client.ask(a_move(0))
        assert moved.code == 0
        if is_cloned:
            await client.ask(CloneGroupOffset(src_group="g", dest_group="copy", topic="T", offline=True))
        await asyncio.gather(deletion, creation)
        assert await end(client) == 0
        assert await offset(client, "copy" if is_cloned else "g") == 0, "an answered move is undone"

    static.run(scenario)


@pytest.mark.parametrize("what", ["topic", "group"])
def test_a_group_is_not_moved_by_a_lookup_in_a_life_that_is_over(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset to a time reads a slow device; meanwhile the topic is deleted and made again, or the group deleted."""
    look = Lookups.offset_by_time

    async def slow(self: Lookups, queue: ConsumeQueue, time_ms: int) -> int:
        found = await look(self, queue, time_ms)
        await asyncio.sleep(1)
        return found

    monkeypatch.setattr(Lookups, "offset_by_time", slow)

    async def scenario(_world: World, group: static.Group) -> None:
        client = group.client
        await begin(client)
        to_the_end = InvokeBrokerToResetOffset(topic="T", group="g", timestamp=4_000_000_000_000, is_force=True)
        reset = asyncio.create_task(client.ask(to_the_end))
        await asyncio.sleep(0.2)
        if what == "topic":
            await client.ask(DeleteTopicInBroker(topic="T"))
            await client.ask(a_topic("T"))
        else:
            await client.ask(DeleteSubscriptionGroup(group_name="g", clean_offset=True))
        with pytest.raises(RequestRefused, match="was deleted meanwhile"):
            await reset
        assert await offset(client, "g") == -1

    static.run(scenario)


@pytest.mark.parametrize("what", ["topic", "group"])
def test_a_group_is_moved_no_further_when_it_is_deleted_between_two_queues(what: str) -> None:
    delete_between_two_steps(what)


def delete_between_two_steps(what: str) -> None:
    """A group is moved queue by queue, slowly; meanwhile the topic is deleted and made again, or the group deleted."""
    move = OffsetTable.move

    class SlowPace(Pace):
        async def did(self, work: int = 1) -> None:
            await super().did(work)
            await asyncio.sleep(0.5)

    async def scenario(_world: World, group: static.Group) -> None:
        client, moved = group.client, asyncio.Event()
        await begin(client)
        await client.ask(a_topic("T", 4))

        def noted(self: OffsetTable, group: str, topic: str, queue_id: int, to: int) -> None:
            move(self, group, topic, queue_id, to)
            moved.set()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reset, "AT_ONCE", 1)
            patch.setattr(reset, "Pace", SlowPace)
            patch.setattr(OffsetTable, "move", noted)
            to_the_end = InvokeBrokerToResetOffset(topic="T", group="g", timestamp=-1, is_force=True)
            moving = asyncio.create_task(client.ask(to_the_end, timeout_ms=TIMEOUT_MS))
            await moved.wait()
            if what == "topic":
                await client.ask(DeleteTopicInBroker(topic="T"))
                await client.ask(a_topic("T", 4))
            else:
                await client.ask(DeleteSubscriptionGroup(group_name="g", clean_offset=True))
            with pytest.raises(RequestRefused, match="was deleted meanwhile; 1 of 4 queues are done"):
                await moving
        offsets = [await offset(client, "g", queue_id=one) for one in range(4)]
        assert offsets == [-1] * 4, "a group is moved in a life of the topic that nobody looked at"

    static.run(scenario)
