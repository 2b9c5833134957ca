"""The system calls that change files, as a seccomp filter that hands each to a listener. Pure tables and bytes.

The filter runs in the kernel for every thread and child of the process that installs it, so nothing escapes it; calls
that are not listed, and opens that neither create nor cut a file, cost nothing. Linux: ``seccomp_unotify(2)``.
"""

import platform
import struct
from typing import Final, NamedTuple

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
_ALLOW: Final = 0x7FFF0000
_NOTIFY: Final = 0x7FC00000
_NUMBER_AT: Final = 0
_ARCH_AT: Final = 4
_ARGUMENTS_AT: Final = 16
_CREATES: Final = 0o100 | 0o1000  # O_CREAT, O_TRUNC


class Machine(NamedTuple):
    """The facts that differ between processors."""

    arch: int
    seccomp: int
    pidfd_getfd: int
    calls: dict[str, int]


_X86_64 = Machine(
    0xC000003E,
    317,
    438,
    {
        "pwrite64": 18,
        "pwritev": 296,
        "pwritev2": 328,
        "fsync": 74,
        "fdatasync": 75,
        "truncate": 76,
        "ftruncate": 77,
        "fallocate": 285,
        "sync_file_range": 277,
        "copy_file_range": 326,
        "rename": 82,
        "renameat": 264,
        "renameat2": 316,
        "unlink": 87,
        "unlinkat": 263,
        "mkdir": 83,
        "mkdirat": 258,
        "rmdir": 84,
        "link": 86,
        "linkat": 265,
        "openat": 257,
    },
)
_AARCH64 = Machine(
    0xC00000B7,
    277,
    438,
    {
        "pwrite64": 68,
        "pwritev": 70,
        "pwritev2": 287,
        "fsync": 82,
        "fdatasync": 83,
        "truncate": 45,
        "ftruncate": 46,
        "fallocate": 47,
        "sync_file_range": 84,
        "copy_file_range": 285,
        "renameat": 38,
        "renameat2": 276,
        "unlinkat": 35,
        "mkdirat": 34,
        "linkat": 37,
        "openat": 56,
    },
)

WRITES: Final = frozenset({"pwrite64", "pwritev", "pwritev2"})
SYNCS: Final = frozenset({"fsync", "fdatasync"})
BY_DESCRIPTOR: Final = WRITES | SYNCS | {"ftruncate", "fallocate", "sync_file_range"}
PATH_ARGUMENT: Final = {
    "truncate": 0,
    "rename": 0,
    "unlink": 0,
    "mkdir": 0,
    "rmdir": 0,
    "link": 0,
    "renameat": 1,
    "renameat2": 1,
    "unlinkat": 1,
    "mkdirat": 1,
    "linkat": 1,
    "openat": 1,
}


def machine() -> Machine:
    """The tables of this processor."""
    return _AARCH64 if platform.machine() == "aarch64" else _X86_64


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def program(tables: Machine) -> bytes:
    """The filter: listed calls are handed over, all else is allowed."""
    listed = [number for name, number in tables.calls.items() if name != "openat"]
    flags_at = _ARGUMENTS_AT + 2 * 8
    code = [
        _instruction(_LOAD, _ARCH_AT),
        _instruction(_EQUAL, tables.arch, 0, len(listed) + 4),
        _instruction(_LOAD, _NUMBER_AT),
    ]
    for index, number in enumerate(listed):
        code.append(_instruction(_EQUAL, number, len(listed) - index + 3, 0))
    code += [
        _instruction(_EQUAL, tables.calls["openat"], 0, 2),
        _instruction(_LOAD, flags_at),
        _instruction(_ANY_BIT, _CREATES, 1, 0),
        _instruction(_RETURN, _ALLOW),
        _instruction(_RETURN, _NOTIFY),
    ]
    return b"".join(code)
