"""``firearrow pipeline mirror`` between clusters of ours and Apache's, killed in the middle, judged by a moving group.

Every pair runs one story: a group consumes at the source, the mirror copies and is killed with SIGKILL three times
while messages keep coming, and the group goes on at the target. Ours to ours runs always, the other pairs in turn.
"""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from campaigns.rotation import this_turn
from firearrow import Consumer, Message, Producer, PullConsumer
from firearrow.admin import Admin
from firearrow.client import MessageQueue, ReceivedMessage, StoredMessage
from firearrow.model import keys
from firearrow.model.names import TOOLS_CONSUMER_GROUP
from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer, fresh
from judges.shared import SharedServers
from tests.interop.cli.commands import MAIN, Commands
from tests.interop.client.ours import until

pytestmark = pytest.mark.apache

OURS = "firearrow"
PAIRS = [(OURS, "5.5.0"), ("4.9.7", OURS), (OURS, "4.9.7"), ("5.5.0", OURS), ("4.9.7", "5.5.0"), ("5.5.0", "4.9.7")]
QUEUES = 3
BEFORE, LATER, KILLS = 90, 1500, 3


class Pair(NamedTuple):
    """Two brokers, each with a name server of its own, and whether copies at the target are exact."""

    source: ApacheBroker
    target: ApacheBroker
    is_exact: bool

    @property
    def addresses(self) -> tuple[str, str]:
        """The name servers."""
        return self.source.name_servers[0], self.target.name_servers[0]


@pytest.fixture(params=this_turn([(OURS, OURS), *PAIRS], __name__), ids=" to ".join)
def pair(shared_servers: SharedServers, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as stack:

        def broker(kind: str) -> ApacheBroker:
            if kind != OURS:
                return shared_servers.broker(kind)
            names = stack.enter_context(FireArrowNameServer())
            return stack.enter_context(FireArrowBroker(name_servers=[names.address]))

        source, target = request.param
        yield Pair(broker(source), broker(target), target == OURS)


@pytest.mark.rotating
def test_a_killed_mirror_copies_everything_and_its_group_moves(pair: Pair, tmp_path: Path) -> None:
    topic, group = pair.source.create_topic(fresh("mirrored"), QUEUES), fresh("G")
    source, target = pair.addresses
    words = ["--topics", topic, "--to", target, "--state", str(tmp_path / "state"), "--groups", group]
    words += ["--source-name", "east", "--target-name", "west"]

    async def story() -> tuple[list[StoredMessage], list[StoredMessage], list[bytes]]:
        await send(source, topic, pair.source.name, "before", BEFORE)
        await consumed(source, topic, group, BEFORE)
        async with sending(source, topic, pair.source.name), Admin(target) as admin:
            for number in range(KILLS):
                await killed_when(source, words, admin, topic, LATER * number // KILLS)
        Commands(source)("pipeline", "mirror", *words, "--once")
        moved = await consumed(target, topic, group, LATER)
        return await held(source, topic), await held(target, topic), moved

    first, copies, moved = asyncio.run(story())
    assert len(first) == BEFORE + LATER
    for queue in range(QUEUES):
        mine, theirs = of_queue(first, queue), of_queue(copies, queue)
        assert list(dict.fromkeys(theirs)) == mine, "all are there, in their order"
        if pair.is_exact:
            assert theirs == mine, "each once"
    by_body = {message.body: message for message in first}
    for copy in copies:
        message = by_body[copy.body]
        assert (copy.tag, copy.keys, copy.unique_key) == (message.tag, message.keys, message.unique_key)
        assert (copy.queue_id, copy.flag) == (message.queue_id, message.flag)
        assert copy.properties["n"] == message.properties["n"]
        assert copy.properties[keys.MIRROR_PATH] == "east"
        assert abs(copy.born_timestamp - message.born_timestamp) <= 1000
    later = Counter(message.body for message in first if message.body.startswith(b"later"))
    assert set(moved) >= set(later), "the group misses nothing"
    if pair.is_exact:
        assert Counter(moved) == later, "the group gets nothing that it had"
    copied = Counter(copy.body for copy in copies)
    assert all(copied[body] > 1 for body in set(moved) - set(later)), "it gets again only what was copied again"


def of_queue(messages: list[StoredMessage], queue: int) -> list[bytes]:
    found = [message for message in messages if message.queue_id == queue]
    return [message.body for message in sorted(found, key=lambda each: each.queue_offset)]


async def send(where: str, topic: str, broker: str, word: str, count: int) -> None:
    async with Producer(where, group=fresh("P")) as producer:
        for number in range(count):
            body = f"{word}-{number}".encode() + b" " * (5000 if number % 50 == 0 else 0)
            message = Message(topic, body, {"n": str(number)}, 7, tag=f"t{number % 2}", keys=f"k{number}")
            await producer.send(message, queue=MessageQueue(topic, broker, number % QUEUES))


@asynccontextmanager
async def sending(where: str, topic: str, broker: str) -> AsyncIterator[None]:
    task = asyncio.create_task(send(where, topic, broker, "later", LATER))
    try:
        yield
        await task
    finally:
        task.cancel()


def started(source: str, words: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "pipeline", "mirror", *words, "--follow"],
        env=Commands(source).environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


async def killed_when(source: str, words: list[str], admin: Admin, topic: str, copied: int) -> None:
    """Run a mirror until so many messages and some more are at the target, and kill it."""
    with started(source, words) as mirror:
        try:
            async with asyncio.timeout(60):
                while not (
                    await admin.topics.exists(topic) and (await admin.topics.describe(topic)).messages > copied + BEFORE
                ):
                    assert mirror.poll() is None, mirror.stderr and mirror.stderr.read()
                    await asyncio.sleep(0.05)
        finally:
            mirror.send_signal(signal.SIGKILL)


async def consumed(where: str, topic: str, group: str, count: int) -> list[bytes]:
    """Let a group consume until it has seen so many different messages and has committed all."""
    seen: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with Consumer(where, group=group, topics=topic, start="first", persist_ms=100) as consumer:
        running = asyncio.create_task(consumer.run(handle))
        await until(lambda: len(set(seen)) >= count, "the messages", 60)
        async with Admin(where) as admin, asyncio.timeout(30):
            while await admin.groups.lag(group, topic) != 0:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        consumer.stop()
        await running
    return seen


async def held(where: str, topic: str) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    async with PullConsumer(where, group=TOOLS_CONSUMER_GROUP) as reader:
        for queue, bounds in (await reader.bounds(topic)).items():
            offset = bounds.first
            while offset < bounds.end:
                pulled = await reader.pull_bytes(queue, offset)
                found += pulled.messages()
                offset = pulled.next_offset
    return found
