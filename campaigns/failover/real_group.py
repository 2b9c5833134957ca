"""A group of three real brokers, with a name server and three machines of etcd, on loopback or in namespaces."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from campaigns.failover.disks import Disks
from campaigns.failover.etcd_cluster import EtcdCluster
from campaigns.failover.network import BROKERS, NAME_SERVER, Loopback, Network

NAME = "group-a"
SETTINGS = {
    "brokerName": NAME,
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": 16 << 20,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
}


LEASE_S: Final = 3
START_S: Final = 300.0


class View(Struct, frozen=True):
    """A group as its coordinator sees it."""

    master: int
    epoch: int
    in_sync: tuple[int, ...]


class RealGroup:
    """Brokers 1, 2 and 3 of one group; the brokers may be killed, frozen and started again."""

    system = "FireArrow"

    def __init__(self, network: Network | None = None, *, small_disks: bool = False, **settings: object) -> None:
        self.network = network or Loopback()
        self.disks = Disks(small=small_disks)
        self._settings = SETTINGS | settings
        self._etcd = EtcdCluster(self.network)
        self._ports = {number: self.network.port(10911) for number in (1, 2, 3)}
        self._name_server_port = self.network.port(9876)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._name_server: subprocess.Popen[bytes] | None = None

    @property
    def name_servers(self) -> str:
        """The address of the name server."""
        return f"{self.network.address(NAME_SERVER)}:{self._name_server_port}"

    def address(self, number: int) -> str:
        """Where clients reach a broker."""
        return f"{self.network.address(BROKERS[number - 1])}:{self._ports[number]}"

    @property
    def etcd(self) -> EtcdCluster:
        """The coordinator."""
        return self._etcd

    def __enter__(self) -> Self:
        """Start everything, and wait until all three brokers are in sync."""
        try:
            self._etcd.__enter__()
            names = ["--bind", self.network.address(NAME_SERVER), "--port", str(self._name_server_port)]
            self._name_server = self._run(NAME_SERVER, ["nameserver", *names])
            for number in self._ports:
                self.disks.mount(BROKERS[number - 1])
                self.start(number)
            self.wait(lambda state: len(state["iss"]) == len(self._ports), START_S)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill what runs, and delete its files."""
        for process in (*self._processes.values(), self._name_server):
            if process is not None:
                process.kill()
                process.wait()
        self._etcd.__exit__(None, None, None)
        self.disks.remove()

    # ---- brokers

    def start(self, number: int) -> None:
        """Start a broker, with the directory of its last run."""
        machine = BROKERS[number - 1]
        settings = self._settings | {
            "brokerIP1": self.network.address(machine),
            "bindAddress": self.network.address(machine),
            "brokerId": number,
            "listenPort": self._ports[number],
            "namesrvAddr": self.name_servers,
            "storePathRootDir": self.disks.root / machine / "store",
            "coordinatorAddress": ";".join(self._etcd.addresses),
        }
        file = self.disks.root / f"{machine}.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._processes[number] = self._run(machine, ["broker", "-c", str(file)])

    def kill(self, number: int) -> None:
        """Kill a broker with SIGKILL."""
        self._processes[number].kill()
        self._processes[number].wait()

    def freeze(self, number: int) -> None:
        """Stop a broker with SIGSTOP."""
        self._processes[number].send_signal(signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a broker go on."""
        self._processes[number].send_signal(signal.SIGCONT)

    def _run(self, machine: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        with (self.disks.root / f"{machine}.log").open("ab") as out:
            command = self.network.words(machine, [sys.executable, "-m", "firearrow", *arguments])
            return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=dict(os.environ))

    def logs(self) -> str:
        """The last lines of every broker."""
        files = [self.disks.root / f"{machine}.log" for machine in BROKERS]
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in files if file.exists())

    # ---- the state of the group

    def state(self) -> dict[str, Any] | None:
        """The state at the coordinator; None when there is none or nobody answers."""
        key = b64encode(f"/firearrow/DefaultCluster/group/{NAME}".encode()).decode()
        for address in self._etcd.addresses:
            request = urllib.request.Request(f"{address}/v3/kv/range", json.dumps({"key": key}).encode())  # noqa: S310
            try:
                with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310
                    found = json.load(answer).get("kvs")
            except OSError:
                continue
            return dict(json.loads(b64decode(found[0]["value"]))) if found else None
        return None

    def view(self) -> View | None:
        """The group as its coordinator sees it; None when there is none or nobody answers."""
        state = self.state()
        return None if state is None else View(state["master"], state["epoch"], tuple(state["iss"]))

    def wait(self, condition: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Wait for a state of the group and return it."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.state()
            if state is not None and condition(state):
                return state
            if time.monotonic() > deadline:
                raise TimeoutError(f"the group is in state {state}\n{self.logs()}")
            time.sleep(0.05)
