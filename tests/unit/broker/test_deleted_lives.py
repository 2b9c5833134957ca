"""Topics that are deleted while others use them: an answered deletion holds, and so does what comes after it."""

import asyncio

from campaigns.samples import a_topic
from firearrow.errors import FireArrowError
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.runtime.network import Address
from tests.unit.broker import test_failover_group as elected
from tests.unit.broker import test_replication as static
from tests.unit.broker.test_table_changes import in_sync, queues_of
from tests.unit.broker.test_table_copies import end, new_master, run_elected
from tests.unit.broker.whole import PORT, Client, a_send

PRODUCERS = 4
SECONDS = 2.0
HALVES = 300
MESSAGES = 50
TIMEOUT_MS = 30_000
COMMIT = 0x8


def delete_beside_sends() -> None:
    """Delete a topic while producers send to it that may make no topic."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        await client.ask(a_topic("X", PRODUCERS))
        await client.ask(a_topic("U"))
        stored = 0

        async def produce(queue_id: int) -> None:
            nonlocal stored
            producer = Client(group.world.node(f"producer {queue_id}"), client.broker)
            while True:
                try:
                    await producer.ask(a_send("X", default_topic="none", queue_id=queue_id), b"m", timeout_ms=3000)
                    stored += 1
                except FireArrowError:
                    await asyncio.sleep(0.02)

        producers = [asyncio.create_task(produce(queue_id)) for queue_id in range(PRODUCERS)]
        await asyncio.sleep(SECONDS)
        assert stored > 100
        await client.ask(DeleteTopicInBroker(topic="X"), timeout_ms=TIMEOUT_MS)
        stored = 0
        await asyncio.sleep(SECONDS)
        assert (await queues_of(client, "X"), stored) == (-1, 0), "an answered deletion is undone"
        for producer in producers:
            producer.cancel()
        assert await queues_of(await new_master(group, master), "X") == -1, "a deleted topic is back"

    run_elected(scenario)


def test_producers_that_make_no_topics_do_not_bring_a_deleted_topic_back() -> None:
    delete_beside_sends()


def commit_beside_a_deletion() -> None:
    """Commit half messages while their topic is deleted; afterwards the next master has what the master has."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        await client.ask(a_topic("X"))
        await client.ask(a_topic("U"))
        producer = Client(group.world.node("producer"), client.broker)
        ends = []
        for number in range(HALVES):
            unique = f"AC1100010000{number:04d}"
            half = f"UNIQ_KEY\x01{unique}\x02TRAN_MSG\x01true\x02PGROUP\x01P\x02"
            answer = (await producer.ask(a_send("X", properties=half), b"half")).answer
            ends.append(
                EndTransaction(
                    producer_group="P",
                    tran_state_table_offset=answer.queue_offset,
                    commit_log_offset=int(answer.msg_id[16:32], 16),
                    commit_or_rollback=COMMIT,
                    from_transaction_check=False,
                    msg_id=unique,
                    transaction_id=unique,
                )
            )
        asked = []
        for number, one in enumerate(ends):
            asked.append(asyncio.create_task(producer.ask(one, timeout_ms=TIMEOUT_MS)))
            if number == HALVES // 15:
                asked.append(asyncio.create_task(client.ask(DeleteTopicInBroker(topic="X"), timeout_ms=TIMEOUT_MS)))
            await asyncio.sleep(0.005)
        await asyncio.gather(*asked)
        await asyncio.sleep(SECONDS)
        messages = await end(client, "X")
        assert messages > 50, "too few commits came behind the deletion"
        found = await end(await new_master(group, master), "X")
        assert found == messages, f"{messages} messages are committed at the master, {found} at the next one"

    run_elected(scenario)


def test_commits_beside_a_deletion_hold_at_the_next_master() -> None:
    commit_beside_a_deletion()


def return_after_a_deletion() -> None:
    """A replica is away while a topic is made, filled and deleted, and while the master changes. Then it leads."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], first: int) -> None:
        away = next(number for number in group.members if number != first)
        await client.ask(a_topic("U"))
        await client.send("U", b"one")
        await group.members[away].node.crash()
        await group.until_out(away)
        await client.ask(a_topic("X"))
        for _ in range(MESSAGES):
            await client.ask(a_send("X", default_topic="none"), b"m")
        await client.ask(DeleteTopicInBroker(topic="X"), timeout_ms=TIMEOUT_MS)
        before = group.state
        await group.members[first].node.crash()
        while group.state is None or before is None or group.state.epoch == before.epoch:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        group.members[away].node.start(group.members[away].run)
        await static.eventually(lambda: in_sync(group, away), 1)
        await asyncio.sleep(SECONDS)
        await group.members[group.state.master].node.crash()
        group.members[first].node.start(group.members[first].run)
        reader = Client(group.world.node("reader"), Address(group.members[away].node.host, PORT))
        async with asyncio.timeout(100):
            while group.state.master != away or await end(reader, "U") < 0:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await asyncio.sleep(SECONDS)
        found = await queues_of(reader, "X"), max(await end(reader, "X"), 0)
        assert found == (-1, 0), f"a deleted topic is back with {found[1]} messages"

    run_elected(scenario)


def test_a_deleted_topic_does_not_come_back_with_a_replica_that_was_away() -> None:
    return_after_a_deletion()
