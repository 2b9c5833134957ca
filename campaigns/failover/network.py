"""The network of a group's machines: on loopback, or each in a network namespace of its own behind one bridge.

Two machines of the bridge lose sight of each other when each takes the other's address for that of a network card that
nobody has: packets vanish without a word, as behind a dead switch, and nobody else notices. That needs ``ip`` and root.
Namespaces and bridges carry the id of the process that made them; what a killed run left behind is removed by the next.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from firearrow.testing.ports import free_broker_port

BROKERS: Final = ("b1", "b2", "b3")
COORDINATORS: Final = ("e1", "e2", "e3")
NAME_SERVER: Final = "names"
CLIENTS: Final = "clients"
MACHINES: Final = (*BROKERS, *COORDINATORS, NAME_SERVER, CLIENTS)

_NAMESPACE: Final = "fa-failover-"
_BRIDGE: Final = "fab"
_HOST: Final = 254
_NOBODY: Final = "02:fa:00:00:00:fe"
_SUBNETS: Final = 250


class Network(Protocol):
    """The machines of one group."""

    is_divisible: bool
    """Whether machines can lose sight of each other."""

    def address(self, machine: str) -> str:
        """The address of a machine."""
        ...

    def port(self, usual: int) -> int:
        """A port for a server whose usual one this is."""
        ...

    def words(self, machine: str, command: Sequence[str]) -> list[str]:
        """The command that runs a program on a machine."""
        ...

    def divide(self, machine: str, others: Iterable[str]) -> None:
        """Let all packets between a machine and others vanish."""
        ...

    def join(self, machine: str, others: Iterable[str]) -> None:
        """Let packets pass again."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Loopback:
    """All machines are processes of this one."""

    is_divisible = False

    def address(self, _machine: str) -> str:
        """The loopback address."""
        return "127.0.0.1"

    def port(self, _usual: int) -> int:
        """A free port."""
        return free_broker_port()

    def words(self, _machine: str, command: Sequence[str]) -> list[str]:
        """The command itself."""
        return list(command)

    def divide(self, machine: str, others: Iterable[str]) -> None:
        """Refuse: loopback has no links."""
        raise NotImplementedError(f"{machine} cannot be divided from {list(others)} on loopback: run as root, with ip")

    def join(self, _machine: str, _others: Iterable[str]) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""


class Namespaces:
    """Every machine in a namespace, and this process at the bridge, where nothing divides it from any of them."""

    is_divisible = True

    def __init__(self) -> None:
        self._bridge = f"{_BRIDGE}{os.getpid()}"
        self._net = _free_net()
        self._hosts = {machine: number for number, machine in enumerate(MACHINES, 1)}

    def address(self, machine: str) -> str:
        """The address of a machine at the bridge."""
        return f"{self._net}.{self._hosts[machine]}"

    def port(self, usual: int) -> int:
        """The usual port: every machine has its own."""
        return usual

    def words(self, machine: str, command: Sequence[str]) -> list[str]:
        """The command in the machine's namespace."""
        return ["nsenter", f"--net=/run/netns/{_name(machine)}", *command]

    def divide(self, machine: str, others: Iterable[str]) -> None:
        """Let each take the other's address for a card that nobody has."""
        for here, there in self._pairs(machine, others):
            _ip(f"-n {_name(here)} neigh replace {self.address(there)} lladdr {_NOBODY} dev eth0 nud permanent")

    def join(self, machine: str, others: Iterable[str]) -> None:
        """Let them ask for each other's card again."""
        for here, there in self._pairs(machine, others):
            with suppress(subprocess.CalledProcessError):
                _ip(f"-n {_name(here)} neigh del {self.address(there)} dev eth0")

    def _pairs(self, machine: str, others: Iterable[str]) -> list[tuple[str, str]]:
        return [pair for other in others for pair in ((machine, other), (other, machine))]

    def __enter__(self) -> Self:
        remove_leftovers()
        try:
            self._build()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _build(self) -> None:
        _ip(f"link add {self._bridge} type bridge")
        _ip(f"addr add {self._net}.{_HOST}/24 dev {self._bridge}")
        _ip(f"link set {self._bridge} up")
        for machine, number in self._hosts.items():
            name, link = _name(machine), f"fav{os.getpid()}x{number}"
            _ip(f"netns add {name}")
            _ip(f"link add {link} type veth peer name eth0 netns {name}")
            _ip(f"link set {link} master {self._bridge} up")
            _ip(f"-n {name} addr add {self.address(machine)}/24 dev eth0")
            _ip(f"-n {name} link set eth0 up")
            _ip(f"-n {name} link set lo up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill what still runs in the namespaces, and remove them."""
        for machine in MACHINES:
            _remove_namespace(_name(machine))
        _remove_bridge(self._bridge)


def lacks() -> list[str]:
    """The programs and rights for namespaces that this machine lacks."""
    tools = [tool for tool in ("ip", "nsenter") if shutil.which(tool) is None]
    needed = tools + (["root"] if os.geteuid() != 0 else [])
    if needed:
        return needed
    probe = f"{_NAMESPACE}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode == 0
    _remove_namespace(probe)
    return [] if made else ["the right to make network namespaces"]


def remove_leftovers() -> None:
    """Remove namespaces and bridges of runs that were killed, and end the processes in them."""
    for directory in (Path("/run/netns"), Path("/sys/class/net")):
        for found in sorted(directory.iterdir()) if directory.is_dir() else ():
            begin = _NAMESPACE if directory.name == "netns" else _BRIDGE
            owner = found.name.removeprefix(begin).split("-")[0]
            if not found.name.startswith(begin) or not owner.isdigit() or Path(f"/proc/{owner}").exists():
                continue
            (_remove_namespace if begin == _NAMESPACE else _remove_bridge)(found.name)


def _free_net() -> str:
    """The first three numbers of addresses that no bridge of another run has, beginning at this process's id."""
    told = subprocess.run(["ip", "-o", "-4", "addr"], capture_output=True, text=True, check=False).stdout
    nets = [f"10.232.{(os.getpid() + more) % _SUBNETS}" for more in range(_SUBNETS)]
    return next((net for net in nets if f" {net}." not in told), nets[0])


def _name(machine: str) -> str:
    return f"{_NAMESPACE}{os.getpid()}-{machine}"


def _remove_namespace(name: str) -> None:
    inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for process in inside.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _remove_bridge(name: str) -> None:
    subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)
