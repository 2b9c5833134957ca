"""Java's string hash of many keys at once.

``h = s[0] * 31**(n-1) + ... + s[n-1]`` modulo 2**32, computed for many keys by arithmetic on one large integer. Each
key has a lane of 32 bytes, padded with zeros in front, which do not change the sum. Step k (k = 1, 2, 4, 8, 16 bytes)
joins each pair of neighbouring k-byte digits into one digit of 2k bytes, ``high * 31**k + low``, in all lanes with one
multiplication. A sum always fits its 2k bytes, so no lane overflows into the next. After the last step the low 4 bytes
of a lane are the hash. That takes 0.25 us a key; hashing one by one takes 3 us. Keys that differ only in their last 8
characters need lanes of 8 bytes. Must agree with `firearrow.model.java_hash.java_hash`. Pure.
"""

import struct
from functools import lru_cache
from typing import Final

from firearrow.model.java_hash import java_hash

LANE_BYTES: Final = 32
"""Bytes of a key that fit a lane: a UNIQ_KEY of an IPv4 client fills it, that of an IPv6 client is longer."""
MASK: Final = 0xFFFFFFFF
POWERS: Final = tuple(pow(31, exponent, 1 << 32) for exponent in range(LANE_BYTES + 1))
AT_ONCE: Final = 128
"""The most keys in one integer; more would not be faster."""
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
    """The unsigned hashes of up to `AT_ONCE` ASCII keys, each padded with zeros in front to `LANE_BYTES`."""
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


def hash_short_lanes(lanes: list[bytes]) -> tuple[int, ...]:
    """The unsigned hashes of up to `AT_ONCE` texts of `SHORT_LANE` ASCII characters each."""
    steps, numbers = _short_plan(len(lanes))
    joined = int.from_bytes(b"".join(lanes), "big")
    for shift, mask, power in steps:
        joined = ((joined >> shift) & mask) * power + (joined & mask)
    return numbers.unpack(joined.to_bytes(len(lanes) * SHORT_LANE, "big"))


@lru_cache(65_536)
def prefix_hash(topic: str) -> int:
    """The hash of ``topic#``. The hash of ``topic#key`` is this times ``31**len(key)``, plus the hash of the key."""
    return java_hash(f"{topic}#") & MASK


@lru_cache(65_536)
def head_hash(topic: str, head: bytes) -> int:
    """The hash of ``topic#head``, where ``head`` is the part of a key before its last lane. Cached: it repeats."""
    return java_hash(f"{topic}#{head.decode('ascii')}") & MASK


def long_hash(topic: str, key: bytes) -> int:
    """The hash of ``topic#key`` for an ASCII key of any length: its lanes are hashed at once, and joined."""
    text = key.rjust(-(-len(key) // LANE_BYTES) * LANE_BYTES, b"\0")
    lanes = [text[start : start + LANE_BYTES] for start in range(0, len(text), LANE_BYTES)]
    joined = 0
    for start in range(0, len(lanes), AT_ONCE):
        for hashed in hash_lanes(lanes[start : start + AT_ONCE]):
            joined = (joined * POWERS[LANE_BYTES] + hashed) & MASK
    return (prefix_hash(topic) * pow(31, len(key), 1 << 32) + joined) & MASK


def key_hash(topic: str, key: str) -> int:
    """The hash that the index stores for a key: the absolute value, or 0 if there is none in Java (-2**31)."""
    return absolute(java_hash(f"{topic}#{key}") & MASK)


def absolute(unsigned: int) -> int:
    """``Math.abs`` of a hash given as an unsigned number; 0 for -2**31, which has no absolute value in Java."""
    return unsigned if unsigned <= 0x7FFFFFFF else (-unsigned) & 0x7FFFFFFF
