"""The cores and priorities of processes, and the time that a process waited for a core."""

import os
from pathlib import Path


def pin(pid: int, core: int) -> None:
    """Keep every thread of a process on one core."""
    for thread in _threads(pid):
        os.sched_setaffinity(thread, {core})


def put_first(pid: int) -> bool:
    """Let a process run before all others, so that it times none of its own waiting; False if that is not allowed."""
    try:
        for thread in _threads(pid):
            os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True


def waited_s(pid: int) -> float:
    """Return the seconds that the threads of a process have waited for a core that others had."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks) / 1e9


def _threads(pid: int) -> list[int]:
    return [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
