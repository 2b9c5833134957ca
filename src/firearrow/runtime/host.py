"""The host that a broker runs on: its limits, and what should be set otherwise. The judging is pure.

``firearrow doctor --host`` prints the advice, and a broker logs it when it starts.
"""

import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

DESCRIPTORS: Final = 65_535
SWAPPINESS: Final = 10
DIRTY_BYTES: Final = 256 << 20
"""Half a second of 300 MB/s, which is how long the broker leaves bytes to the kernel, with some room."""
_CLOCK_ERROR: Final = 5  # TIME_ERROR of adjtimex(2)
_TIMEX_BYTES: Final = 512  # more than struct timex has


class HostLimits(Struct, frozen=True, kw_only=True):
    """The limits of a host; None is not known."""

    descriptors: int | None = None
    swappiness: int | None = None
    map_count: int | None = None
    dirty_bytes: int | None = None
    """The number of bytes waiting for the disk at which the kernel makes writers wait."""
    zone_reclaim: int | None = None
    is_clock_kept: bool | None = None
    """Whether a daemon keeps the clock right."""


class Advice(Struct, frozen=True):
    """A setting of the machine that should change: its state, and the step to take."""

    name: str
    what: str
    next: str


def advice(host: HostLimits) -> Iterator[Advice]:
    """Return the changes to a machine that help a broker."""
    if host.descriptors is not None and host.descriptors < DESCRIPTORS:
        yield Advice(
            "few-descriptors",
            f"a process may open {host.descriptors} files and connections; a broker needs {DESCRIPTORS}",
            "LimitNOFILE=655350 in its systemd unit, or ulimit -Hn; only if a broker runs here",
        )
    if host.swappiness is not None and host.swappiness > SWAPPINESS:
        yield Advice(
            "swaps-early",
            f"vm.swappiness is {host.swappiness}: the kernel swaps a broker out while it caches files",
            "sysctl vm.swappiness=1; only if a broker runs here",
        )
    if host.dirty_bytes is not None and host.dirty_bytes < DIRTY_BYTES:
        yield Advice(
            "few-dirty-pages",
            f"the kernel makes writers wait when {host.dirty_bytes >> 20} MiB wait for the disk: sends wait with them",
            "raise vm.dirty_ratio, or vm.dirty_bytes to 512 MiB or more; only if a broker runs here",
        )
    if host.zone_reclaim:
        yield Advice(
            "reclaims-zones",
            f"vm.zone_reclaim_mode is {host.zone_reclaim}: files are dropped from memory while other memory is free",
            "sysctl vm.zone_reclaim_mode=0; only if a broker runs here",
        )
    if host.is_clock_kept is False:
        yield Advice(
            "clock-not-kept",
            "no daemon keeps this host's clock right: delays, retention and searches by time go by it",
            "run chrony or systemd-timesyncd; not needed where the hypervisor keeps the clock",
        )


def this_host() -> HostLimits:
    """Read the limits of this process and of the kernel."""
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)  # servers raise the soft limit to the hard one
    return HostLimits(
        descriptors=None if descriptors == resource.RLIM_INFINITY else descriptors,
        swappiness=_setting("swappiness"),
        map_count=_setting("max_map_count"),
        dirty_bytes=_dirty_bytes(),
        zone_reclaim=_setting("zone_reclaim_mode"),
        is_clock_kept=_is_clock_kept(),
    )


def _setting(name: str) -> int | None:
    try:
        return int(Path(f"/proc/sys/vm/{name}").read_text())
    except (OSError, ValueError):
        return None


def _dirty_bytes() -> int | None:
    ratio = _setting("dirty_ratio")
    if whole := _setting("dirty_bytes"):
        return whole
    return None if ratio is None else ratio * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 100


def _is_clock_kept() -> bool | None:
    ask = getattr(ctypes.CDLL(None), "adjtimex", None)
    if ask is None:
        return None
    state = ask(ctypes.create_string_buffer(_TIMEX_BYTES))  # modes 0: change nothing
    return None if state < 0 else state != _CLOCK_ERROR
