"""The limits of this host, for ``firearrow doctor``."""

import resource
from pathlib import Path

from firearrow.admin.doctor.snapshot import HostSeen


def this_host() -> HostSeen:
    """Read limits of this process and of the kernel; what cannot be read is not known."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HostSeen(
        descriptors=None if descriptors == resource.RLIM_INFINITY else descriptors,
        swappiness=_number(Path("/proc/sys/vm/swappiness")),
        map_count=_number(Path("/proc/sys/vm/max_map_count")),
    )


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
