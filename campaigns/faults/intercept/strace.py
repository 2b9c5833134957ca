"""A second pair of eyes: strace, which knows nothing of our filter, lists what a writer did to its directory.

Every call on the directory that is not plainly a reading one must be in our table of calls, and the two must have seen
the same calls. strace can also kill by itself (``inject=CALL:signal=SIGKILL:when=N``), which shows that the deaths of
`interception` are no kinder than anybody's.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from typing import Final

from campaigns.faults.intercept.filters import machine

READING: Final = (
    "access chdir close dup epoll_ctl execve faccessat faccessat2 fadvise64 fcntl fgetxattr flock fstat fstatfs getcwd "
    "getdents64 ioctl lseek mmap newfstatat open openat pread64 preadv preadv2 read readlink readlinkat recvmsg "
    "sendmsg stat statfs statx"
)
_LINE: Final = re.compile(r"^\d+\s+(\w+)\((.*)$")
_RESUMED: Final = re.compile(r"^\d+\s+<\.\.\. ")


def writer_command(directory: str, *more: str) -> list[str]:
    """The command line of the writer."""
    return [sys.executable, "-m", "campaigns.faults.writer", directory, *more]


def traced_calls(directory: str, *more: str) -> Counter[str]:
    """The calls by which a writer changed its directory, by name, as strace saw them."""
    log = f"{directory}.strace"
    command = ["strace", "-f", "-y", "-s", "0", "-e", "trace=%file,%desc", "-o", log, *writer_command(directory, *more)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    counts: Counter[str] = Counter()
    reading = set(READING.split())
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            found = _LINE.match(line)
            if found is None or _RESUMED.match(line) or directory not in line:
                continue
            name, rest = found.groups()
            if name not in reading or (name.startswith("open") and ("O_CREAT" in rest or "O_TRUNC" in rest)):
                counts[name] += 1
    os.unlink(log)
    return counts


def unknown_calls(counts: Counter[str]) -> list[str]:
    """The calls that our filter does not know."""
    return sorted(set(counts) - set(machine().calls))


def killed_by_strace(directory: str, call: str, when: int, *more: str) -> tuple[bytes, bool]:
    """Run a writer that strace kills at the ``when``-th call of a name; return its promises and whether it died."""
    inject = f"inject={call}:signal=SIGKILL:when={when}"
    command = ["strace", "-f", "-qqq", "-e", f"trace={call}", "-e", inject, "-o", "/dev/null"]
    ran = subprocess.run(
        [*command, *writer_command(directory, *more)], check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return ran.stdout, ran.returncode != 0
