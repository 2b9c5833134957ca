"""A group of three brokers whose master is elected: the processes, and the verbs that the campaign has for them."""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from campaigns.failover.disks import Disks
from campaigns.failover.network import BROKERS, NAME_SERVER, Network
from judges.install.toolchain import tail

START_S: Final = 300.0
LOOK_S: Final = 0.2
NAME: Final = "group-a"
STORE: Final = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": str(16 << 20),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
}
"""The settings that the brokers of every system share: an acknowledged message is synced, and files fit a small
disk."""


class View(Struct, frozen=True):
    """A group as its coordinator sees it."""

    master: int
    epoch: int
    in_sync: tuple[int, ...]


class Group(ABC):
    """Brokers 1, 2 and 3 of one group; they may be killed, frozen and started again."""

    system: str
    has_acts = False
    """Whether the group is asked for more than plain sends."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.disks = Disks(small=network.is_divisible)
        self.ports = {number: network.port(10911) for number in range(1, len(BROKERS) + 1)}
        self.name_server_port = network.port(9876)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def name_servers(self) -> str:
        """The address of the name server."""
        return f"{self.network.address(NAME_SERVER)}:{self.name_server_port}"

    def address(self, number: int) -> str:
        """The address at which clients reach a broker."""
        return f"{self.network.address(BROKERS[number - 1])}:{self.ports[number]}"

    @abstractmethod
    def start_others(self) -> None:
        """Start whatever the brokers need: name server and coordinator."""

    @abstractmethod
    def start(self, number: int) -> None:
        """Start a broker, with the directory of its last run."""

    @abstractmethod
    def view(self) -> View | None:
        """The group as its coordinator sees it; None when there is none or nobody answers."""

    def __enter__(self) -> Self:
        """Start everything, and wait until all three brokers are in sync."""
        try:
            self.start_others()
            for number in self.ports:
                self.disks.mount(BROKERS[number - 1])
                self.start(number)
            self._wait_in_sync()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _wait_in_sync(self) -> None:
        deadline = time.monotonic() + START_S
        while (view := self.view()) is None or len(view.in_sync) < len(self.ports):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the group is {view} after {START_S:g} s\n{self.logs()}")
            time.sleep(LOOK_S)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill what runs, and delete its files."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self.disks.remove()

    def run(self, machine: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run a program on a machine; its output goes into a file."""
        words = self.network.words(machine, command)
        with (self.disks.root / f"{machine}.log").open("ab") as out:
            told = {**os.environ, **(environment or {})}
            self._processes[machine] = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=told)

    def _broker(self, number: int) -> subprocess.Popen[bytes]:
        return self._processes[BROKERS[number - 1]]

    def kill(self, number: int) -> None:
        """Kill a broker with SIGKILL."""
        self._broker(number).kill()
        self._broker(number).wait()

    def freeze(self, number: int) -> None:
        """Stop a broker with SIGSTOP."""
        self._broker(number).send_signal(signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a broker go on."""
        self._broker(number).send_signal(signal.SIGCONT)

    def logs(self) -> str:
        """The last lines of every broker."""
        files = [self.disks.root / f"{machine}.log" for machine in BROKERS]
        return "\n".join(f"== {file.name}\n{tail(file)}" for file in files)
