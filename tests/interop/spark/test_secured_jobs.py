"""Jobs of the pipeline at an Apache broker that takes TLS alone and serves nobody without an account."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow import Consumer
from firearrow.cli.environment import AccessOptions
from firearrow.client import ReceivedMessage
from firearrow.runtime.tls_settings import ClientTls
from judges import ApacheNameServer, fresh
from tests.interop.cli.commands import Commands
from tests.interop.client.secured import OWNER, SecuredBroker, certified
from tests.spark.serving import held, served
from tests.spark.source.conftest import APACHE

pytestmark = [pytest.mark.apache, pytest.mark.real]

BODIES = [f"order {number}" for number in range(5)]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Commands]:
    """Commands at that broker, with everything in the environment."""
    authority, flags = certified(tmp_path)
    with ApacheNameServer(APACHE, flags=flags) as names, SecuredBroker(APACHE, names.address, flags):
        found = Commands(names.address)
        found.environment |= {"FIREARROW_TLS_TRUST": str(authority), "FIREARROW_ACCESS_KEY": OWNER[0]}
        found.environment["FIREARROW_SECRET_KEY"] = OWNER[1]
        yield found


def filled(command: Commands) -> str:
    """A topic with messages."""
    topic = fresh("orders")
    command("topic", "create", topic, "-q", "2")
    command("produce", topic, *(word for body in BODIES for word in ("-m", body)))
    return topic


async def kill_letters(command: Commands, topic: str, group: str) -> None:
    """Let a group fail at every message of a topic, once."""
    reach = command.environment
    tls = ClientTls(enabled=True, verify_server=True, trust_path=reach["FIREARROW_TLS_TRUST"])
    failed, everything = 0, asyncio.Event()

    async def fail(_message: ReceivedMessage) -> None:
        nonlocal failed
        failed += 1
        if failed == len(BODIES):
            everything.set()
        raise ValueError("no")

    keys = AccessOptions(tls=tls, access_key=OWNER[0], secret_key=OWNER[1])
    consumer = Consumer(
        reach["FIREARROW_NAMESRV"], group=group, topics=topic, start="first", max_reconsume_times=0, **keys
    )
    async with consumer, asyncio.timeout(90), asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.run(fail))
        await everything.wait()
        consumer.stop()


def test_dead_letters_and_a_mirror(command: Commands, tmp_path: Path) -> None:
    topic, group = filled(command), fresh("G")
    asyncio.run(kill_letters(command, topic, group))
    command("topic", "update", f"%DLQ%{group}", "--perm", "rw")
    listed = command.json("pipeline", "dlq", "list", "--group", group)
    assert [(each["topic"], each["messages"]) for each in listed] == [(topic, len(BODIES))]
    said = command("pipeline", "dlq", "redrive", group, "--all", "--audit", str(tmp_path / "audit"))
    assert f"{len(BODIES)} dead letters of {group} were sent" in said
    wanted = sorted(body.encode() for body in BODIES * 2)
    with served(tmp_path / "target") as target:
        words = ("pipeline", "mirror", "--once", "--topics", topic, "--to", target.name_server)
        command(*words, "--state", str(tmp_path / "state"), "--source-name", "apache", "--target-name", "ours")
        assert sorted(message.body for message in held(target.name_server, topic).values()) == wanted
    command.environment["FIREARROW_SECRET_KEY"] = "wrong-secret"
    refused = command.process("pipeline", "dlq", "list", "--group", group)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert "wrong-secret" not in refused.stderr
