"""Whoever only looks leaves nothing behind: no group, no topic of one, no connection that counts as a member."""

import asyncio

import pytest

from firearrow.admin import Admin
from firearrow.client import Message, Producer, PullConsumer
from tests.interop.cli.commands import Commands

pytestmark = pytest.mark.real


async def names_of(address: str) -> tuple[set[str], set[str]]:
    """Every topic and every group, those of the brokers too."""
    async with Admin(address) as admin:
        topics = {each.name for each in await admin.topics.list()}
        groups = {each.name for each in await admin.groups.list()}
    return topics, groups


def test_questions_of_a_pull_consumer(firearrow_address: str, firearrow_topic: str) -> None:
    async def story() -> None:
        async with Producer(firearrow_address) as producer:
            await producer.send(Message(firearrow_topic, b"x"))
        before = await names_of(firearrow_address)
        async with PullConsumer(firearrow_address, group="visitor") as visitor:
            bounds = await visitor.bounds(firearrow_topic)
            assert await visitor.queues(firearrow_topic) == tuple(bounds)
            assert set(await visitor.offsets_at(bounds, 0)) == set(bounds)
            for queue in bounds:
                assert not await visitor.committed(queue)
            assert await names_of(firearrow_address) == before
            queue, held = next((queue, held) for queue, held in bounds.items() if held.end)
            await visitor.commit({queue: held.end})
            assert await visitor.committed(queue) == held.end
        assert "visitor" in (await names_of(firearrow_address))[1]

    asyncio.run(story())


def test_commands_that_only_look(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "-m", "x")
    before = asyncio.run(names_of(firearrow_address))
    for words in (
        ["topic", "list", "--all"],
        ["topic", "describe", firearrow_topic],
        ["group", "list", "--all"],
        ["consume", firearrow_topic, "--from", "-1h"],
        ["consume", firearrow_topic, "--tag", "a || b"],
        ["group", "reset", "nobody", "-t", firearrow_topic, "--to", "first", "--dry-run"],
    ):
        command(*words)
    assert asyncio.run(names_of(firearrow_address)) == before
