"""``firearrow doctor`` at a real cluster: a healthy one, and faults made for it."""

import json

import pytest

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
