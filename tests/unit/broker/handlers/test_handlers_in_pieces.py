"""Work in pieces while others change the tables between two pieces: nothing is lost, told twice or left without end."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from firearrow.broker.handlers.admin import topic_deletion
from firearrow.broker.handlers.admin.topic_deletion import TopicDeletionHandlers
from firearrow.broker.handlers.group import offset
from firearrow.broker.state.saved import SaveWaiter
from firearrow.broker.tables import changed_rows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.errors import RequestRefused
from firearrow.fastjson import decode
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.bodies.group.offset import ConsumerOffsetTable
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.stats import GetConsumeStats
from firearrow.protocol.requests.admin.topic import CleanUnusedTopic, DeleteTopicInBroker
from firearrow.protocol.requests.group.group import DeleteSubscriptionGroup, UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.offset import UpdateConsumerOffset
from firearrow.protocol.requests.replication.replication import GetAllConsumerOffset
from firearrow.testing.sim.world import World
from tests.unit.broker import whole
from tests.unit.broker.sim import SimBroker, SimClient, simulate


def told_while(change: Callable[[OffsetTable], None], patch: pytest.MonkeyPatch) -> tuple[str | None, set[str]]:
    """Forget rows 0 to 4 of ten, and ask for the changes; return since when they are told, and the rows.

    The table changes after the first row was looked at.
    """

    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> tuple[str | None, set[str]]:
        table, first = broker.assembly.offsets.table, [change]
        for number in range(10):
            table.commit(f"g{number}", "T", 0, 7)
        mark = table.changed_rows.mark
        for number in range(5):
            table.forget_row("T", f"g{number}")

        async def others_run() -> None:
            while first:
                first.pop()(table)
            await asyncio.sleep(0)

        patch.setattr(offset, "OFFSETS_AT_ONCE", 1)
        patch.setattr(offset, "breathe", others_run)
        reply = await client.ask(GetAllConsumerOffset(since=mark))
        assert not first
        return reply.answer.since, set(decode(reply.body, ConsumerOffsetTable).offset_table)

    return simulate(scenario)


def test_a_row_that_changes_again_before_it_is_looked_at_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(table: OffsetTable) -> None:
        for number in range(3, 10):
            table.commit(f"g{number}", "T", 0, 8)

    since, rows = told_while(change, monkeypatch)
    assert since is not None
    assert rows == {f"T@g{number}" for number in range(10)}, "a replica takes it that nothing else has changed"


def test_all_rows_are_told_when_deleted_ones_are_forgotten_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(table: OffsetTable) -> None:
        for number in range(20):
            table.commit("h", f"U{number}", 0, 1)
            table.forget_topic(f"U{number}")

    monkeypatch.setattr(changed_rows, "FORGOTTEN_AT", 3)
    since, rows = told_while(change, monkeypatch)
    assert since is None, "a replica keeps rows that were deleted"
    assert rows == {f"T@g{number}" for number in range(5, 10)}


def test_unused_topics_that_are_made_again_meanwhile_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = TopicDeletionHandlers._complete_deletion

    async def then_the_other_is_made(self: TopicDeletionHandlers, topics: list[str], saved: SaveWaiter) -> None:
        await complete(self, topics, saved)
        self._topics.ensure("second", 4)

    async def scenario(_world: World, _broker: whole.Simulated, client: whole.Client) -> tuple[int, int]:
        for topic in ("first", "second"):
            await client.send(topic, properties=whole.UNIQUE + "DELAY\x011\x02")
            await client.ask(DeleteTopicInBroker(topic=topic))
        await asyncio.sleep(30)  # the delayed messages come to queues without topics
        monkeypatch.setattr(topic_deletion, "DELETED_AT_ONCE", 1)
        monkeypatch.setattr(TopicDeletionHandlers, "_complete_deletion", then_the_other_is_made)
        await client.ask(CleanUnusedTopic())
        return (await client.send("first")).answer.queue_offset, (await client.send("second")).answer.queue_offset

    assert whole.simulate(scenario) == (0, 1)


def test_a_topic_that_is_listed_twice_is_told_once() -> None:
    async def scenario(_world: World, _broker: SimBroker, client: SimClient) -> list[bytes]:
        return [
            bytes((await client.ask(GetConsumeStats(consumer_group="g", topic_list=listed))).body)
            for listed in ("T", "T;T")
        ]

    once, twice = simulate(scenario)
    assert twice == once


@pytest.mark.parametrize(
    "asked", [DeleteTopicInBroker(topic="T"), DeleteSubscriptionGroup(group_name="g", clean_offset=True)]
)
def test_a_deletion_of_which_no_file_can_be_written_fails_once(asked: Request[Any]) -> None:
    async def scenario(_world: World, broker: whole.Simulated, client: whole.Client) -> None:
        await client.send()
        await client.ask(UpdateAndCreateSubscriptionGroup(), encode_body(SubscriptionGroupConfig(group_name="g")))
        await client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=1))
        await asyncio.sleep(30)
        for folder in ("config/", "firearrow/"):
            broker.node.image.fail("write", below=folder, number=errno.ENOSPC, times=20)
        with pytest.raises(RequestRefused, match="cannot write"):
            await client.ask(asked)
        await asyncio.sleep(30)

    whole.simulate(scenario)
