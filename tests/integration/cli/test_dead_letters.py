"""``firearrow pipeline dlq`` at a real cluster: dead letters made by a consumer that fails, listed and sent again."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow import Consumer, Message, Producer
from firearrow.admin import Admin
from firearrow.admin.dead_letters import GIVEN_UP, REDRIVEN
from firearrow.client import ReceivedMessage
from firearrow.errors import NoSuchName
from firearrow.testing.blocking import Cluster
from tests.interop.cli.commands import MAIN, Commands

pytestmark = pytest.mark.real

GROUP, TOPIC, COUNT = "kitchen", "orders", 6


async def fail(_message: ReceivedMessage) -> None:
    raise ValueError("this kitchen is closed")


async def make_dead_letters(address: str) -> None:
    async with Producer(address, group="shop") as producer:
        for number in range(COUNT):
            properties = {"n": str(number), "FIREARROW_ROW_ID": f"row-{number}"}
            tag = "bad" if number % 2 else "worse"
            await producer.send(Message(TOPIC, b"order %d" % number, properties, tag=tag, keys=f"k{number}"))
    consumer = Consumer(address, group=GROUP, topics=TOPIC, start="first", max_reconsume_times=0)
    async with consumer, Admin(address) as admin, asyncio.timeout(60):
        running = asyncio.create_task(consumer.run(fail))
        while await dead(admin) < COUNT:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        consumer.stop()
        await running


async def dead(admin: Admin) -> int:
    try:
        return (await admin.topics.describe(f"%DLQ%{GROUP}")).messages
    except NoSuchName:
        return 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create_topic(TOPIC, queues=2)
        asyncio.run(make_dead_letters(running.address))
        yield running


def test_the_list_says_what_failed_and_since_when(cluster: Cluster) -> None:
    command = Commands(cluster.address)
    found = command.json("dlq", "list")
    assert [(each["group"], each["topic"], each["tag"], each["messages"]) for each in found] == [
        (GROUP, TOPIC, "bad", 3),
        (GROUP, TOPIC, "worse", 3),
    ]
    assert {each["why"] for each in found} == {GIVEN_UP}  # by the limit of its consumer, below that of the group
    assert all(each["attempts"] == [1, 1] for each in found)
    died = [letter.store_timestamp for letter in cluster.messages(f"%DLQ%{GROUP}")]
    assert (min(each["since"] for each in found), max(each["last"] for each in found)) == (min(died), max(died))
    assert "orders" in command("dlq", "list", "--group", GROUP)


def test_a_list_that_is_watched_is_a_line_of_json_each_time(cluster: Cluster) -> None:
    words = [sys.executable, "-c", MAIN, "dlq", "list", "--json", "--watch", "0.1"]
    with subprocess.Popen(
        words, env=Commands(cluster.address).environment, stdout=subprocess.PIPE, text=True
    ) as watched:
        assert watched.stdout is not None
        assert [json.loads(watched.stdout.readline())[0]["group"] for _ in range(2)] == [GROUP] * 2
        watched.terminate()
    assert watched.returncode == 143


def test_show_finds_chosen_letters(cluster: Cluster) -> None:
    shown = Commands(cluster.address).json("dlq", "show", GROUP, "--key", "k3")
    assert [(each["body"], each["keys"], each["topic"]) for each in shown] == [("order 3", ["k3"], TOPIC)]


def test_a_redrive_sends_chosen_letters_once_and_leaves_an_audit(cluster: Cluster, tmp_path: Path) -> None:
    command, audit = Commands(cluster.address), tmp_path / "audit.jsonl"
    words = ["dlq", "redrive", GROUP, "--audit", str(audit), "--tag", "bad"]
    assert "3 dead letters of kitchen would be sent" in command(*words, "--dry-run")
    assert not audit.exists()
    assert "3 dead letters of kitchen were sent" in command(*words)
    again = [message for message in cluster.messages(TOPIC) if REDRIVEN in message.properties]
    assert sorted(message.body for message in again) == [b"order 1", b"order 3", b"order 5"]
    for message in again:
        assert message.tag == "bad"
        assert message.keys == [f"k{message.properties['n']}"]
        assert not {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY"} & set(message.properties)
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["sending", "sent"] * 3
    assert {line["place"] for line in lines} == {message.properties[REDRIVEN] for message in again}
    # The same command sends nothing more; the audit says why.
    assert "0 dead letters of kitchen were sent" in (said := command(*words))
    assert "3 were sent before" in said
    # A redrive that died between a send and its line repeats the send, and the broker stores it once.
    audit.write_text("".join(f"{json.dumps(line)}\n" for line in lines[:-1]) + '{"event": "se')
    assert "1 dead letters of kitchen were sent" in command(*words)
    assert len([message for message in cluster.messages(TOPIC) if REDRIVEN in message.properties]) == 3
    # Another audit file is another redrive.
    assert "3 dead letters of kitchen were sent" in command(*words[:4], str(tmp_path / "second.jsonl"), *words[5:])
    assert len([message for message in cluster.messages(TOPIC) if REDRIVEN in message.properties]) == 6


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["redrive", GROUP, "--audit", "a"], "choose dead letters by --id"),
        (["redrive", GROUP, "--audit", "a", "--all", "--tag", "bad"], "choose dead letters by --id"),
        (["show", "bakery"], "group 'bakery' has no dead letters"),
        (["show", GROUP, "--since", "soon"], "'soon' is not a time"),
    ],
)
def test_a_mistake_is_told_in_a_line(cluster: Cluster, words: list[str], reason: str) -> None:
    ran = Commands(cluster.address).process("dlq", *words)
    assert ran.returncode == 1
    assert f" dlq {words[0]}: " in ran.stderr
    assert "pipeline" not in ran.stderr
    assert len(ran.stderr.splitlines()) <= 3
    assert reason in ran.stderr


def test_a_redrive_that_fails_says_how_many_were_sent(cluster: Cluster, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    command = Commands(cluster.address)
    command("topic", "update", TOPIC, "--perm", "r")
    try:
        said = command.fails("dlq", "redrive", GROUP, "--audit", str(audit), "--all")
    finally:
        command("topic", "update", TOPIC, "--perm", "rw")
    assert f"0 of {COUNT} dead letters were sent again, {audit} says which. The same command sends the others" in said
