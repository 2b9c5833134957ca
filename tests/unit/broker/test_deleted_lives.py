"""Topics that are deleted while others use them: an answered deletion holds, and so does what comes after it."""

import asyncio

import pytest

from campaigns.samples import a_topic
from firearrow.broker.replication.topic_copies import TopicCopies
from firearrow.errors import DiskError, FireArrowError, OffsetNotStored
from firearrow.model import keys
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.record.decode import decode_all
from firearrow.record.properties import format_properties
from firearrow.runtime.network import Address
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.queue.files import QueueFiles
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import World
from tests.unit.broker import test_failover_group as elected
from tests.unit.broker import test_replication as static
from tests.unit.broker.test_table_changes import in_sync, queues_of
from tests.unit.broker.test_table_copies import begin, copied, end, new_master, run_elected
from tests.unit.broker.whole import PORT, Client, a_send

PRODUCERS = 4
SECONDS = 2.0
HALVES = 300
COMMITS = 20
MESSAGES = 50
TIMEOUT_MS = 30_000
COMMIT = 0x8


async def half_messages(client: Client, count: int) -> list[EndTransaction]:
    """Store half messages of X; return the requests that commit them."""
    ends = []
    for number in range(count):
        unique = f"AC1100010000{number:04d}"
        half = f"UNIQ_KEY\x01{unique}\x02TRAN_MSG\x01true\x02PGROUP\x01P\x02"
        answer = (await client.ask(a_send("X", properties=half), b"half %d" % number)).answer
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
    return ends


async def bodies_of(client: Client, count: int) -> list[bytes]:
    """Read the first queue of X up to an offset; offsets without a message are passed over."""
    found, at = list[bytes](), 0
    while at < count:
        reply = await client.pull("X", 0, at)
        messages = list(decode_all(reply.body)) if reply.code == ResponseCode.SUCCESS else []
        found += [message.body for message in messages]
        at = at + len(messages) if messages else max(at + 1, reply.answer.next_begin_offset)
    return found


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
        ends = await half_messages(producer, HALVES)
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


def commit_behind_a_deletion(seed: int = 1) -> None:
    """Commit half messages after their topic was deleted, while a replica is slow; read them at the next master."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        await client.ask(a_topic("X"))
        await client.ask(a_topic("U"))
        await client.send("U", b"one")
        ends = await half_messages(client, COMMITS)
        await client.ask(DeleteTopicInBroker(topic="X"), timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(3)
        for one in ends:
            await client.ask(one, timeout_ms=TIMEOUT_MS)
            await asyncio.sleep(0.05)
        await asyncio.sleep(5)
        found = await bodies_of(await new_master(group, master), COMMITS)
        assert len(found) == COMMITS, f"{COMMITS} commits are answered, {len(found)} messages are at the next master"

    run_elected(scenario, seed=seed, sync=True, disks={3: DiskProfile(sync_mean_s=0.1)})


@pytest.mark.parametrize("seed", [1, 2, 4, 5])
def test_commits_behind_a_deletion_hold_at_the_next_master(seed: int) -> None:
    commit_behind_a_deletion(seed)


def commit_behind_a_deletion_of_a_static_group(*, restarts: bool = False) -> None:
    """Commit half messages after their topic was deleted, make the topic again, and read both at a slave."""

    async def scenario(_world: World, group: static.Group) -> None:
        await group.slave.start()
        client = group.client
        await begin(client)
        await copied([group.reader])
        await client.ask(a_topic("X"))
        ends = await half_messages(client, 10)
        await client.ask(DeleteTopicInBroker(topic="X"), timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(1)
        for one in ends[:5]:
            await client.ask(one, timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(30)
        if restarts:
            await group.slave.node.crash()
            await group.slave.start()
            await asyncio.sleep(30)
        await client.ask(a_topic("X"))
        for one in ends[5:]:
            await client.ask(one, timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(30)
        found = [len(await bodies_of(each, 10)) for each in (client, group.reader)]
        assert found == [10, 10], f"the master has {found[0]} committed messages, the slave {found[1]}"

    static.run(scenario)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_slave_keeps_commits_behind_a_deletion(*, restarts: bool) -> None:
    commit_behind_a_deletion_of_a_static_group(restarts=restarts)


def fail_to_delete_at_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that was away fails once to remove the files of a topic that is gone. Then it leads."""
    right, fails = QueueFiles.remove_queue, [False]

    async def remove(self: QueueFiles, queue: ConsumeQueue) -> None:
        if fails[0] and queue.topic in ("X", "Y"):
            fails[0] = False
            raise DiskError("the disk has an error")
        await right(self, queue)

    monkeypatch.setattr(QueueFiles, "remove_queue", remove)

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], first: int) -> None:
        away = next(number for number in group.members if number != first)
        await client.ask(a_topic("U"))
        await client.send("U", b"one")
        for name in ("X", "Y"):
            await client.ask(a_topic(name))
            await client.ask(a_send(name, default_topic="none"), b"m")
        await asyncio.sleep(3)
        await group.members[away].node.crash()
        await group.until_out(away)
        for name in ("X", "Y"):
            await client.ask(DeleteTopicInBroker(topic=name), timeout_ms=TIMEOUT_MS)
        before = group.state
        await group.members[first].node.crash()
        while group.state is None or before is None or group.state.epoch == before.epoch:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        fails[0] = True
        group.members[away].node.start(group.members[away].run)
        await static.eventually(lambda: in_sync(group, away), 1)
        assert not fails[0], "no removal failed"
        await group.members[group.state.master].node.crash()
        group.members[first].node.start(group.members[first].run)
        reader = Client(group.world.node("reader"), Address(group.members[away].node.host, PORT))
        async with asyncio.timeout(100):
            while group.state.master != away or await end(reader, "U") < 0:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await asyncio.sleep(SECONDS)
        found = [await queues_of(reader, name) for name in ("X", "Y")]
        assert found == [-1, -1], f"deleted topics are back with {found} queues"

    run_elected(scenario)


def test_a_replica_that_failed_to_delete_joins_only_when_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_delete_at_a_replica(monkeypatch)


def test_a_replica_that_forgets_what_it_failed_to_delete_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = TopicCopies.delete_strays

    async def forgets(self: TopicCopies, below: int, *, known: bool = False) -> None:
        try:
            await right(self, below, known=known)
        finally:
            self._may_be_strays = False

    monkeypatch.setattr(TopicCopies, "delete_strays", forgets)
    with pytest.raises(AssertionError, match="are back"):
        fail_to_delete_at_a_replica(monkeypatch)


def repeat_a_delayed_row_at_the_next_master() -> None:
    """A first send makes a topic, and its master dies before a replica knows the topic; the sender repeats its row."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        await client.ask(a_topic("U"))
        await client.send("U", b"one")
        await asyncio.sleep(5)
        row = {keys.ROW_ID: "r1", keys.WAIT: "true", keys.DELAY: "4"}
        await client.send("X", b"row", properties=format_properties({**row, keys.UNIQ_KEY: "K1"}))
        reader = await new_master(group, master)
        async with asyncio.timeout(60):
            while True:
                try:
                    await reader.send("X", b"row", properties=format_properties({**row, keys.UNIQ_KEY: "K2"}))
                    break
                except FireArrowError:
                    await asyncio.sleep(0.2)
        await asyncio.sleep(45)
        found = await bodies_of(reader, max(await end(reader, "X"), 1))
        assert found == [b"row"], f"a row that was repeated is delivered {len(found)} times"

    run_elected(scenario)


def test_a_delayed_row_is_stored_once_when_its_topic_is_made_again_by_the_next_master() -> None:
    repeat_a_delayed_row_at_the_next_master()


def join_beside_a_late_commit() -> None:
    """A commit of a deleted topic is not confirmed, because one of two members in sync dies. The third one joins."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        dies, joins = (number for number in group.members if number != master)
        await client.ask(a_topic("X"))
        await client.ask(a_topic("U"))
        await client.send("U", b"one")
        (commit,) = await half_messages(client, 1)
        await client.ask(DeleteTopicInBroker(topic="X"), timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(5)
        await group.members[joins].node.crash()
        await group.until_out(joins)
        group.members[dies].node.freeze()
        with pytest.raises(FireArrowError):
            await client.ask(commit, timeout_ms=500)
        await asyncio.sleep(0.1)
        group.members[dies].node.thaw()
        await group.members[dies].node.crash()
        group.members[joins].node.start(group.members[joins].run)
        await group.until_in(joins)

    run_elected(scenario, sync=True, min_in_sync=2)


def test_a_replica_joins_beside_a_commit_of_a_deleted_topic_that_waits_for_it() -> None:
    join_beside_a_late_commit()


def test_a_replica_that_waits_until_it_may_delete_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = TopicCopies.delete_strays

    async def waits(self: TopicCopies, below: int, *, known: bool = False) -> None:
        await right(self, below, known=known)
        if self._may_be_strays:
            raise OffsetNotStored("there is a queue that the master has no topic of")

    monkeypatch.setattr(TopicCopies, "delete_strays", waits)
    with pytest.raises(TimeoutError):
        join_beside_a_late_commit()
