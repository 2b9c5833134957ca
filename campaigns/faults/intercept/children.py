"""A process forked from a warm one, whose promises come back through a pipe.

Starting Python takes a quarter of a second and one life of a small store takes a tenth of that, so campaigns fork. The
parent must have a single thread and no running loop when it forks; every campaign opens and closes its disks between
two children.
"""

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Final

from campaigns.faults.writer import Say, say_to
from firearrow.errors import FireArrowError
from firearrow.testing.complaints import hearing

_PIECE: Final = 1 << 16
Before = Callable[[], None]


class Child:
    """A process of ours, running."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self.pipe = pipe
        self.output = bytearray()
        self.status: int | None = None

    def read(self) -> bool:
        """Take what is in the pipe, waiting for something; False at its end."""
        data = os.read(self.pipe, _PIECE)
        self.output += data
        return bool(data)

    def read_waiting(self) -> bool:
        """Take what is in the pipe now; False at its end."""
        while select.select([self.pipe], [], [], 0)[0]:
            if not self.read():
                return False
        return True

    def kill(self) -> None:
        """End it now."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)

    def finish(self) -> int:
        """Take the rest of its output, wait for its end, and return its exit status, negative for a signal."""
        while self.read():
            pass
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status


def _end_at_a_bug(words: str, error: BaseException | None) -> None:
    """An exception in the log of a child ends it, unless the disk's refusals, which campaigns order, are the cause."""
    if not isinstance(error, FireArrowError):
        sys.stderr.write(f"{words}\n")
        traceback.print_exception(error)
        os._exit(1)


def fork(work: Callable[[Say], None], before: Before | None = None) -> Child:
    """Run ``work`` in a child; what it says comes back. ``before`` is called first, in the child."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    status = 1
    try:
        os.close(reading)
        if before is not None:
            before()
        with hearing(_end_at_a_bug):
            work(say_to(writing))
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it was, it must not return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)
