"""Many messages by columns: an envelope that all messages share, and a column for each field that differs.

Columns come from sends that arrived in one read (one flag, any queues and births) and from a client's batch (one queue
and birth, any flags). `encode_columns` makes their records; no request and no `Draft` is made for a message.
"""

from collections.abc import Sequence
from typing import NamedTuple, final, overload

from msgspec import Struct

from firearrow.record.hosts import HostBytes


class Envelope(Struct, frozen=True, gc=False):
    """The fields that are equal for all messages of one append."""

    topic: str
    born_host: HostBytes
    store_host: HostBytes
    sys_flag: int = 0
    reconsume_times: int = 0


class MessageColumns(NamedTuple):
    """Messages of one envelope. Bodies and properties are as stored (see `Draft`)."""

    queue_ids: Sequence[int]
    births: Sequence[int]
    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    """`UniformProperties` only if queue, birth, flag and body length are equal for all messages too."""


@final
class UniformProperties(Sequence[bytes]):
    """Properties of messages that differ only in the end of their UNIQ_KEY, as a sequence of each message's bytes."""

    __slots__ = ("after", "before", "ends", "key_head")

    def __init__(self, before: bytes, key_head: bytes, ends: tuple[bytes, ...], after: bytes) -> None:
        self.before = before
        """The properties before the part that differs; ends with ``key_head``."""
        self.key_head = key_head
        """The beginning of all UNIQ_KEYs."""
        self.ends = ends
        """The last characters of each UNIQ_KEY: `batch.KEY_END` letters or digits."""
        self.after = after
        """The properties after the part that differs."""

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self.before + end + self.after for end in self.ends[at]]
        return self.before + self.ends[at] + self.after
