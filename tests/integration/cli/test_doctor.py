"""``firearrow doctor`` at a real cluster: a healthy one, and faults made for it."""

import json

import pytest

from firearrow.blocking import Message, Producer
from firearrow.client import MessageQueue
from firearrow.testing.ports import free_port
from tests.interop.cli.operating import Inside

pytestmark = pytest.mark.real


def faults(command: Inside, status: int, *words: str) -> dict[str, str]:
    ran = command.process("doctor", "--json", *words)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return {each["fault"]: each["where"] for each in json.loads(ran.stdout)["findings"]}


def test_faults_come_and_go(firearrow_address: str, firearrow_topic: str) -> None:
    command = Inside(firearrow_address)
    (broker,) = command.json("broker", "list")
    before = set(faults(command, 0))
    assert before <= {"disk-nearly-full"}

    command("broker", "wipe-write", broker["broker"])
    command("nameserver", "kv", "set", "ORDER_TOPIC_CONFIG", firearrow_topic, "broker-gone:4")
    command("nameserver", "config", "set", "orderMessageEnable=false")
    dead = f"127.0.0.1:{free_port()}"
    found = faults(command, 1, "-n", f"{firearrow_address};{dead}")
    assert {name: found[name] for name in set(found) - before} == {
        "write-permission-wiped": broker["broker"],
        "topic-on-missing-broker": firearrow_topic,
        "strict-order-without-switch": firearrow_topic,
        "name-server-dead": dead,
    }

    command("broker", "restore-write", broker["broker"])
    command("nameserver", "kv", "delete", "ORDER_TOPIC_CONFIG", firearrow_topic)
    assert set(faults(command, 0)) == before


def test_without_any_name_server_the_name_servers_are_the_findings() -> None:
    dead = sorted(f"127.0.0.1:{free_port()}" for _ in range(2))
    ran = Inside(";".join(dead)).process("doctor", "--json")
    assert ran.returncode == 1
    said = json.loads(ran.stdout)
    assert [(each["fault"], each["where"]) for each in said["findings"]] == [("name-server-dead", one) for one in dead]
    assert "no name server answers" in said["leftOut"]


def test_messages_that_a_shrink_has_hidden_from_a_group_are_told(firearrow_address: str, firearrow_topic: str) -> None:
    command = Inside(firearrow_address)
    group = f"readers-of-{firearrow_topic}"
    (broker,) = command.json("broker", "list")
    with Producer(firearrow_address, group="doctor-test") as producer:
        for number in range(40):
            queue = MessageQueue(firearrow_topic, broker["broker"], number % 4)
            producer.send(Message.of(firearrow_topic, b"%d" % number), queue=queue)
    command("group", "create", group)
    command("group", "reset", group, "--topic", firearrow_topic, "--to", "first")
    assert "messages-in-hidden-queues" not in faults(command, 0)

    command("topic", "update", firearrow_topic, "--queues", "2")
    assert faults(command, 0)["messages-in-hidden-queues"].startswith(f"{firearrow_topic} on ")

    command("topic", "update", firearrow_topic, "--queues", "4")
    assert "messages-in-hidden-queues" not in faults(command, 0)
