"""Three machines of etcd, as processes on loopback."""

import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

START_S = 60.0


class EtcdCluster:
    """Three processes of Debian's etcd-server."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="etcd"))
        self._ports = [(free_port(), free_port()) for _ in range(3)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def addresses(self) -> list[str]:
        """Where clients reach the machines."""
        return [f"http://127.0.0.1:{client}" for client, _ in self._ports]

    def __enter__(self) -> Self:
        """Start all three, and wait until they answer."""
        for number in range(3):
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
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports[number])
        everybody = ",".join(f"m{one}=http://127.0.0.1:{port}" for one, (_, port) in enumerate(self._ports))
        flags = {
            "name": f"m{number}",
            "data-dir": str(self._root / f"m{number}"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": everybody,
            "logger": "zap",
            "log-level": "error",
        }
        arguments = [f"--{key}={value}" for key, value in flags.items()]
        return subprocess.Popen(["etcd", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def free_port() -> int:
    """Return a port that is free now, like the two after it and the one two below it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if all(map(_is_free, (port - 2, port + 1))):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _is_healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=1) as answer:  # noqa: S310
            return b"true" in answer.read()
    except OSError:
        return False
