"""The first commands, on Apache 5.5.0, Apache 4.9.7 and ours alike."""

import asyncio
from pathlib import Path

import pytest

from firearrow import Consumer
from firearrow.client import ReceivedMessage
from judges import ApacheBroker, fresh
from tests.interop.cli.commands import Commands

pytestmark = pytest.mark.apache


def lag_of(command: Commands, group: str, topic: str) -> int:
    queues = command.json("group", "describe", group)["queues"]
    return sum(queue["lag"] for queue in queues if queue["topic"] == topic)


def test_the_life_of_a_topic(command: Commands, broker: ApacheBroker) -> None:
    topic = fresh("life")
    command("topic", "create", topic, "--queues", "3", "--perm", "rw")
    assert "update it instead" in command.fails("topic", "create", topic)
    (listed,) = [each for each in command.json("topic", "list") if each["topic"] == topic]
    (place,) = listed["brokers"]
    assert (place["broker"], place["readQueues"], place["writeQueues"], place["perm"]) == (broker.name, 3, 3, "RW-")

    command("topic", "update", topic, "--write-queues", "2", "--broker", broker.name)
    (place,) = command.json("topic", "describe", topic)["brokers"]
    assert (place["readQueues"], place["writeQueues"], place["perm"]) == (3, 2, "RW-")
    command("topic", "update", topic, "--perm", "r", "--broker", broker.address)
    assert command.json("topic", "describe", topic)["brokers"][0]["perm"] == "R--"
    assert topic in command("topic", "list")
    assert "TBW102" not in command("topic", "list")
    assert "TBW102" in command("topic", "list", "--all")

    command("topic", "delete", topic, "--yes")
    assert topic not in command("topic", "list", "--all")
    assert f"no broker has a topic '{topic}'" in command.fails("topic", "describe", topic)
    assert "no cluster 'nowhere'" in command.fails("topic", "create", topic, "--cluster", "nowhere")
    assert "no broker 'nobody'" in command.fails("topic", "create", topic, "--broker", "nobody")


def test_a_topic_of_strict_order(command: Commands, broker: ApacheBroker) -> None:
    topic = fresh("order")
    command("topic", "create", topic, "--queues", "2", "--order")
    told = command.json("topic", "describe", topic)
    assert told["strictOrder"] == f"{broker.name}:2"
    assert told["brokers"][0]["order"]
    command("topic", "update", topic, "--no-order")
    assert command.json("topic", "describe", topic)["strictOrder"] is None
    command("topic", "delete", topic, "--yes")


def test_messages_in_and_out(command: Commands, tmp_path: Path) -> None:
    topic = fresh("messages")
    command("topic", "create", topic, "--queues", "2")
    assert "sent 2 messages" in command("produce", topic, stdin="espresso\nlatte\n")
    (tmp_path / "one").write_bytes(b"a\nb\x00\xff")
    (sent,) = command.json_lines("produce", topic, str(tmp_path / "one"), "--format", "files", "--tag", "bin")
    assert sent["status"] == "SEND_OK"
    lines = '{"body": "tea", "tag": "hot", "keys": ["k1", "k2"], "properties": {"size": "small"}}\n'
    options = ("--format", "json", "-p", "shop=7", "--rate", "100", "--progress")
    assert "sent 1 message " in command("produce", topic, *options, stdin=lines)
    command("produce", topic, "-m", "water", "-k", "k3", "--tag", "cold")

    found = command.json_lines("consume", topic)
    assert [each["storeTimestamp"] for each in found] == sorted(each["storeTimestamp"] for each in found)
    by_tag = {each["tag"]: each for each in found}
    assert len(found) == 5
    assert by_tag["hot"]["keys"] == ["k1", "k2"]
    assert by_tag["hot"]["properties"]["size"] == "small"
    assert by_tag["hot"]["properties"]["shop"] == "7"
    assert by_tag["bin"]["bodyBase64"] == "YQpiAP8="
    assert command("consume", topic, "--format", "raw", "--tag", "cold || hot") == "tea\nwater\n"
    assert command("consume", topic, "--limit", "1", "--tag", "cold").split()[-1] == "water"
    place = by_tag["cold"]
    at = ("--queue", f"{place['broker']}:{place['queue']}", "--from", str(place["queueOffset"]))
    assert [each["body"] for each in command.json_lines("consume", topic, *at, "--limit", "1")] == ["water"]
    assert command("consume", topic, "--from", "now") == ""
    assert len(command.json_lines("consume", topic, "--from", "-1h", "--to", "now")) == 5
    assert command("consume", topic, "--to", "-1h") == ""
    command("topic", "delete", topic, "--yes")


def test_a_group_consumes_and_is_moved(command: Commands) -> None:
    topic, group = fresh("grouped"), fresh("G")
    command("topic", "create", topic, "--queues", "2")
    command("produce", topic, stdin="".join(f"{number}\n" for number in range(20)))
    taken = command("consume", topic, "-g", group, "--limit", "20", "--format", "raw")
    assert sorted(map(int, taken.split())) == list(range(20))
    assert lag_of(command, group, topic) == 0
    assert group in command("group", "list")
    (listed,) = [each for each in command.json("group", "list") if each["group"] == group]
    assert (listed["members"], listed["lag"]) == (0, 0)
    assert not any(each["group"] == "TOOLS_CONSUMER" for each in command.json("group", "list"))

    planned = command.json("group", "reset", group, "-t", topic, "--to", "first", "--dry-run")
    assert [move["after"] for move in planned] == [0, 0]
    assert lag_of(command, group, topic) == 0
    moved = command.json("group", "reset", group, "-t", topic, "--to", "first")
    assert [move["after"] for move in moved] == [0, 0]
    assert sum(move["before"] for move in moved) == 20
    assert lag_of(command, group, topic) == 20
    again = command("consume", topic, "-g", group, "--limit", "20", "--format", "raw")
    assert sorted(map(int, again.split())) == list(range(20))
    command("group", "reset", group, "-t", topic, "--to", "-1h")
    assert lag_of(command, group, topic) == 20
    command("group", "reset", group, "-t", topic, "--to", "last")
    assert lag_of(command, group, topic) == 0
    one = planned[0]
    command("group", "reset", group, "-t", topic, "--offset", "3", "--queue", f"{one['broker']}:{one['queue']}")
    assert lag_of(command, group, topic) > 0
    assert "no broker knows a group" in command.fails("group", "describe", "nobody")
    assert "no target is given" in command.fails("group", "reset", group, "-t", topic)
    command("topic", "delete", topic, "--yes")


def test_a_running_group_is_moved(command: Commands, broker: ApacheBroker) -> None:
    topic, group, names = broker.create_topic(fresh("running"), 2), fresh("G"), broker.name_servers[0]
    command("produce", topic, stdin="".join(f"{number}\n" for number in range(10)))

    async def scenario() -> None:
        seen = 0

        async def handle(_message: ReceivedMessage) -> None:
            nonlocal seen
            seen += 1

        async def until(count: int) -> None:
            async with asyncio.timeout(60):
                while seen < count:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

        async with Consumer(names, group=group, topics=topic, start="first") as consumer:
            running = asyncio.create_task(consumer.run(handle))
            await until(10)
            await consumer.commit()
            told = await asyncio.to_thread(command.json, "group", "describe", group)
            assert [member["clientId"] for member in told["members"]] == [consumer.client_id]
            assert told["subscriptions"][topic] == "*"
            at = ("--queue", f"{broker.name}:0", "--offset", "0")
            refused = await asyncio.to_thread(command.fails, "group", "reset", group, "-t", topic, *at)
            assert "stop them" in refused
            await asyncio.to_thread(command, "group", "reset", group, "-t", topic, "--to", "first")
            await until(20)
            consumer.stop()
            await running

    asyncio.run(scenario())
