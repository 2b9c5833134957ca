"""Topics are deleted for good: no crash brings their messages back, also where a producer goes on sending."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from firearrow.broker.handlers.admin.topic_deletion import TopicDeletionHandlers
from firearrow.errors import RequestRefused
from firearrow.protocol.requests.admin.topic import CleanUnusedTopic, DeleteTopicInBroker
from firearrow.store.placement import Placed
from firearrow.store.queue.consume_queue import ENTRY
from firearrow.store.views.topic_lives import Lives
from firearrow.store.views.views import Views
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.whole import UNIQUE, Client, Simulated, settings_of, simulate


def bodies_after_a_crash(*, is_quiet: bool) -> list[bytes]:
    """The bodies of a topic that was deleted, made again after a crash, and got one message."""

    async def scenario(world: World, broker: Simulated, client: Client) -> list[bytes]:
        for number in range(5):
            await client.send("gone", b"deleted %d" % number)
            await client.send("kept", b"%d" % number)
        if is_quiet:
            await asyncio.sleep(30)  # everything is flushed, so that a flush finds nothing new
        await client.ask(DeleteTopicInBroker(topic="gone"))
        await broker.node.crash()
        await broker.start()
        after = Client(world.node("after"), broker.address)
        assert (await after.send("gone", b"new")).answer.queue_offset == 0
        assert len(await after.stored("kept")) == 5
        return [message.body for message in await after.stored("gone")]

    return simulate(scenario, settings_of())


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_crash_brings_no_deleted_topic_back(*, is_quiet: bool) -> None:
    assert bodies_after_a_crash(is_quiet=is_quiet) == [b"new"]


def test_a_start_after_a_deletion_reads_nothing_of_the_log_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    catch_up = Views.catch_up

    async def seen(self: Views, opened: object) -> None:
        read.append(opened.recovered.end - self.durable)  # type: ignore[attr-defined]
        await catch_up(self, opened)  # type: ignore[arg-type]

    monkeypatch.setattr(Views, "catch_up", seen)
    bodies_after_a_crash(is_quiet=True)
    assert read == [0, 0]


def deletes_half(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: the files of the queues go, and what a start goes by still names them."""

    async def files_alone(self: TopicDeletionHandlers, topics: list[str], _ended: Callable[[str, int], None]) -> None:
        for topic in topics:
            await self._store.queues.delete_topic(topic)

    patch.setattr(TopicDeletionHandlers, "_delete_queues", files_alone)


@pytest.mark.parametrize("is_quiet", [False, True])
def test_half_a_deletion_is_caught(monkeypatch: pytest.MonkeyPatch, *, is_quiet: bool) -> None:
    deletes_half(monkeypatch)
    with pytest.raises(AssertionError):
        bodies_after_a_crash(is_quiet=is_quiet)


def test_a_producer_that_goes_on_sending_finds_an_empty_topic() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> tuple[list[int], list[bytes]]:
        for number in range(5):
            await client.send("gone", b"deleted %d" % number)
        deletion = asyncio.create_task(client.ask(DeleteTopicInBroker(topic="gone")))
        await asyncio.sleep(0.0012)
        sends = [asyncio.create_task(client.send("gone", b"new")) for _ in range(3)]
        await deletion
        offsets = [(await send).answer.queue_offset for send in sends]
        return offsets, [message.body for message in await client.stored("gone")]

    for seed in range(10):
        assert simulate(scenario, seed=seed) == ([0, 1, 2], [b"new"] * 3)


def test_a_deletion_that_finds_no_space_says_so_and_is_durable_soon() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> int:
        await client.send("gone")
        await asyncio.sleep(30)
        broker.node.image.fail("write", path="checkpoint.tmp", number=errno.ENOSPC)
        with pytest.raises(RequestRefused, match="delete again"):
            await client.ask(DeleteTopicInBroker(topic="gone"))
        await asyncio.sleep(30)
        await broker.node.crash()
        await broker.start()
        return (await Client(world.node("after"), broker.address).send("gone")).answer.queue_offset

    assert simulate(scenario) == 0


def test_queues_of_topics_that_are_gone_are_cleaned_for_good() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> int:
        await client.send("gone", properties=UNIQUE + "DELAY\x011\x02")
        await client.ask(DeleteTopicInBroker(topic="gone"))
        await asyncio.sleep(30)  # the delayed message comes to a queue without a topic
        await client.ask(CleanUnusedTopic())
        await broker.node.crash()
        await broker.start()
        return (await Client(world.node("after"), broker.address).send("gone")).answer.queue_offset

    assert simulate(scenario) == 0


async def apache_died(node: Node) -> None:
    """Apache's broker was started on the directory, and killed."""
    await node.disk.replace("abort", b"4711")


async def lose_the_journal(node: Node) -> None:
    """Both copies of what our own start goes by are gone."""
    for path in ("firearrow/views.journal", "firearrow/views.journal.bak"):
        await node.disk.unlink(path)


async def rot_a_queue(node: Node) -> None:
    """The last entry of another queue is wrong, so that the log is read again from its start."""
    await lose_the_journal(node)
    path = "consumequeue/other/0/00000000000000000000"
    await node.disk.replace(path, ENTRY.pack(5, 7, 0).ljust(node.disk.status(path).size, b"\0"))


THE_LAST_LIFE = [b"new %d" % number for number in range(21)]


def bodies_of_the_last_life(between: Callable[[Node], Coroutine[Any, Any, None]], *, crash: bool) -> list[bytes]:
    """The bodies of a topic that was deleted and made again, when its queues are made again from the log."""

    async def scenario(world: World, broker: Simulated, client: Client) -> list[bytes]:
        await client.send("other")
        for number in range(40):
            await client.send("T", b"deleted %d" % number)
        await client.ask(DeleteTopicInBroker(topic="T"))
        for number in range(20):
            await client.send("T", b"new %d" % number)
        await asyncio.sleep(12)
        await (broker.node.crash() if crash else broker.node.stop())
        broker.node.start(between)
        await asyncio.sleep(5)
        await broker.start()
        after = Client(world.node("after"), broker.address)
        assert (await after.send("T", b"new 20")).answer.queue_offset == 20
        found: list[bytes] = []
        while some := await after.stored("T", 0, len(found)):
            found += [message.body for message in some]
        return found

    return simulate(scenario, settings_of(sync=True))


@pytest.mark.parametrize(
    ("between", "crash"), [(apache_died, False), (lose_the_journal, True), (rot_a_queue, False), (rot_a_queue, True)]
)
def test_queues_made_from_the_log_hold_the_last_life(
    between: Callable[[Node], Coroutine[Any, Any, None]], *, crash: bool
) -> None:
    assert bodies_of_the_last_life(between, crash=crash) == THE_LAST_LIFE


def test_an_entry_made_again_leads_to_the_last_life() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> list[bytes]:
        for number in range(3):
            await client.send("T", b"deleted %d" % number)
        await client.ask(DeleteTopicInBroker(topic="T"))
        for number in range(2):
            await client.send("T", b"new %d" % number)
        await broker.node.stop()
        broker.node.start(rot_the_first_entry)
        await asyncio.sleep(5)
        await broker.start()
        after = Client(world.node("after"), broker.address)
        await after.stored("T")
        return [message.body for message in await after.stored("T")]

    async def rot_the_first_entry(node: Node) -> None:
        path = "consumequeue/T/0/00000000000000000000"
        entries = await node.disk.read_whole(path)
        await node.disk.replace(path, ENTRY.pack(5, 7, 0) + entries[ENTRY.size :])

    assert simulate(scenario, settings_of(sync=True)) == [b"new 0", b"new 1"]


def forgets_no_life(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: rows of the log go to the queues as they come, whatever life they are of."""

    async def as_they_come(self: Lives, rows: list[Placed]) -> None:
        self._dispatch.enter_queues(rows)

    patch.setattr(Lives, "enter", as_they_come)


@pytest.mark.parametrize(("between", "crash"), [(apache_died, False), (rot_a_queue, True)])
def test_lives_that_are_not_told_apart_are_caught(
    monkeypatch: pytest.MonkeyPatch, between: Callable[[Node], Coroutine[Any, Any, None]], *, crash: bool
) -> None:
    forgets_no_life(monkeypatch)
    with pytest.raises(AssertionError):
        bodies_of_the_last_life(between, crash=crash)
