"""A group of three brokers of Apache's 5.5.0, with three name servers that hold its controller.

A send is answered when every replica of the in-sync set has it (``allAckInSyncStateSet``), and refused with fewer than
two: the settings that come nearest to what our groups promise. Flushing is synchronous, as in our groups.
"""

import json
import os
import signal
import subprocess
import time
from types import TracebackType
from typing import Any, Final, Self

from campaigns.failover.disks import Disks
from campaigns.failover.network import BROKERS, COORDINATORS, Network
from campaigns.failover.real_group import NAME, View
from judges.install.toolchain import tail
from judges.servers import broker_program, name_server_program, write_logging, write_settings
from judges.wire import SUCCESS, ask

VERSION: Final = "5.5.0"
GET_SYNC_STATE_DATA: Final = 1006
START_S: Final = 180.0
BROKER: Final = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": NAME,
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": "2",
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": str(16 << 20),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
    "brokerFastFailureEnable": "false",
    "osPageCacheBusyTimeOutMills": "60000",
    "transactionMetricFlushInterval": "200",
}
CONTROLLER: Final = {
    "enableControllerInNamesrv": "true",
    "controllerDLegerGroup": "controllers",
    "mappedFileSize": str(16 << 20),
}


class ApacheGroup:
    """Brokers 1, 2 and 3 of one group under Apache's controller."""

    system = f"Apache {VERSION}"

    def __init__(self, network: Network) -> None:
        self.network = network
        self.disks = Disks(small=network.is_divisible)
        self._ports = {number: network.port(10911) for number in (1, 2, 3)}
        self._name_ports = [network.port(9876) for _ in COORDINATORS]
        self._controller_ports = [network.port(9878) for _ in COORDINATORS]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def name_servers(self) -> str:
        """The addresses of the name servers."""
        return self._at(self._name_ports)

    def _at(self, ports: list[int]) -> str:
        found = [f"{self.network.address(name)}:{port}" for name, port in zip(COORDINATORS, ports, strict=True)]
        return ";".join(found)

    def address(self, number: int) -> str:
        """Where clients reach a broker."""
        return f"{self.network.address(BROKERS[number - 1])}:{self._ports[number]}"

    def __enter__(self) -> Self:
        """Start everything, and wait until all three brokers are in sync."""
        try:
            for number, machine in enumerate(COORDINATORS):
                self._start_name_server(number, machine)
            for number in self._ports:
                self.disks.mount(BROKERS[number - 1])
                self.start(number)
            self._wait_in_sync()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill what runs, and delete its files."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self.disks.remove()

    def _wait_in_sync(self) -> None:
        deadline = time.monotonic() + START_S
        while (view := self.view()) is None or len(view.in_sync) < len(self._ports):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Apache's group is in state {view} after {START_S:g} s\n{self.logs()}")
            time.sleep(0.5)

    # ---- processes

    def _start_name_server(self, number: int, machine: str) -> None:
        home = self.disks.root / f"home-{machine}"
        (home / "conf").mkdir(parents=True)
        peers = [f"n{member}-{address}" for member, address in enumerate(self._at(self._controller_ports).split(";"))]
        settings = CONTROLLER | {
            "listenPort": str(self._name_ports[number]),
            "controllerDLegerPeers": ";".join(peers),
            "controllerDLegerSelfId": f"n{number}",
            "controllerStorePath": str(home / "controller"),
        }
        write_logging(home, "namesrv")
        file = write_settings(home / "namesrv.conf", settings)
        self._run(machine, name_server_program(VERSION).command(home, ["-c", str(file)]))

    def start(self, number: int) -> None:
        """Start a broker, with the directory of its last run."""
        machine = BROKERS[number - 1]
        home, store = self.disks.root / f"home-{machine}", self.disks.root / machine / "store"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        settings = BROKER | {
            "brokerIP1": self.network.address(machine),
            "brokerIP2": self.network.address(machine),
            "listenPort": str(self._ports[number]),
            "haListenPort": str(self._ports[number] + 1),
            "namesrvAddr": self.name_servers,
            "controllerAddr": self._at(self._controller_ports),
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
        }
        write_logging(home, "broker")
        file = write_settings(home / "broker.conf", settings)
        self._run(machine, broker_program(VERSION).command(home, ["-c", str(file)]))

    def _run(self, machine: str, command: list[str]) -> None:
        home = self.disks.root / f"home-{machine}"
        with (home / "output.log").open("ab") as out:
            words, environment = self.network.words(machine, command), dict(os.environ) | {"ROCKETMQ_HOME": str(home)}
            self._processes[machine] = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=environment)

    def kill(self, number: int) -> None:
        """Kill a broker with SIGKILL."""
        process = self._processes[BROKERS[number - 1]]
        process.kill()
        process.wait()

    def freeze(self, number: int) -> None:
        """Stop a broker with SIGSTOP."""
        self._processes[BROKERS[number - 1]].send_signal(signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a broker go on."""
        self._processes[BROKERS[number - 1]].send_signal(signal.SIGCONT)

    def logs(self) -> str:
        """The last lines of every broker."""
        return "\n".join(
            f"== {machine}\n{tail(self.disks.root / f'home-{machine}' / 'broker.log')}" for machine in BROKERS
        )

    # ---- the state of the group

    def view(self) -> View | None:
        """The group as the leading controller sees it."""
        numbers = {self.address(number): number for number in self._ports}
        for controller in self._at(self._controller_ports).split(";"):
            try:
                answer = ask(controller, GET_SYNC_STATE_DATA, body=json.dumps([NAME]).encode())
            except OSError:
                continue
            found = json.loads(answer.body).get("replicasInfoTable", {}).get(NAME) if answer.code == SUCCESS else None
            if found and found.get("masterAddress") in numbers:
                return _view(found, numbers)
        return None


def _view(found: dict[str, Any], numbers: dict[str, int]) -> View:
    members = [numbers[replica["brokerAddress"]] for replica in found["inSyncReplicas"]]
    return View(numbers[found["masterAddress"]], found["masterEpoch"], tuple(sorted(members)))
