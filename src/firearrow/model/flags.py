"""Bits: what a record's sysFlag, a topic's permission and a topic's sysFlag mean.

Plain ints rather than ``IntFlag``: these are tested for every message, and an ``IntFlag`` costs a microsecond an
operation. Must agree with Java's ``MessageSysFlag``, ``PermName`` and ``TopicSysFlag``.
"""

from typing import Final

# sysFlag of a record
COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
PREPARED: Final = 0x4
COMMIT: Final = 0x8
ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
HOST_V6_MASK: Final = BORN_HOST_V6 | STORE_HOST_V6
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300
COMPRESSION_MASK: Final = 0x700

# permission of a topic or broker
PERM_INHERIT: Final = 1
PERM_WRITE: Final = 2
PERM_READ: Final = 4
PERM_PRIORITY: Final = 8

# sysFlag of a topic
TOPIC_UNIT: Final = 1
TOPIC_UNIT_SUB: Final = 2


def enters_queue(sys_flag: int) -> bool:
    """Whether a record gets a consume queue entry; prepared and rolled back records do not, and have queue offset 0."""
    return not sys_flag & PREPARED


def is_wrapped_batch(sys_flag: int) -> bool:
    """Whether the record's body is a whole batch that a consumer must take apart."""
    return sys_flag & (INNER_BATCH | NEED_UNWRAP) == INNER_BATCH | NEED_UNWRAP


def perm_text(perm: int) -> str:
    """A permission as ``mqadmin`` prints it: ``RW-``, ``R--``, ``RWX``."""
    read = "R" if perm & PERM_READ else "-"
    write = "W" if perm & PERM_WRITE else "-"
    inherit = "X" if perm & PERM_INHERIT else "-"
    return read + write + inherit


def is_legal_perm(perm: int) -> bool:
    """Whether an administrator may set this permission (PRIORITY is reserved)."""
    return 0 <= perm < PERM_PRIORITY


def topic_sys_flag(*, unit: bool, unit_sub: bool) -> int:
    """A topic's sysFlag from its two bits."""
    return (TOPIC_UNIT if unit else 0) | (TOPIC_UNIT_SUB if unit_sub else 0)
