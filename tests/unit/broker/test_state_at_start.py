"""Starts with files that cannot be read or written: what is whole is taken, and nothing served that a crash undoes."""

import asyncio
import errno
import json

import pytest

from firearrow.broker.state.state_file import StateFile
from firearrow.errors import DiskError
from firearrow.protocol.requests.admin.topic import GetTopicConfig
from firearrow.protocol.requests.group.group import UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.testing.sim.disk_image import STANDING
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.whole import Client, Simulated, settings_of, simulate

KEPT_TWICE = (
    "config/topics.json",
    "config/consumerOffset.json",
    "config/subscriptionGroup.json",
    "firearrow/views.journal",
)


async def serves(broker: Simulated) -> bool:
    """Whether the broker starts."""
    failed = False

    async def run(node: Node) -> None:
        nonlocal failed
        try:
            await broker.run(node)
        except* DiskError:
            failed = True

    broker.ready.clear()
    broker.node.start(run)
    ends = [asyncio.create_task(broker.ready.wait()), asyncio.create_task(broker.node.finished())]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    if failed:
        await broker.node.stop()
    return not failed


async def consume(client: Client, count: int) -> None:
    """Have a topic and a group that has read half of it, and everything written."""
    await client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}')
    for number in range(count):
        await client.send("T", b"%d" % number)
    await client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=count // 2))
    await asyncio.sleep(20)


async def offset_of(client: Client) -> int:
    """The offset of the group."""
    return int((await client.ask(QueryConsumerOffset(consumer_group="g", topic="T", queue_id=0))).answer.offset)


# ---- offsets above the end of their queue


async def write_offsets(node: Node) -> None:
    """Write the offsets that another program leaves whose log lost its end."""
    text = json.dumps({"offsetTable": {"T@g": {"0": 50}}}).encode()
    for path in ("config/consumerOffset.json", "config/consumerOffset.json.bak"):
        await node.disk.replace(path, text)


def refuse_writes(broker: Simulated, name: str) -> None:
    """Let a table find no space."""
    for operation in ("write", "create"):
        for below in (f"firearrow/{name}", f"config/{name}"):
            broker.node.image.fail(operation, number=errno.ENOSPC, times=STANDING, below=below)


async def passed_over(world: World, broker: Simulated, client: Client) -> int:
    """Messages that a group never sees, whose offset is cut at a start without space and comes back after a kill."""
    world.expected = (DiskError,)
    await consume(client, 10)
    await broker.node.stop()
    broker.node.start(write_offsets)
    await asyncio.sleep(5)
    refuse_writes(broker, "consumerOffset")
    sent = 0
    if await serves(broker):
        during = Client(world.node("during"), broker.address)
        for number in range(60):
            sent += (await during.send("T", b"new %d" % number)).answer.queue_offset >= 10
        await broker.node.crash()
    broker.node.image.mend()
    await broker.start()
    after = await offset_of(Client(world.node("after"), broker.address))
    return max(after - 10, 0) if sent else 0


def test_offsets_that_are_cut_are_written_before_anything_is_served() -> None:
    assert simulate(passed_over, settings_of(sync=True)) == 0


def test_delay_levels_that_are_cut_are_written_before_anything_is_served() -> None:
    async def write_levels(node: Node) -> None:
        for path in ("config/delayOffset.json", "config/delayOffset.json.bak"):
            await node.disk.replace(path, b'{"offsetTable":{1:50}}')

    async def scenario(world: World, broker: Simulated, client: Client) -> list[bool]:
        world.expected = (DiskError,)
        await consume(client, 10)
        await broker.node.stop()
        broker.node.start(write_levels)
        await broker.node.finished()
        await broker.node.stop()
        refuse_writes(broker, "delayOffset")
        without_space = await serves(broker)
        broker.node.image.mend()
        return [without_space, await serves(broker)]

    assert simulate(scenario) == [False, True]


def serves_with_the_old_file(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: what the writing of the cut offsets says is not looked at."""

    async def save(self: StateFile, _what: str) -> None:
        await self.save()

    patch.setattr(StateFile, "save_before_serving", save)


def test_serving_with_the_old_file_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    serves_with_the_old_file(monkeypatch)
    assert simulate(passed_over, settings_of(sync=True)) == 40


# ---- copies that the disk refuses


def start_with(*unreadable: str) -> bool:
    """Start with files that give EIO; whether it serves, and then has everything and writes the files again."""

    async def scenario(world: World, broker: Simulated, client: Client) -> bool:
        world.expected = (DiskError,)
        await consume(client, 10)
        await broker.node.stop()
        for path in unreadable:
            broker.node.image.fail("read", times=STANDING, path=path)
        if not await serves(broker):
            return False
        broker.node.image.mend()  # a file that is replaced lies elsewhere
        after = Client(world.node("after"), broker.address)
        await after.ask(GetTopicConfig(topic="T"))
        assert await offset_of(after) == 5
        assert (await after.send("T")).answer.queue_offset == 10
        return True

    return simulate(scenario)


@pytest.mark.parametrize("path", [name for path in KEPT_TWICE for name in (path, f"{path}.bak")])
def test_one_unreadable_copy_leaves_the_other(path: str) -> None:
    assert start_with(path)


@pytest.mark.parametrize("path", KEPT_TWICE)
def test_two_unreadable_copies_stop_the_start(path: str) -> None:
    assert not start_with(path, f"{path}.bak")


def test_an_unreadable_journal_stops_the_start() -> None:
    """It may hold what was answered for."""
    assert not start_with("firearrow/topics.journal")
