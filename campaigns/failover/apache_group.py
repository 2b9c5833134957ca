"""A group of three brokers of Apache's 5.5.0, with its name server and three controllers.

The settings that come nearest to what our groups promise: a send is answered when every replica of the in-sync set has
it (``allAckInSyncStateSet``), and refused with fewer than two; only a replica of that set is elected, as by default;
flushing is synchronous. All times (heartbeats, when a broker counts as gone) are Apache's defaults. Brokers run with
the JVM's own choice of compilers, controllers and name server with the quick one.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from campaigns.failover.group import NAME, STORE, Group, View
from campaigns.failover.network import BROKERS, COORDINATORS, NAME_SERVER, Network
from judges.install.java import JavaProgram
from judges.install.toolchain import tail
from judges.servers import (
    CLUSTER,
    DEFAULT_VERSION,
    broker_program,
    controller_program,
    name_server_program,
    write_settings,
)
from judges.wire import SUCCESS, ask

GET_SYNC_STATE_DATA: Final = 1006
BROKER: Final = {
    "brokerClusterName": CLUSTER,
    "brokerName": NAME,
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": "2",
    # Two cores carry everything: no send shall fail because a thread had to wait for one.
    "brokerFastFailureEnable": "false",
    "osPageCacheBusyTimeOutMills": "60000",
    # 5.5.0 spins through the first of these intervals.
    "transactionMetricFlushInterval": "200",
}
BROKER_HEAP: Final = ("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m")


class ApacheGroup(Group):
    """Brokers 1, 2 and 3 of one group under Apache's controllers."""

    system = f"Apache {DEFAULT_VERSION}"

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        ports = [network.port(9878) for _ in COORDINATORS]
        self._controllers = [f"{network.address(name)}:{port}" for name, port in zip(COORDINATORS, ports, strict=True)]

    def start_others(self) -> None:
        """Start name server and controllers."""
        settings = {"listenPort": str(self.name_server_port)}
        self._java(NAME_SERVER, name_server_program(DEFAULT_VERSION), settings)
        peers = ";".join(f"n{number}-{address}" for number, address in enumerate(self._controllers))
        for number, machine in enumerate(COORDINATORS):
            settings = {
                "controllerDLegerGroup": "controllers",
                "controllerDLegerPeers": peers,
                "controllerDLegerSelfId": f"n{number}",
                "controllerStorePath": str(self._home(machine) / "store"),
                "mappedFileSize": str(16 << 20),
            }
            self._java(machine, controller_program(DEFAULT_VERSION), settings)

    def start(self, number: int) -> None:
        """Start a broker, with the directory of its last run."""
        machine = BROKERS[number - 1]
        store = self.disks.root / machine / "store"
        settings = (
            STORE
            | BROKER
            | {
                "brokerIP1": self.network.address(machine),
                "brokerIP2": self.network.address(machine),
                "listenPort": str(self.ports[number]),
                "haListenPort": str(self.ports[number] + 1),
                "namesrvAddr": self.name_servers,
                "controllerAddr": ";".join(self._controllers),
                "storePathRootDir": str(store),
                "storePathCommitLog": str(store / "commitlog"),
            }
        )
        self._java(machine, broker_program(DEFAULT_VERSION), settings, BROKER_HEAP)

    def _home(self, machine: str) -> Path:
        home = self.disks.root / f"home-{machine}"
        home.mkdir(exist_ok=True)
        return home

    def _java(
        self, machine: str, program: JavaProgram, settings: dict[str, str], heap: Sequence[str] | None = None
    ) -> None:
        home = self._home(machine)
        file = write_settings(home / f"{program.role}.conf", settings)
        words = program.command(home, ["-c", str(file)], measured_heap=heap)
        self.run(machine, words, {"ROCKETMQ_HOME": str(home)})

    def logs(self) -> str:
        """The last lines of every broker."""
        files = {machine: self._home(machine) / "logs" / "rocketmqlogs" / "broker.log" for machine in BROKERS}
        return "\n".join(f"== {machine}\n{tail(file)}" for machine, file in files.items())

    def view(self) -> View | None:
        """The group as the leading controller sees it; None when none leads."""
        numbers = {self.address(number): number for number in self.ports}
        for controller in self._controllers:
            try:
                answer = ask(controller, GET_SYNC_STATE_DATA, body=json.dumps([NAME]).encode())
            except OSError:
                continue
            found = json.loads(answer.body)["replicasInfoTable"].get(NAME) if answer.code == SUCCESS else None
            if found and found.get("masterAddress") in numbers:
                return _view(found, numbers)
        return None


def _view(found: dict[str, Any], numbers: dict[str, int]) -> View:
    members = [numbers[replica["brokerAddress"]] for replica in found["inSyncReplicas"]]
    return View(numbers[found["masterAddress"]], found["masterEpoch"], tuple(sorted(members)))
