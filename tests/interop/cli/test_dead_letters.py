"""Dead letters on brokers of every kind: listed with the topic they came from, and sent there again."""

import asyncio
from pathlib import Path

import pytest

from firearrow import Consumer, Message, Producer
from firearrow.admin import Admin
from firearrow.client import ReceivedMessage
from firearrow.errors import NoSuchName
from judges import ApacheBroker, fresh
from tests.interop.cli.commands import Commands

pytestmark = pytest.mark.apache


async def dead_letters(address: str, topic: str, group: str, count: int) -> None:
    async def fail(_message: ReceivedMessage) -> None:
        raise ValueError("no")

    async def died(admin: Admin) -> int:
        try:
            return (await admin.topics.describe(f"%DLQ%{group}")).messages
        except NoSuchName:
            return 0

    async with Producer(address, group=fresh("P")) as producer:
        for number in range(count):
            await producer.send(Message.of(topic, b"%d" % number, tag="new", keys=f"k{number}"))
    consumer = Consumer(address, group=group, topics=topic, start="first", max_reconsume_times=0)
    async with consumer, Admin(address) as admin, asyncio.timeout(90):
        running = asyncio.create_task(consumer.run(fail))
        while await died(admin) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        consumer.stop()
        await running


def test_dead_letters_are_listed_and_sent_again(broker: ApacheBroker, command: Commands, tmp_path: Path) -> None:
    topic, group = broker.create_topic(fresh("orders"), 2), fresh("G")
    asyncio.run(dead_letters(broker.name_servers[0], topic, group, 3))
    words = ["dlq", "list", "--group", group]
    if "cannot be read" in command.process(*words).stderr:  # as the error tells
        command("topic", "update", f"%DLQ%{group}", "--perm", "rw")
    listed = command.json(*words)
    assert [(each["topic"], each["tag"], each["messages"]) for each in listed] == [(topic, "new", 3)]
    audit = str(tmp_path / "audit")
    command("dlq", "redrive", group, "--key", "k1", "--audit", audit)
    sent = [each for each in command.json_lines("consume", topic) if "FIREARROW_REDRIVEN" in each["properties"]]
    assert [(each["body"], each["keys"]) for each in sent] == [("1", ["k1"])]
