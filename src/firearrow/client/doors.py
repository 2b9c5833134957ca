"""The doors of one producer or consumer: clock, network, files, random numbers.

A client takes everything outside its own memory from here, so that a simulated client differs only in its doors.
"""

import random
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple, Protocol

from firearrow.runtime.clock import Clock, SystemClock
from firearrow.runtime.disk.plain_files import PlainFiles
from firearrow.runtime.machine import own_ip
from firearrow.runtime.network import Network, SystemNetwork
from firearrow.runtime.process import home_directory, process_id

LOCAL_OFFSETS: Final = ".rocketmq_offsets"
"""The directory of Java's clients for the offsets of broadcasting, below the user's own directory."""


class WholeFiles(Protocol):
    """Files that are read and replaced whole."""

    def make_directory(self, path: str) -> None:
        """Make a directory, unless it is there."""
        ...

    async def read_whole(self, path: str) -> bytes:
        """All bytes of a file; raise ``FileMissing`` when there is none."""
        ...

    async def replace(self, path: str, data: bytes) -> None:
        """Put these bytes in place of a file, all at once."""
        ...


class Doors(NamedTuple):
    """The doors of one client."""

    network: Network
    clock: Clock
    chance: random.Random
    ip: str
    """The IP address in client ids and unique keys."""
    pid: int
    zone: tzinfo
    """The local time zone: unique keys count from the beginning of a local month."""
    offsets_disk: Callable[[], WholeFiles]
    """Opens the files in which broadcasting consumers keep their offsets."""

    def at(self, ip: str) -> "Doors":
        """Return a copy with another address, if one is given."""
        return self._replace(ip=ip) if ip else self


def system_doors() -> Doors:
    """The doors of this process. Made when a client is opened, so a forked process has its own."""
    clock = SystemClock()
    here = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).astimezone().tzinfo
    return Doors(SystemNetwork(), clock, random.Random(), own_ip(), process_id(), here or UTC, _home_disk)


def _home_disk() -> WholeFiles:
    return PlainFiles(f"{home_directory()}/{LOCAL_OFFSETS}")
