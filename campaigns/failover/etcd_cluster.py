"""Three machines of etcd, on loopback or in namespaces."""

import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from campaigns.failover.network import COORDINATORS, Loopback, Network

START_S = 200.0


class EtcdCluster:
    """Three processes of Debian's etcd-server."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Loopback()
        self._root = Path(tempfile.mkdtemp(prefix=f"fa-failover-{os.getpid()}-etcd-"))
        self._ports = [(self._network.port(2379), self._network.port(2380)) for _ in COORDINATORS]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def addresses(self) -> list[str]:
        """The addresses at which clients reach the machines."""
        return [self._url(number, client) for number, (client, _) in enumerate(self._ports)]

    def _url(self, number: int, port: int) -> str:
        return f"http://{self._network.address(COORDINATORS[number])}:{port}"

    def __enter__(self) -> Self:
        """Start all three, and wait until they answer."""
        for number in range(len(COORDINATORS)):
            self._processes.append(self._start(number))
        deadline = time.monotonic() + START_S
        while not all(map(_is_healthy, self.addresses)):
            if time.monotonic() > deadline:
                self.__exit__(None, None, None)
                raise TimeoutError("etcd does not answer; is etcd-server installed?")
            time.sleep(0.1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill what runs, and delete its files."""
        for process in self._processes:
            process.kill()
            process.wait()
        shutil.rmtree(self._root, ignore_errors=True)

    def kill(self, number: int) -> None:
        """Kill one machine."""
        self._processes[number].kill()
        self._processes[number].wait()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        client, _ = self._ports[number]
        peers = [self._url(member, port) for member, (_, port) in enumerate(self._ports)]
        command = etcd_command(number, self._root / f"m{number}", self._url(number, client), peers)
        words = self._network.words(COORDINATORS[number], command)
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def etcd_command(number: int, directory: Path, client: str, peers: Sequence[str]) -> list[str]:
    """The command of one of several machines of etcd, told where clients reach it and where its peers are."""
    flags = {
        "name": f"m{number}",
        "data-dir": str(directory),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peers[number],
        "initial-advertise-peer-urls": peers[number],
        "initial-cluster": ",".join(f"m{member}={peer}" for member, peer in enumerate(peers)),
        "logger": "zap",
        "log-level": "error",
    }
    return ["etcd", *(f"--{key}={value}" for key, value in flags.items())]


def _is_healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=1) as answer:  # noqa: S310
            return b"true" in answer.read()
    except OSError:
        return False
