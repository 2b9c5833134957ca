"""Mirrors in both directions, and groups that stay, restart or move: no message is lost to a group."""

import asyncio
import shutil
from pathlib import Path

import pytest

from firearrow import Consumer, Message, Producer
from firearrow.client import ReceivedMessage
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.testing import Cluster
from tests.integration.mirror.test_mirror import TOPIC, copy_once, order

pytestmark = pytest.mark.real


def bodies(word: str, *numbers: int) -> list[str]:
    return [f"{word}-{number}" for number in range(*numbers)]


async def send(cluster: Cluster, wanted: list[str]) -> None:
    async with Producer(cluster.address, group="shop") as producer:
        for body in wanted:
            queue = MessageQueue(TOPIC, cluster.broker_names[0], 0)
            await producer.send(Message.of(TOPIC, body.encode()), queue=queue)


async def consume(cluster: Cluster, last: str) -> list[str]:
    """Let group kitchen consume until it has had a message; return all that it had."""
    seen: list[str] = []
    done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body.decode())
        if seen[-1] == last:
            done.set()

    async with Consumer(cluster.address, group="kitchen", topics=TOPIC, start="last", persist_ms=50) as consumer:
        task = asyncio.create_task(consumer.run(handle))
        async with asyncio.timeout(60):
            await done.wait()
        await cluster.consumed("kitchen", TOPIC)
        consumer.stop()
        await task
    return seen


async def begin(cluster: Cluster) -> None:
    """Make the topic, and the group at its beginning, whatever a consumer says about its start."""
    await cluster.create_topic(TOPIC, queues=1)
    await cluster.admin.offsets.create(SubscriptionGroupConfig(group_name="kitchen"))
    await cluster.admin.offsets.write("kitchen", {MessageQueue(TOPIC, cluster.broker_names[0], 0): 0})


def test_a_group_that_stays_loses_nothing_to_the_mirror_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await begin(east)
            await west.create_topic(TOPIC, queues=1)
            there, back = order(east, west), order(west, east, ("west", "east"))
            await send(east, bodies("e", 3))
            assert await consume(east, "e-2") == bodies("e", 3)
            await send(east, bodies("e", 3, 10))
            await copy_once(there, tmp_path / "there")
            await send(west, bodies("w", 5))
            await copy_once(back, tmp_path / "back")
            # It comes back in its own cluster, where the mirror back has not moved it.
            assert await consume(east, "w-4") == [*bodies("e", 3, 10), *bodies("w", 5)]

    asyncio.run(scenario())


def test_a_group_that_moves_gets_what_only_the_target_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await begin(east)
            await west.create_topic(TOPIC, queues=1)
            await send(west, bodies("w", 3))  # the mirror back has not copied them yet
            await send(east, bodies("e", 5))
            assert await consume(east, "e-4") == bodies("e", 5)
            await copy_once(order(east, west), tmp_path / "there")
            await copy_once(order(west, east, ("west", "east")), tmp_path / "back")
            # At least once: what the group had lies behind what it had not.
            assert await consume(west, "e-4") == [*bodies("w", 3), *bodies("e", 5)]

    asyncio.run(scenario())


def test_a_group_that_has_had_everything_moves_there_and_back_without_repeats(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await begin(east)
            await west.create_topic(TOPIC, queues=1)

            async def copy() -> None:
                for _ in range(2):
                    await copy_once(order(east, west), tmp_path / "there")
                    await copy_once(order(west, east, ("west", "east")), tmp_path / "back")

            await send(west, bodies("w", 3))
            await send(east, bodies("e", 5))
            await copy()
            assert sorted(await consume(east, "w-2")) == sorted([*bodies("w", 3), *bodies("e", 5)])
            await copy()
            await send(west, bodies("w", 3, 6))
            await send(east, bodies("e", 5, 8))
            await copy()
            assert sorted(await consume(west, "e-7")) == sorted([*bodies("w", 3, 6), *bodies("e", 5, 8)])
            await copy()
            await send(east, ["home"])
            assert await consume(east, "home") == ["home"]

    asyncio.run(scenario())


def test_a_mirror_that_lost_its_last_marks_finds_its_copies_among_messages_of_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster() as east, Cluster(brokers=["other"]) as west:
            await begin(east)
            await west.create_topic(TOPIC, queues=1)
            there = order(east, west)
            await send(east, bodies("e", 5))
            await copy_once(there, tmp_path / "there")
            shutil.copytree(tmp_path / "there", tmp_path / "saved")
            await send(east, bodies("e", 5, 8))
            await copy_once(there, tmp_path / "there")
            await send(west, ["w-0"])
            await send(east, bodies("e", 8, 10))
            await copy_once(there, tmp_path / "there")
            assert await consume(east, "e-9") == bodies("e", 10)
            # Killed before it saved: one batch now, whose copies lie before and behind the target's own message.
            await copy_once(there, tmp_path / "saved")
            assert len(await west.messages(TOPIC)) == 11
            assert await consume(west, "e-9") == ["w-0", *bodies("e", 8, 10)]

    asyncio.run(scenario())
