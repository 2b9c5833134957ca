"""Every path below the root of a store: Apache's names, and ours where Apache never looks.

``commitlog/`` must hold nothing but segments of the configured size: Apache refuses to start otherwise. So a segment is
prepared in ``firearrow/``. Java: ``StorePathConfigHelper``, ``UtilAll.offset2FileName``.
"""

from typing import Final

COMMIT_LOG: Final = "commitlog"
CONSUME_QUEUE: Final = "consumequeue"
INDEX: Final = "index"
CONFIG: Final = "config"
CHECKPOINT: Final = "checkpoint"
ABORT: Final = "abort"
LOCK: Final = "lock"
EPOCHS: Final = "epochFileCheckpoint"

OURS: Final = "firearrow"
FLUSH_SLOT: Final = "firearrow/flushed"
RANGES: Final = "firearrow/ranges.json"
DAMAGE: Final = "firearrow/damage.json"
BLOCK_SUMS: Final = "firearrow/sums"
NEXT_SEGMENT: Final = "firearrow/next-segment"
QUARANTINE: Final = "quarantine"

_DIGITS: Final = 20


def segment_name(start: int) -> str:
    """The name of a file that starts at an offset: 20 digits."""
    return f"{start:020d}"


def segment_start(name: str) -> int | None:
    """The offset in a file name; None if the name is not 20 digits."""
    return int(name) if len(name) == _DIGITS and name.isascii() and name.isdigit() else None


def log_path(start: int) -> str:
    """The path of the commit log file that starts at an offset."""
    return f"{COMMIT_LOG}/{start:020d}"


def quarantine_path(start: int, end: int) -> str:
    """The path of the copy of a bad range of the commit log."""
    return f"{QUARANTINE}/commitlog.{start:020d}.{end:020d}"
