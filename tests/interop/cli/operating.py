"""The work of an operator in a day, by commands alone: the same on our brokers and on Apache's."""

import asyncio
import json
import subprocess
import sys

from typer.testing import CliRunner

from firearrow import Consumer, Message, Producer
from firearrow.cli.app import app
from firearrow.client import ReceivedMessage
from tests.interop.cli.commands import MAIN, Commands

SECONDS = 120
NUMBER = "defaultTopicQueueNums"
"""A setting that changes while a broker runs, ours or Apache's."""


class Inside(Commands):
    """Commands that run in this process: a new one for every command takes longer than what it asks."""

    def process(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run one to its end, whatever comes of it."""
        if stdin:
            return super().process(*words, stdin=stdin)
        ran = CliRunner().invoke(app, list(words), env=self.environment)
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return subprocess.CompletedProcess(words, ran.exit_code, ran.stdout, ran.stderr)


def look_at_brokers(command: Commands, broker: str, cluster: str) -> None:
    """Clusters and brokers are listed and described; a listing is shown again and again."""
    assert {"cluster": cluster, "brokers": 1, "masters": 1, "slaves": 0} in command.json("cluster", "list")
    (shown,) = command.json("cluster", "describe", cluster)["brokers"]
    assert (shown["broker"], shown["brokerId"]) == (broker, 0)
    assert shown["version"].startswith("5.")
    assert broker in command("broker", "list")
    assert int(command.json("broker", "describe", broker)["state"]["bootTimestamp"]) > 0
    watched = subprocess.Popen(
        [sys.executable, "-c", MAIN, "broker", "list", "--json", "--watch", "0.1"],
        env=command.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with watched:
        assert watched.stdout is not None
        assert [json.loads(watched.stdout.readline())[0]["broker"] for _ in range(2)] == [broker] * 2
        watched.terminate()


def change_settings(command: Commands, broker: str) -> None:
    """A setting is changed while the broker runs, and a mistake is named."""
    before = command.json("broker", "config", "get", broker, NUMBER)[NUMBER]
    assert f"{NUMBER}=99" in command("broker", "config", "set", broker, f"{NUMBER}=99")
    assert command.json("broker", "config", "get", broker, NUMBER) == {NUMBER: "99"}
    command("broker", "config", "set", broker, f"{NUMBER}={before}")
    assert "did you mean defaultTopicQueueNums?" in command.fails(
        "broker", "config", "set", broker, "defaultTopicQueueNum=1"
    )
    command("nameserver", "kv", "set", "OPERATING", "key", "a text")
    (texts,) = command.json("nameserver", "kv", "list", "OPERATING").values()
    assert texts == {"key": "a text"}
    command("nameserver", "kv", "delete", "OPERATING", "key")
    (texts,) = command.json("nameserver", "kv", "list", "OPERATING").values()
    assert texts == {}
    (settings,) = command.json("nameserver", "config", "get").values()
    assert "orderMessageEnable" in settings


def take_and_give_permission(command: Commands, broker: str, topic: str) -> None:
    """A broker is taken out of the routes of producers and put back."""
    assert perm(command, topic) == "RW-"
    command("broker", "wipe-write", broker)
    assert perm(command, topic) == "R--"
    command("broker", "restore-write", broker)
    assert perm(command, topic) == "RW-"
    assert "is drained" in command("broker", "drain", broker, "--wait", "1s", "--timeout", "60s")
    assert perm(command, topic) == "R--"
    command("broker", "restore-write", broker)


def perm(command: Commands, topic: str) -> str:
    """The permission that name servers tell clients."""
    ((row,),) = command.json("topic", "route", topic)
    return str(row["perm"])


def find_messages(command: Commands, topic: str) -> None:
    """A message is found by both of its ids, by key and by time, and sent again."""
    (sent,) = command.json_lines("produce", topic, "-m", "espresso", "-k", "order-1", "--tag", "hot")
    (found,) = command.json("message", "query", topic, "order-1")
    assert (found["body"], found["tag"]) == ("espresso", "hot")
    (by_unique_key,) = command.json("message", "get", sent["messageId"], "--topic", topic)
    (by_offset,) = command.json("message", "get", found["offsetMessageId"])
    assert by_unique_key == by_offset == found
    assert [each["body"] for each in command.json("message", "by-time", topic, "--from", "-10m")] == ["espresso"]
    assert "sent again" in command("message", "resend", found["offsetMessageId"])
    assert [each["body"] for each in command.json("message", "query", topic, "order-1")] == ["espresso"] * 2
    absent = sent["messageId"][:-4] + "0000"
    assert "--topic TOPIC" in command.fails("message", "get", absent)


def change_groups(command: Commands, topic: str, group: str) -> None:
    """A group is made, changed, watched while it consumes, moved on and deleted."""
    command("group", "create", group, "--retries", "3")
    assert "already" in command.fails("group", "create", group)
    command("group", "update", group, "--retries", "5")
    holders, stopped = asyncio.run(asyncio.wait_for(consume_and_look(command, topic, group), SECONDS))
    assert len(holders) == 1
    assert None not in holders
    assert "stop them" in stopped
    command("produce", topic, "-m", "a", "-m", "b", "-m", "c")
    assert command.json("group", "describe", group)["lag"] == 3
    queue = next(each for each in command.json("group", "describe", group)["queues"] if each["lag"])
    at = f"{queue['broker']}:{queue['queue']}"
    (moved,) = command.json("group", "skip", group, "-t", topic, "--queue", at)
    assert (moved["before"], moved["after"]) == (queue["committed"], queue["committed"] + 1)
    assert command.json("group", "describe", group)["lag"] == 2
    command("group", "skip", group, "-t", topic)
    assert command.json("group", "describe", group)["lag"] == 0
    command("group", "delete", group, "--yes")
    assert f"no broker knows a group '{group}'" in command.fails("group", "describe", group)


async def consume_and_look(command: Commands, topic: str, group: str) -> tuple[set[str], str]:
    """Consume everything; return who holds queues meanwhile, and what a deletion says."""
    address = command.environment["FIREARROW_NAMESRV"]
    arrived = asyncio.Event()

    async def take(_message: ReceivedMessage) -> None:
        arrived.set()

    async with Producer(address, group="operating") as producer:
        await producer.send(Message(topic, b"first"))
    consumer = Consumer(address, group=group, topics=topic, start="first")
    async with consumer:
        running = asyncio.create_task(consumer.run(take))
        await arrived.wait()
        member = consumer.client_id
        beside = Commands(address)  # a process, because this one's loop runs the member
        described = await asyncio.to_thread(beside.json, "group", "describe", group)
        while not any(row["topic"] == topic for row in described["queues"]):  # the first offset is not committed yet
            described = await asyncio.to_thread(beside.json, "group", "describe", group)
        stopped = await asyncio.to_thread(beside.fails, "group", "delete", group, "--yes")
        consumer.stop()
        await running
    assert [each["clientId"] for each in described["members"]] == [member]
    return {each["member"] for each in described["queues"] if each["topic"] == topic}, stopped


def change_size(command: Commands, topic: str) -> None:
    """A topic gets more queues, and fewer again when nobody has anything left to read in them."""
    command("topic", "grow", topic, "--queues", "6")
    assert "shrink it" in command.fails("topic", "grow", topic, "--queues", "3")
    command("topic", "shrink", topic, "--queues", "2", "--wait", "1s")
    (place,) = command.json("topic", "describe", topic)["brokers"]
    assert (place["readQueues"], place["writeQueues"]) == (2, 2)
