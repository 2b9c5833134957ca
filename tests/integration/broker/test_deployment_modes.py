"""The deployment modes of ``examples/deploy`` are started with their own files; one mode a commit, in turn.

Addresses and directories are put into them, as their page tells users to.
"""

import asyncio
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from campaigns.rotation import this_turn
from firearrow import Message, Producer, PullConsumer
from firearrow.testing.ports import free_broker_port, free_port
from judges import FireArrowNameServer, fresh
from judges.process import Child
from judges.server_process import answers, wait_for
from judges.wire import GET_CLUSTER

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

DEPLOY = Path(__file__).parents[3] / "examples" / "deploy"
MODES = {"single-master": 1, "several-masters": 2, "masters-with-async-slaves": 4, "masters-with-sync-slaves": 4}
ELECTED = DEPLOY / "elected-group"
START_S = 120.0
COUNT = 20
MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"


def placed(file: Path, directory: Path, port: int, names: str, **more: str) -> Path:
    """A copy of a settings file with the addresses and directories of this machine."""
    values = {
        **more,
        "namesrvAddr": names,
        "listenPort": str(port),
        "storePathRootDir": str(directory / file.stem),
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
    }
    kept = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in values]
    copy = directory / file.name
    copy.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in values.items())]) + "\n")
    return copy


@pytest.mark.rotating
@pytest.mark.parametrize("mode", this_turn(list(MODES), __name__))
def test_the_files_of_a_mode_make_a_cluster_that_takes_and_gives_messages(mode: str, tmp_path: Path) -> None:
    files = sorted((DEPLOY / mode).glob("*.conf"))
    assert len(files) == MODES[mode]
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer())
        ports = []
        for file in files:
            port = free_broker_port()
            words = ["-c", str(placed(file, tmp_path, port, names.address))]
            child = Child([sys.executable, "-c", MAIN, "broker", *words], tmp_path / f"{file.stem}.log")
            stack.callback(child.kill)
            ports.append(port)

        def registered() -> bool:
            cluster = answers(names.address, GET_CLUSTER)
            return cluster is not None and all(f"127.0.0.1:{port}".encode() in cluster for port in ports)

        wait_for(registered, f"the brokers of {mode}", START_S)
        cluster = answers(names.address, GET_CLUSTER)
        assert cluster is not None
        assert len(set(re.findall(rb'"brokerName":"([^"]+)"', cluster))) == len({f.stem[:8] for f in files})
        asyncio.run(asyncio.wait_for(send_and_receive(names.address), START_S))


def etcd_environment(number: int, ports: dict[str, int], directory: Path) -> dict[str, str]:
    """The environment of a machine of etcd, from its file, with the addresses and directories of this machine."""
    text = (ELECTED / f"etcd-{number}.env").read_text()
    for address, port in ports.items():
        text = re.sub(rf"\b{re.escape(address)}\b", f"127.0.0.1:{port}", text)
    text = text.replace("/var/lib/etcd/firearrow", str(directory / f"etcd-{number}"))
    assert "10.0.0." not in text
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def test_the_files_of_the_elected_group_make_a_group_that_survives_its_master(tmp_path: Path) -> None:
    ports = {f"10.0.0.{number}:{port}": free_port() for number in (1, 2, 3) for port in (2379, 2380)}
    coordinator = ";".join(f"http://127.0.0.1:{ports[f'10.0.0.{number}:2379']}" for number in (1, 2, 3))
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer())
        for number in (1, 2, 3):
            environment = etcd_environment(number, ports, tmp_path)
            etcd = Child(["etcd", "--log-level=error"], tmp_path / f"etcd-{number}.log", environment)
            stack.callback(etcd.kill)
        brokers: dict[int, Child] = {}
        for number in (1, 2, 3):
            port, file = free_broker_port(), ELECTED / f"broker-a-{number}.conf"
            settings = placed(file, tmp_path, port, names.address, coordinatorAddress=coordinator)
            words = ["-c", str(settings), "--drain"]
            brokers[port] = Child([sys.executable, "-c", MAIN, "broker", *words], tmp_path / f"{file.stem}.log")
            stack.callback(brokers[port].kill)

        def master() -> int:
            cluster = answers(names.address, GET_CLUSTER) or b""
            return next((port for port in brokers if f'0:"127.0.0.1:{port}"'.encode() in cluster.replace(b" ", b"")), 0)

        wait_for(lambda: bool(master()), "a master of the group", START_S)
        made = [sys.executable, "-c", MAIN, "topic", "create", topic := fresh("elected"), "-n", names.address]
        wait_for(lambda: subprocess.run(made, check=False).returncode == 0, "the topic", START_S)
        first = master()
        asyncio.run(asyncio.wait_for(send_and_receive(names.address, topic), START_S))
        brokers.pop(first).kill()
        wait_for(lambda: bool(master()), "another master", START_S)
        asyncio.run(asyncio.wait_for(send_and_receive(names.address, topic, COUNT), START_S))


async def send_and_receive(names: str, topic: str = "", before: int = 0) -> None:
    topic = topic or fresh("modes")
    sent = {b"%d" % number for number in range(before)}
    # A SYNC_MASTER refuses messages until its slave has joined.
    async with Producer(names, group=fresh("P"), send_timeout_ms=60_000, retries=1_000) as producer:
        for number in range(before, before + COUNT):
            result = await producer.send(Message(topic, b"%d" % number))
            assert result.is_ok
            sent.add(b"%d" % number)
    async with PullConsumer(names, group=fresh("G"), topics=topic, start="first") as consumer:
        found: set[bytes] = set()
        while found < sent:
            found |= {message.body for message in await consumer.poll(timeout_ms=500)}
    assert found == sent
