"""Java's ``String.hashCode``, by which tags are filtered, keys indexed and queues chosen.

h = s[0] * 31**(n-1) + ... + s[n-1] over UTF-16 code units, in 32-bit two's complement. The sum runs in C over a table
of powers; text beyond Latin-1 goes through UTF-16 so that a character outside the basic plane counts as its two
surrogates, and a lone surrogate as itself.
"""

import struct
from functools import lru_cache
from operator import mul
from typing import Final

_CHUNK: Final = 256
# _POWERS[-n:] are the factors of n code units: 31**(n-1) ... 31, 1
_POWERS: Final = tuple(pow(31, exponent, 1 << 32) for exponent in range(_CHUNK - 1, -1, -1))
_FULL_CHUNK_POWER: Final = pow(31, _CHUNK, 1 << 32)
_TAGS_REMEMBERED: Final = 4096
_LONGEST_REMEMBERED: Final = 64


def java_hash(text: str) -> int:
    """``text.hashCode()`` as Java computes it, a signed 32-bit number."""
    units: bytes | tuple[int, ...]
    try:
        units = text.encode("latin-1")
    except UnicodeEncodeError:
        wide = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(wide) // 2}H", wide)
    length = len(units)
    total = _long_sum(units) if length > _CHUNK else sum(map(mul, units, _POWERS[_CHUNK - length :]))
    return ((total & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _long_sum(units: bytes | tuple[int, ...]) -> int:
    first = len(units) % _CHUNK
    total: int = sum(map(mul, units[:first], _POWERS[_CHUNK - first :]))
    for start in range(first, len(units), _CHUNK):
        total = (total * _FULL_CHUNK_POWER + sum(map(mul, units[start : start + _CHUNK], _POWERS))) & 0xFFFFFFFF
    return total


_remembered: Final = lru_cache(_TAGS_REMEMBERED)(java_hash)


def tag_code(tag: str) -> int:
    """Return the code of a tag in a consume queue entry; 0 means no tag. Cached, because topics have few tags."""
    return _remembered(tag) if len(tag) <= _LONGEST_REMEMBERED else java_hash(tag)
