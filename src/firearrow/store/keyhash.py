"""Java's string hash of many keys at once.

``h = s[0] * 31**(n-1) + ... + s[n-1]`` modulo 2**32. Keys are laid side by side in one large integer, each in a lane of
32 bytes padded with zeros in front, which do not change the sum; then neighbouring digits are joined in every lane with
one multiplication: ``high * 31**k + low`` for k = 1, 2, 4, 8, 16. No lane overflows: each sum needs fewer bits than it
has. That costs a quarter of a microsecond a key where hashing them one by one costs three. Keys that have all but their
last 8 characters in common need lanes of 8 bytes. Must agree with `firearrow.model.java_hash.java_hash`. Pure.
"""

import struct
from functools import lru_cache
from typing import Final

from firearrow.model.java_hash import java_hash

LANE_BYTES: Final = 32
"""What fits of a key; a UNIQ_KEY of an IPv4 client fills it, one of an IPv6 client is longer."""
MASK: Final = 0xFFFFFFFF
POWERS: Final = tuple(pow(31, exponent, 1 << 32) for exponent in range(LANE_BYTES + 1))
AT_ONCE: Final = 128
"""Keys in one integer at most; more would not be faster."""
_WIDTHS: Final = (1, 2, 4, 8, 16)
SHORT_LANE: Final = 8
_SHORT_WIDTHS: Final = (1, 2, 4)


@lru_cache(AT_ONCE)
def _plan(count: int) -> tuple[list[tuple[int, int, int]], struct.Struct]:
    steps = []
    for width in _WIDTHS:
        mask = int.from_bytes((bytes(width) + b"\xff" * width) * (count * LANE_BYTES // (2 * width)), "big")
        steps.append((8 * width, mask, 31**width))
    return steps, struct.Struct(">" + "28xI" * count)


def hash_lanes(lanes: list[bytes]) -> tuple[int, ...]:
    """The hashes of up to `AT_ONCE` keys of ASCII, each padded with zeros in front to `LANE_BYTES`; not signed."""
    steps, numbers = _plan(len(lanes))
    joined = int.from_bytes(b"".join(lanes), "big")
    for shift, mask, power in steps:
        joined = ((joined >> shift) & mask) * power + (joined & mask)
    return numbers.unpack(joined.to_bytes(len(lanes) * LANE_BYTES, "big"))


@lru_cache(AT_ONCE)
def _short_plan(count: int) -> tuple[list[tuple[int, int, int]], struct.Struct]:
    steps = []
    for width in _SHORT_WIDTHS:
        mask = int.from_bytes((bytes(width) + b"\xff" * width) * (count * SHORT_LANE // (2 * width)), "big")
        steps.append((8 * width, mask, 31**width))
    return steps, struct.Struct(">" + "4xI" * count)


def hash_short_lanes(lanes: bytes, count: int) -> tuple[int, ...]:
    """The hashes of ``count`` texts of `SHORT_LANE` ASCII characters each, given one after the other; not signed."""
    steps, numbers = _short_plan(count)
    joined = int.from_bytes(lanes, "big")
    for shift, mask, power in steps:
        joined = ((joined >> shift) & mask) * power + (joined & mask)
    return numbers.unpack(joined.to_bytes(count * SHORT_LANE, "big"))


@lru_cache(65_536)
def prefix_hash(topic: str) -> int:
    """The hash of ``topic#``: times ``31**n``, plus the hash of a key of n characters, is that of ``topic#key``."""
    return java_hash(f"{topic}#") & MASK


@lru_cache(65_536)
def head_hash(topic: str, head: bytes) -> int:
    """The hash of ``topic#head``, where a key longer than a lane begins with ``head``, mostly its client's name."""
    return java_hash(f"{topic}#{head.decode('ascii')}") & MASK


def key_hash(topic: str, key: str) -> int:
    """What the index stores for one key: the absolute value of the hash, 0 where Java has none."""
    return absolute(java_hash(f"{topic}#{key}") & MASK)


def absolute(unsigned: int) -> int:
    """``Math.abs`` of a hash given without its sign; of the smallest number, which has none, 0."""
    return unsigned if unsigned <= 0x7FFFFFFF else (-unsigned) & 0x7FFFFFFF
