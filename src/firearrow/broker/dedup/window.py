"""Windows: which rows a queue holds, by identity, and where their first copies are. Pure.

A window remembers identities in *generations*: a generation takes the rows of a quarter of the window, by position or
by time, and is forgotten as a whole. So no row costs more than a lookup and an insertion, whatever leaves the window.

The promise: an identity is found while its row is among the last ``count`` positions and not older than ``age_ms``,
unless `Windows` had to forget it because all windows together hold ``most`` identities; then the oldest generation of
all goes first. It may be found for up to a quarter longer. What is found was added and not taken back.

A row is known by its identity and the CRC of its body. Rows of one identity with other bodies are other rows: each is
remembered.

The position of a row is its queue offset. So the rows that a window must remember are the same after a restart, when
the end of the queue is read and its rows are added again, and nothing is stored beside the log.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

from msgspec import Struct

GENERATIONS: Final = 4
_OFFSET_BITS: Final = 64
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_CRC_BITS: Final = 32
_CRC_MASK: Final = (1 << _CRC_BITS) - 1


class WindowBounds(Struct, frozen=True):
    """The reach of a window into the past."""

    count: int
    """Messages of the queue."""
    age_ms: int


class FirstCopy(NamedTuple):
    """The place of the first copy of a row."""

    physical: int
    queue_offset: int
    body_crc: int
    """The CRC in its record."""


class FirstCopies(Struct, frozen=True):
    """The places of the first copies of rows that lie one behind the other in a queue."""

    physicals: Sequence[int]
    queue_offset: int
    """The queue offset of the first row."""
    body_crcs: Sequence[int]

    def packed(self) -> list[int]:
        """Return the copies, each packed into one integer."""
        places = zip(self.physicals, self.body_crcs, count(self.queue_offset), strict=False)
        return [(physical << _CRC_BITS | crc) << _OFFSET_BITS | offset for physical, crc, offset in places]

    def each(self) -> Iterator[FirstCopy]:
        """Return the copies one by one."""
        return map(FirstCopy, self.physicals, count(self.queue_offset), self.body_crcs)


class Generation:
    """The rows of a part of a window."""

    __slots__ = ("copies", "first", "first_ms", "has_others", "last", "last_ms")

    def __init__(self, position: int, store_ms: int) -> None:
        self.copies: dict[bytes, int] = {}
        """The first copies by key, each packed into one integer: a tuple would take three times the memory."""
        self.first = self.last = position
        self.first_ms = self.last_ms = store_ms
        self.has_others = False
        """Whether it holds rows of one identity with several bodies: all but the first under `key_with_body`."""


class IdentityWindow:
    """The rows of one queue that are remembered."""

    __slots__ = ("generations",)

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        """Oldest first."""

    def __len__(self) -> int:
        return sum(len(generation.copies) for generation in self.generations)

    def find(self, key: bytes, body_crc: int) -> FirstCopy | None:
        """Return the row with this key and body; else one with this key and another body; None without any."""
        other = None
        for generation in self.generations:
            packed = generation.copies.get(key)
            if packed is not None:
                other = _unpacked(packed)
                if other.body_crc == body_crc:
                    return other
            if generation.has_others:
                packed = generation.copies.get(key_with_body(key, body_crc))
                if packed is not None:
                    return _unpacked(packed)
        return other

    def knows_any(self, keys: Sequence[bytes]) -> bool:
        """Whether a row with one of these keys, of any body, may be remembered."""
        return any(
            generation.has_others or not generation.copies.keys().isdisjoint(keys) for generation in self.generations
        )

    def knows(self, key: bytes, body_crc: int) -> bool:
        """Whether the row with this key and body is remembered."""
        found = self.find(key, body_crc)
        return found is not None and found.body_crc == body_crc


class Windows:
    """All windows of a broker, under one limit of identities."""

    def __init__(self, bounds: WindowBounds, most: int) -> None:
        self._bounds = bounds
        self._span = -(-bounds.count // GENERATIONS)
        self._span_ms = -(-bounds.age_ms // GENERATIONS)
        self._most = most
        self._part = -(-most // GENERATIONS)
        self._alive: dict[Generation, IdentityWindow] = {}  # in the order in which they began
        self.size = 0
        """The number of identities in all windows."""

    def add(self, window: IdentityWindow, key: bytes, copy: FirstCopy, position: int, store_ms: int) -> None:
        """Remember a row that the window does not know."""
        last = self._open(window, position, store_ms)
        if key in last.copies:
            key, last.has_others = key_with_body(key, copy.body_crc), True
        self.size += key not in last.copies
        last.copies[key] = _packed(copy)
        last.last, last.last_ms = max(last.last, position), max(last.last_ms, store_ms)
        self._keep_limit()

    def add_new(self, window: IdentityWindow, keys: Sequence[bytes], copies: FirstCopies, store_ms: int) -> None:
        """As `add`, for rows one behind the other in their queue, with keys of which the window knows none."""
        begin, packed = copies.queue_offset, copies.packed()
        taken = 0
        while taken < len(keys):
            last = self._open(window, begin + taken, store_ms)
            room = min(last.first + self._span - begin - taken, self._part - len(last.copies))
            some = slice(taken, taken + room)
            last.copies.update(zip(keys[some], packed[some], strict=True))
            added = len(keys[some])
            taken += added
            self.size += added
            last.last, last.last_ms = max(last.last, begin + taken - 1), max(last.last_ms, store_ms)
            self._keep_limit()

    def _keep_limit(self) -> None:
        while self.size > self._most:
            self._forget(next(iter(self._alive)))

    def _open(self, window: IdentityWindow, position: int, store_ms: int) -> Generation:
        """Return the generation of a window that takes the next row."""
        generations = window.generations
        last = generations[-1] if generations else None
        if last is None or self._is_full(last, position, store_ms):
            last = Generation(position, store_ms)
            generations.append(last)
            self._alive[last] = window
        return last

    def _is_full(self, generation: Generation, position: int, store_ms: int) -> bool:
        is_long = position - generation.first >= self._span or store_ms - generation.first_ms >= self._span_ms
        return is_long or len(generation.copies) >= self._part

    def take_back(self, window: IdentityWindow, key: bytes, copy: FirstCopy) -> None:
        """Forget a row whose record was not written."""
        packed = _packed(copy)
        for generation in window.generations:
            for name in (key, key_with_body(key, copy.body_crc)):
                if generation.copies.get(name) == packed:
                    del generation.copies[name]
                    self.size -= 1

    def forget_old(self, window: IdentityWindow, position: int, now_ms: int) -> None:
        """Forget the generations that have left the window. ``position`` is that of the next row."""
        oldest, oldest_ms = position - self._bounds.count, now_ms - self._bounds.age_ms
        generations = window.generations
        while generations and (generations[0].last < oldest or generations[0].last_ms < oldest_ms):
            self._forget(generations[0])

    def drop(self, window: IdentityWindow) -> None:
        """Forget all rows of a window."""
        while window.generations:
            self._forget(window.generations[0])

    def _forget(self, generation: Generation) -> None:
        self._alive.pop(generation).generations.remove(generation)
        self.size -= len(generation.copies)


def key_with_body(key: bytes, body_crc: int) -> bytes:
    """Return the key of a row whose generation holds another body under its identity. No identity holds 0x01."""
    return b"%b\x01%b" % (key, body_crc.to_bytes(_CRC_BITS // 8))


def _packed(copy: FirstCopy) -> int:
    return (copy.physical << _CRC_BITS | copy.body_crc) << _OFFSET_BITS | copy.queue_offset


def _unpacked(packed: int) -> FirstCopy:
    place = packed >> _OFFSET_BITS
    return FirstCopy(place >> _CRC_BITS, packed & _OFFSET_MASK, place & _CRC_MASK)
