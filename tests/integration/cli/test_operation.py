"""A broker restarted without a failed send, by Apache's runbook, with scripts of Apache's names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow.cli.mqadmin.server_scripts import running
from firearrow.testing.ports import free_broker_port, free_port
from judges.server_process import wait_for

pytestmark = pytest.mark.real
SECONDS = 90
SCRIPTS = {
    "mqadmin": "firearrow.cli.mqadmin:main",
    "mqbroker": "firearrow.cli.mqadmin.server_scripts:mqbroker",
    "mqnamesrv": "firearrow.cli.mqadmin.server_scripts:mqnamesrv",
}


class Machine:
    """A machine with the scripts and nothing else: a home, a name server, a broker."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.names = f"127.0.0.1:{free_port()}"
        self._processes: list[subprocess.Popen[str]] = []
        for name, place in SCRIPTS.items():
            module, _, function = place.partition(":")
            text = f"import sys\nfrom {module} import {function}\nsys.argv[0] = {name!r}\n{function}()\n"
            (home / name).write_text(text)
        (home / "namesrv.conf").write_text(f"listenPort={self.names.rpartition(':')[2]}\nbindAddress=127.0.0.1\n")
        settings = {
            "brokerName": "broker-a", "brokerIP1": "127.0.0.1", "listenPort": free_broker_port(),
            "storePathRootDir": home / "store", "storePathConsumeQueue": home / "queues", "namesrvAddr": self.names,
        }  # fmt: skip
        (home / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self, script: str, *words: str) -> str:
        """Start a server in the background; return the line that tells that it serves."""
        with (self.home / f"{script}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, str(self.home / script), *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={"HOME": str(self.home), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
            )
        self._processes.append(process)
        assert process.stdout is not None
        return process.stdout.readline().rstrip("\n")

    def admin(self, line: str) -> str:
        """Run a command of mqadmin."""
        done = subprocess.run(
            [sys.executable, str(self.home / "mqadmin"), *line.split(), "-n", self.names],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "FIREARROW_MQADMIN_EXIT": "strict"},
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    def shut_down(self) -> int:
        """Stop the broker as mqshutdown does, its own alone: others may run on this machine. Return its status."""
        assert self._processes[-1].pid in running("mqbroker")
        return self._end(self._processes.pop())

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> int:
        process.terminate()
        status = process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return status

    def close(self) -> None:
        """End all servers."""
        for process in reversed(self._processes):
            self._end(process)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_the_runbook_of_a_restart(machine: Machine) -> None:
    home = machine.home
    assert machine.start("mqnamesrv", "-c", f"{home}/namesrv.conf") == (
        f"The Name Server boot success. serializeType=JSON, address {machine.names}"
    )
    told = machine.start("mqbroker", "-c", f"{home}/broker.conf")
    assert told.startswith("The broker[broker-a, 127.0.0.1:")
    assert told.endswith(f"] boot success. serializeType=JSON and name server is {machine.names}")
    wait_for(lambda: "broker-a" in machine.admin("clusterList"), "the broker is registered", SECONDS)
    machine.admin("updateTopic -c DefaultCluster -t orders -r 2 -w 2")
    assert "SEND_OK" in machine.admin("sendMessage -t orders -p first")
    assert "BODY: first" in machine.admin("consumeMessage -t orders")
    assert "OK, " in machine.admin("wipeWritePerm -b broker-a")
    assert perm(machine) == "4", "clients see no queue to send to from their next look at the route on"
    assert machine.shut_down() == 0
    assert not (home / "store" / "abort").exists(), "the store was closed in order"
    machine.start("mqbroker", "-c", f"{home}/broker.conf")
    wait_for(lambda: "broker-a" in machine.admin("clusterList"), "the broker is registered again", SECONDS)
    assert "OK, " in machine.admin("addWritePerm -b broker-a")
    assert perm(machine) == "6"
    assert "SEND_OK" in machine.admin("sendMessage -t orders -p second")
    read = machine.admin("printMsg -t orders")
    assert "BODY: first" in read
    assert "BODY: second" in read
    assert {each.name for each in (home / "queues" / "orders").iterdir()} <= {"0", "1"}


def perm(machine: Machine) -> str:
    """Return the permission of the topic in the list of its route."""
    return machine.admin("topicRoute -t orders -l").splitlines()[1].split()[-1]
