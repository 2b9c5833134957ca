"""Behaviour for which an elected group promises nothing of its tables: first uses, and deletions of an earlier master.

The decision record of replicated tables says both in plain words.
"""

import asyncio

import pytest

from firearrow.broker.replication.topic_copies import TopicCopies
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.runtime.network import Address
from tests.unit.broker import test_failover_group as elected
from tests.unit.broker import test_replication as static
from tests.unit.broker.test_table_changes import act_and_fail_over, in_sync, queues_of
from tests.unit.broker.test_table_copies import begin, end, run_elected
from tests.unit.broker.whole import PORT, Client

YOUNG = "young"


def test_the_next_master_has_a_topic_that_was_made_by_a_send() -> None:
    async def act(client: Client) -> None:
        await client.send(YOUNG, b"first", queue_id=1)

    async def check(client: Client) -> None:
        assert await queues_of(client, YOUNG) >= 2, "the queue of an acknowledged message is not served"
        assert [message.body for message in await client.stored(YOUNG, queue_id=1)] == [b"first"]

    act_and_fail_over(act, check)


def be_away_over_two_masters() -> None:
    """A replica comes back after its master deleted a topic and another master was elected."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], first: int) -> None:
        await begin(client)
        away, _other = (number for number in group.members if number != first)
        await group.members[away].node.crash()
        await group.until_out(away)
        await client.ask(DeleteTopicInBroker(topic="T"), timeout_ms=30_000)
        await group.members[first].node.crash()
        before = group.state
        assert before is not None
        async with asyncio.timeout(120):
            while (state := group.state) is None or state.epoch == before.epoch:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        group.members[away].node.start(group.members[away].run)
        await static.eventually(lambda: in_sync(group, away), 1)
        reader = Client(group.world.node("reader of the replica"), Address(group.members[away].node.host, PORT))
        assert await queues_of(reader, "T") == -1, "the deleted topic is back"
        assert await end(reader) == 0, "the messages of a deleted topic are back"
        assert await queues_of(reader, "U") == 1

    run_elected(scenario)


def test_a_replica_that_was_away_over_two_masters_brings_no_deleted_topic_back() -> None:
    be_away_over_two_masters()


def test_a_replica_that_keeps_what_its_master_has_not_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicCopies, "_is_stray", lambda _self, _topic: False)
    with pytest.raises(AssertionError, match="of a deleted topic are back"):
        be_away_over_two_masters()
