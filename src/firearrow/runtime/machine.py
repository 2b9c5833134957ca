"""Facts that a server needs about its machine: address, memory, boot, time zone."""

import calendar
import os
import socket
import time
from datetime import UTC, datetime, timedelta, tzinfo
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from firearrow.errors import SettingsError

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_SOMEWHERE: Final = ("192.0.2.1", 9)  # reserved for documentation: nothing is sent there


class Machine(NamedTuple):
    """The machine as its servers see it."""

    name: str
    ip: str
    """The address by which other machines reach this one, in numbers."""
    memory_bytes: int
    boot_id: str
    """The boot id: a new one after every start of the machine."""
    zone: tzinfo = UTC
    """The local time zone."""


class LocalZone(tzinfo):
    """The system's time zone with daylight saving time, looked up for every time."""

    def fromutc(self, moment: datetime) -> datetime:
        """Return the local time of a UTC time."""
        return moment + _ahead_of_utc(calendar.timegm(moment.timetuple()))

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """Return the offset from UTC at a local time."""
        if moment is None:
            return timedelta()
        return _ahead_of_utc(int(time.mktime(moment.replace(tzinfo=None).timetuple())))

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Return None: daylight saving time is part of the offset."""
        del moment
        return None

    def tzname(self, moment: datetime | None) -> str:
        """Return the name of the zone."""
        del moment
        return "local"


def _ahead_of_utc(seconds: int) -> timedelta:
    return timedelta(seconds=time.localtime(seconds).tm_gmtoff)


def this_machine() -> Machine:
    """Return the machine of this process."""
    return Machine(socket.gethostname(), own_ip(), _memory_bytes(), _boot_id(), LocalZone())


def own_ip() -> str:
    """Return the IP address from which this machine reaches others; loopback without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def numeric(host: str) -> str:
    """Return a host as an IP address; raise ``SettingsError`` for an unknown name."""
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise SettingsError(f"{host!r} is neither an address nor a known name of one: {error}") from error


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _boot_id() -> str:
    """Return the boot id; if the system has none, a new one for every process, which is safe."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return f"{os.getpid()}-{os.urandom(8).hex()}"
