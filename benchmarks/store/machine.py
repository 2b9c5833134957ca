"""The machine that the figures were measured on, the disk's own sync included."""

import os
import platform
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version

from benchmarks.store.report import percentile

SYNCS = 200


def machine_line(directory: str) -> str:
    """CPU, versions, load and what one small sync of this disk takes."""
    p50, p99 = sync_microseconds(directory)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{_cpu()}, {os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}, "
        f"uvloop {_version('uvloop')}, msgspec {_version('msgspec')}, load average {load}, "
        f"nice {os.getpriority(os.PRIO_PROCESS, 0)}, {_file_system(directory)}, "
        f"fdatasync p50 {p50:,.0f} us p99 {p99:,.0f} us"
    )


def sync_microseconds(directory: str, count: int = SYNCS) -> tuple[float, float]:
    """p50 and p99 of writing 4 KiB and syncing them, over space that is allocated."""
    page = bytes(4096)
    with tempfile.TemporaryFile(dir=directory) as file:
        descriptor = file.fileno()
        os.pwrite(descriptor, bytes(64 * 4096), 0)
        os.fsync(descriptor)
        took = []
        for number in range(count):
            os.pwrite(descriptor, page, number % 64 * 4096)
            began = time.perf_counter()
            os.fdatasync(descriptor)
            took.append((time.perf_counter() - began) * 1e6)
    return percentile(took, 0.5), percentile(took, 0.99)


def _cpu() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _file_system(directory: str) -> str:
    """The type of the file system that holds a directory."""
    where, best = os.path.realpath(directory), ("", "unknown file system")
    with open("/proc/mounts", encoding="utf-8") as lines:
        for line in lines:
            _, point, kind, *_ = line.split(" ")
            if where == point or where.startswith(point.rstrip("/") + "/"):
                best = max(best, (point, kind))
    return best[1]
