"""A group of three brokers of ours, with a name server and three machines of etcd, on loopback or in namespaces."""

import json
import sys
import urllib.request
from base64 import b64decode, b64encode
from collections import Counter
from types import TracebackType
from typing import Any, Final

from campaigns.failover.etcd_cluster import EtcdCluster
from campaigns.failover.group import NAME, STORE, Group, View
from campaigns.failover.network import BROKERS, NAME_SERVER, Network
from judges.servers import write_settings

LEASE_S: Final = 3
FLUSH_MODES: Final = ("SYNC_FLUSH", "ASYNC_FLUSH")
"""In turn, start by start: no machine loses power here, so that both keep what was acknowledged."""
FOR_ACTS: Final = {
    "recallMessageEnable": "true",
    "transactionTimeOut": "3000",
    "transactionCheckInterval": "5000",
}


class RealGroup(Group):
    """Brokers 1, 2 and 3 of one group under etcd."""

    system = "FireArrow"
    has_acts = True

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._etcd = EtcdCluster(network)
        self._starts: Counter[int] = Counter()

    def start_others(self) -> None:
        """Start etcd and the name server."""
        self._etcd.__enter__()
        names = ["--bind", self.network.address(NAME_SERVER), "--port", str(self.name_server_port)]
        self._command(NAME_SERVER, ["nameserver", *names])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill what runs, and delete its files."""
        super().__exit__(kind, error, at)
        self._etcd.__exit__(kind, error, at)

    def start(self, number: int) -> None:
        """Start a broker, with the directory of its last run and with the other flush mode."""
        machine = BROKERS[number - 1]
        mode = FLUSH_MODES[self._starts[number] % len(FLUSH_MODES)]
        self._starts[number] += 1
        settings = (
            STORE
            | FOR_ACTS
            | {
                "flushDiskType": mode,
                "brokerName": NAME,
                "brokerIP1": self.network.address(machine),
                "bindAddress": self.network.address(machine),
                "brokerId": str(number),
                "listenPort": str(self.ports[number]),
                "namesrvAddr": self.name_servers,
                "storePathRootDir": str(self.disks.root / machine / "store"),
                "coordinatorAddress": ";".join(self._etcd.addresses),
            }
        )
        file = write_settings(self.disks.root / f"{machine}.conf", settings)
        self._command(machine, ["broker", "-c", str(file)])

    def _command(self, machine: str, arguments: list[str]) -> None:
        self.run(machine, [sys.executable, "-m", "firearrow", *arguments])

    def view(self) -> View | None:
        """The group as etcd has it; None when it has none or nobody answers."""
        state = self._state()
        return None if state is None else View(state["master"], state["epoch"], tuple(state["iss"]))

    def _state(self) -> dict[str, Any] | None:
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
