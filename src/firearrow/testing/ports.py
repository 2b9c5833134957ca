"""Free ports on the loopback interface, reserved until the process ends.

A port is taken by a lock on a small file, so that test processes running side by side do not pick the same
one between looking and listening, and it lies below the range from which the kernel serves outgoing
connections. A broker needs three: its own, its own - 2 (the channel for urgent requests) and its own + 1
(replication).
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LOWEST, HIGHEST = 12_000, 31_900
BROKER_SPREAD = (0, -2, 1)
ATTEMPTS = 500

_choice = random.Random(os.getpid())


def free_port() -> int:
    """Return a reserved port."""
    return _reserve((0,))


def free_broker_port() -> int:
    """Return a reserved port, together with the neighbouring ports that a broker needs."""
    return _reserve(BROKER_SPREAD)


def _reserve(spread: tuple[int, ...]) -> int:
    for _ in range(ATTEMPTS):
        port = _choice.randrange(LOWEST, HIGHEST)
        locks = [_lock(port + offset) for offset in spread]
        if all(lock is not None for lock in locks) and all(_bindable(port + offset) for offset in spread):
            return port
        for lock in locks:
            if lock is not None:
                os.close(lock)
    raise OSError(f"no free port between {LOWEST} and {HIGHEST} after {ATTEMPTS} attempts")


def _lock(port: int) -> int | None:
    """Return a descriptor whose lock holds a port; None when another one holds it.

    A descriptor, and not a file object: nothing closes it, and the end of the process does so without a warning.
    """
    directory = Path(tempfile.gettempdir()) / f"firearrow-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    lock = os.open(directory / str(port), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
