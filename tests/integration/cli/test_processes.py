"""Commands that go on until they are told to stop, and commands at clusters that are more than one broker."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from firearrow.admin import Admin, GroupOffsets
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.testing.blocking import Cluster
from tests.interop.cli.commands import MAIN, Commands

pytestmark = pytest.mark.real
SECONDS = 60


@contextmanager
def going_on(command: Commands, *words: str) -> Iterator[subprocess.Popen[str]]:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it, and so would the command
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words],
        env=command.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def test_following_prints_what_comes_until_interrupted(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "-m", "old")
    with going_on(command, "consume", firearrow_topic, "--follow", "--from", "first", "--format", "raw") as follower:
        assert line_of(follower) == "old"
        command("produce", firearrow_topic, "-m", "new")
        assert line_of(follower) == "new"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(SECONDS) == 130
        assert follower.stderr is not None
        assert "Traceback" not in follower.stderr.read()


def test_what_is_typed_is_sent_at_once(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    with (
        going_on(command, "consume", firearrow_topic, "-F", "--from", "first", "-f", "raw", "--limit", "2") as follower,
        going_on(command, "produce", firearrow_topic) as typist,
    ):
        assert typist.stdin is not None
        for text in ("one", "two"):
            typist.stdin.write(f"{text}\n")
            typist.stdin.flush()
            assert line_of(follower) == text
        assert follower.wait(SECONDS) == 0
        typist.stdin.close()
        assert line_of(typist).startswith("sent 2 messages")
        assert typist.wait(SECONDS) == 0


def test_a_broken_line_ends_the_command_and_tells_what_was_sent(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    said = command.fails("produce", firearrow_topic, "-f", "json", stdin='{"body": "fine"}\nbroken\n')
    assert "line 2 of standard input is not a message" in said
    assert [each["body"] for each in command.json_lines("consume", firearrow_topic)] in ([], ["fine"])


def test_whoever_has_seen_enough_may_leave(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, stdin="".join(f"{number}\n" for number in range(2000)))
    with going_on(command, "consume", firearrow_topic, "--format", "json") as reader:
        line_of(reader)
        assert reader.stdout is not None
        reader.stdout.close()
        assert reader.wait(SECONDS) == 0
        assert reader.stderr is not None
        assert "Traceback" not in reader.stderr.read()


def test_topics_over_several_brokers() -> None:
    with Cluster(brokers=2) as cluster:
        command = Commands(cluster.address)
        command("topic", "create", "everywhere", "-q", "2")
        command("topic", "create", "alone", "-q", "3", "--broker", "broker-b")
        listed = {each["topic"]: each["brokers"] for each in command.json("topic", "list")}
        assert [place["broker"] for place in listed["everywhere"]] == ["broker-a", "broker-b"]
        assert [place["broker"] for place in listed["alone"]] == ["broker-b"]
        assert {each["topic"] for each in command.json("topic", "list", "--broker", "broker-a")} == {"everywhere"}
        command("topic", "update", "everywhere", "--broker", "broker-a", "--perm", "r")
        told = command.json("topic", "describe", "everywhere")
        assert [place["perm"] for place in told["brokers"]] == ["R--", "RW-"]
        command("produce", "everywhere", stdin="x\n" * 20)
        assert {each["broker"] for each in command.json_lines("consume", "everywhere")} == {"broker-b"}
        cluster.stop_broker("broker-a")
        assert len(command.json_lines("consume", "everywhere")) == 20


def test_groups_and_queues_of_one_of_several_brokers() -> None:
    with Cluster(brokers=2) as cluster:
        command = Commands(cluster.address)
        command("group", "create", "workers", "--broker", "broker-a", "--disable")
        command("group", "create", "workers", "--broker", "broker-b", "--retry-queues", "4")
        command("group", "update", "workers", "--broker", "broker-b", "--retries", "3")
        command("group", "update", "workers", "--no-broadcast")
        first, second = (_settings(cluster, name) for name in ("broker-a", "broker-b"))
        assert (first.consume_enable, first.retry_queue_nums, first.retry_max_times) == (False, 1, 16)
        assert (second.consume_enable, second.retry_queue_nums, second.retry_max_times) == (True, 4, 3)
        assert not first.consume_broadcast_enable
        assert not second.consume_broadcast_enable
        command("topic", "create", "orders", "-q", "2")
        command("produce", "orders", stdin="x\n" * 20)
        command("group", "create", "slow")
        command("group", "reset", "slow", "--topic", "orders", "--to", "first")
        queues = command.json("topic", "describe", "orders")["queues"]
        (end,) = [queue["end"] for queue in queues if (queue["broker"], queue["queue"]) == ("broker-a", 1)]
        command("group", "reset", "slow", "--topic", "orders", "--queue", "broker-a:1", "--offset", str(end))
        command("topic", "shrink", "orders", "-q", "1", "--broker", "broker-a", "--wait", "0s", "--timeout", "5s")


def _settings(cluster: Cluster, broker: str) -> SubscriptionGroupConfig:
    async def ask() -> SubscriptionGroupConfig:
        async with Admin(cluster.address) as admin:
            (member,) = await admin.brokers.masters(broker=broker)
            return (await GroupOffsets(admin.brokers).groups_of(member))["workers"]

    return asyncio.run(ask())


def test_commands_ask_the_name_server_that_answers() -> None:
    with Cluster(name_servers=2) as cluster:
        command = Commands(cluster.address)
        command("topic", "create", "orders")
        cluster.stop_name_server(0)
        assert [each["topic"] for each in command.json("topic", "list")] == ["orders"]
        command("produce", "orders", "-m", "x")
        assert len(command.json_lines("consume", "orders")) == 1
