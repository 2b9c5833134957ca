"""The messages of one queue in a consumer, handed out, waiting or finished, and the committable offset. Pure.

A window starts at an offset. Pulls add messages at its end, in order; handlers finish them in any order. The
committable offset is the lowest unfinished one, so a crash repeats messages and skips none. Messages that were pulled
and filtered out count as finished.

A window is *dropped* when another member gets its queue, or when the queue continues at another offset; messages
finished in a dropped window have no effect.

Java: ``ProcessQueue``; the limits are those of ``DefaultMQPushConsumerImpl.pullMessage``.
"""

from typing import Annotated

from msgspec import Meta, Struct

from firearrow.model import StoredMessage

MIB = 1024 * 1024


class WindowLimits(Struct, frozen=True):
    """Limits of the unfinished messages of one queue; pulling waits at a limit (backpressure)."""

    messages: Annotated[int, Meta(ge=1)] = 1000
    size_bytes: Annotated[int, Meta(ge=1)] = 100 * MIB
    span: Annotated[int, Meta(ge=1)] = 2000
    """Most offsets from the first to the last unfinished one; no limit for ordered consumption."""


class Window:
    """The unfinished messages of one queue."""

    __slots__ = ("_unfinished", "is_dropped", "next_offset", "size_bytes")

    def __init__(self, start: int) -> None:
        self._unfinished: dict[int, StoredMessage] = {}
        self.next_offset = start
        self.size_bytes = 0
        self.is_dropped = False

    def __len__(self) -> int:
        return len(self._unfinished)

    def __contains__(self, offset: int) -> bool:
        return offset in self._unfinished

    def extend(self, messages: list[StoredMessage], next_offset: int) -> list[StoredMessage]:
        """Add pulled messages; the next pull is at ``next_offset``. Return the messages that are new."""
        fresh = []
        for message in messages:
            offset = message.queue_offset
            if offset < self.next_offset or offset in self._unfinished:
                continue
            self._unfinished[offset] = message
            self.size_bytes += _size(message)
            fresh.append(message)
        self.next_offset = max(self.next_offset, next_offset)
        return fresh

    def finish(self, offset: int) -> bool:
        """Note that a message is finished; return False if it was finished before."""
        message = self._unfinished.pop(offset, None)
        if message is None:
            return False
        self.size_bytes -= _size(message)
        return True

    def offsets(self) -> list[int]:
        """The unfinished offsets, in order."""
        return list(self._unfinished)

    @property
    def committable(self) -> int:
        """The lowest unfinished offset: another consumer that starts there misses no message."""
        # Pulls arrive in order and a dict keeps it, so the first key is the lowest.
        return next(iter(self._unfinished), self.next_offset)

    @property
    def oldest(self) -> StoredMessage | None:
        """The unfinished message with the lowest offset."""
        return next(iter(self._unfinished.values()), None)

    @property
    def span(self) -> int:
        """The number of offsets from the lowest unfinished one to the end."""
        return self.next_offset - self.committable

    def fullness(self, limits: WindowLimits, *, ordered: bool = False) -> str | None:
        """Return why pulling must wait now, or None."""
        if len(self._unfinished) >= limits.messages:
            return f"{len(self._unfinished)} messages are unfinished, the limit is {limits.messages}"
        if self.size_bytes >= limits.size_bytes:
            return f"{self.size_bytes} bytes are unfinished, the limit is {limits.size_bytes}"
        if not ordered and self.span > limits.span:
            return f"offset {self.committable} is unfinished and {self.span} behind, the limit is {limits.span}"
        return None


def _size(message: StoredMessage) -> int:
    """Return the bytes of a message in memory: its record, or its body if that was stored compressed."""
    size, inflated = message.store_size, len(message.body)
    return max(inflated, size)
