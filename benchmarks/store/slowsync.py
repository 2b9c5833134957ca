"""A disk whose syncs take longer, below everything of ours: `os.fdatasync` itself, here and in the process that syncs.

Run as a script it is that process: the one of `firearrow.runtime.disk.sync_server`, with slow syncs.
"""

import os
import runpy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SYNC_SECONDS = 0.002
SERVER = Path(__file__).resolve().parents[2] / "src/firearrow/runtime/disk/sync_server.py"

_fdatasync = os.fdatasync


def slow_fdatasync(descriptor: Any) -> None:
    """Take the time that such a device would, but really sync nothing: the time must be the injected one alone."""
    os.fstat(descriptor)
    time.sleep(SYNC_SECONDS)


@contextmanager
def slow_syncs() -> Iterator[None]:
    """Let every sync of a file take 2 ms, wherever it runs."""
    from firearrow.runtime.disk import sync_server as syncserver

    file = syncserver.__file__
    os.fdatasync, syncserver.__file__ = slow_fdatasync, __file__  # type: ignore[assignment]
    try:
        yield
    finally:
        os.fdatasync, syncserver.__file__ = _fdatasync, file


if __name__ == "__main__":
    os.fdatasync = slow_fdatasync  # type: ignore[assignment]
    runpy.run_path(str(SERVER), run_name="__main__")
