"""A group of three real brokers, with a name server and three machines of etcd, on loopback."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from campaigns.failover.etcd_cluster import EtcdCluster, free_port

NAME = "group-a"
SETTINGS = {
    "brokerName": NAME,
    "brokerIP1": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": 16 << 20,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
}


class RealGroup:
    """Brokers 1, 2 and 3 of one group; the brokers may be killed, frozen and started again."""

    def __init__(self, **settings: object) -> None:
        self._settings = SETTINGS | settings
        self._root = Path(tempfile.mkdtemp(prefix="group"))
        self._etcd = EtcdCluster()
        self._ports = {number: free_port() for number in (1, 2, 3)}
        self._name_server_port = free_port()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._name_server: subprocess.Popen[bytes] | None = None

    @property
    def name_servers(self) -> str:
        """The address of the name server."""
        return f"127.0.0.1:{self._name_server_port}"

    @property
    def etcd(self) -> EtcdCluster:
        """The coordinator."""
        return self._etcd

    def __enter__(self) -> Self:
        """Start everything, and wait until all three brokers are in sync."""
        try:
            self._etcd.__enter__()
            self._name_server = self._run(0, ["nameserver", "--port", str(self._name_server_port)])
            for number in self._ports:
                self.start(number)
            self.wait(lambda state: len(state["iss"]) == len(self._ports), 90)
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
        shutil.rmtree(self._root, ignore_errors=True)

    # ---- brokers

    def start(self, number: int) -> None:
        """Start a broker, with the directory of its last run."""
        settings = self._settings | {
            "brokerId": number,
            "listenPort": self._ports[number],
            "namesrvAddr": self.name_servers,
            "storePathRootDir": self._root / f"store{number}",
            "coordinatorAddress": ";".join(self._etcd.addresses),
        }
        file = self._root / f"broker{number}.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._processes[number] = self._run(number, ["broker", "-c", str(file)])

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

    def _run(self, number: int, arguments: list[str]) -> subprocess.Popen[bytes]:
        with (self._root / f"log{number}").open("ab") as out:
            command = [sys.executable, "-m", "firearrow", *arguments]
            return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=dict(os.environ))

    def logs(self) -> str:
        """The last lines of every broker."""
        files = [self._root / f"log{number}" for number in self._ports]
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
