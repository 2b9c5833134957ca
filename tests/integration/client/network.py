"""Machines that lose sight of each other: network namespaces, with a router between the client's and the host.

    this host  <-- veth -->  router  <-- veth -->  client

While the router does not forward, packets vanish without a word, both ways, as between machines whose switch has died.
"""

import itertools
import os
import shutil
import subprocess
import sys
from types import TracebackType
from typing import Self

_numbers = itertools.count(os.getpid() % 200)


def can_divide() -> bool:
    """Whether this user may make network namespaces here."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"fa-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=False)
    return made


class Divided:
    """A client's machine behind a router."""

    def __init__(self) -> None:
        number = next(_numbers) % 250
        self._router, self._client, self._link = (
            f"fa-r-{os.getpid()}-{number}",
            f"fa-c-{os.getpid()}-{number}",
            f"fa{number}",
        )
        self._net = f"10.231.{number}"
        self.host_ip = f"{self._net}.1"

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _build(self) -> None:
        net, router, client = self._net, self._router, self._client
        for words in (
            f"netns add {router}",
            f"netns add {client}",
            f"link add {self._link} type veth peer name r0 netns {router}",
            f"-n {router} link add r1 type veth peer name c0 netns {client}",
            f"addr add {net}.1/30 dev {self._link}",
            f"link set {self._link} up",
            f"-n {router} addr add {net}.2/30 dev r0",
            f"-n {router} addr add {net}.5/30 dev r1",
            f"-n {router} link set r0 up",
            f"-n {router} link set r1 up",
            f"-n {client} addr add {net}.6/30 dev c0",
            f"-n {client} link set c0 up",
            f"-n {client} link set lo up",
            f"route add {net}.4/30 via {net}.2",
            f"-n {client} route add default via {net}.5",
        ):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        self.join()

    def _remove(self) -> None:
        for words in (f"link del {self._link}", f"netns del {self._router}", f"netns del {self._client}"):
            subprocess.run(["ip", *words.split()], check=False, capture_output=True)

    def _forward(self, value: int) -> None:
        program = f"open('/proc/sys/net/ipv4/ip_forward', 'w').write('{value}')"
        subprocess.run(["ip", "netns", "exec", self._router, sys.executable, "-c", program], check=True)

    def part(self) -> None:
        """Let every packet vanish."""
        self._forward(0)

    def join(self) -> None:
        """Let packets pass."""
        self._forward(1)

    def command(self, *words: str) -> list[str]:
        """The same command on the client's machine."""
        return ["ip", "netns", "exec", self._client, *words]
