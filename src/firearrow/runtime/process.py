"""Facts about the running process."""

import ctypes
import os


def process_id() -> int:
    """The number of this process; another one after a fork."""
    return os.getpid()


def home_directory() -> str:
    """Return the directory of the user's own files."""
    return os.path.expanduser("~")


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def give_back_memory() -> None:
    """Return freed memory to the system, which glibc would keep; this takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
