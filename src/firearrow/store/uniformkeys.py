"""The keys of rows that are written the same way, hashed a column at a time. Pure.

A producer of batches writes the properties of all its messages in one order. Where the rows of one topic all end with
a UNIQ_KEY of the usual length, and all begin with a word of KEYS or have none, keys are cut out and hashed by functions
of C, with hardly any Python for each row. Everything else is left to `rowkeys`; both give the same keys.
"""

from typing import Final

from firearrow.model.flags import ROLLBACK, TRANSACTION_MASK
from firearrow.store.activeindex import KeyPlace
from firearrow.store.dispatch import Row
from firearrow.store.keyhash import AT_ONCE, LANE_BYTES, MASK, POWERS, hash_lanes, prefix_hash
from firearrow.store.propertyfields import KEYS_MARK, UNIQ_KEY_MARK

_LAST_MARK: Final = b"\x02" + UNIQ_KEY_MARK
_LAST: Final = len(_LAST_MARK) + LANE_BYTES + 1
_FEWEST: Final = 16
"""Fewer are hashed as fast one by one."""


def uniform_keys(rows: list[Row]) -> list[KeyPlace] | None:
    """The keys of rows as the index wants them, in order; None when they must be looked at one by one."""
    if len(rows) < _FEWEST:
        return None
    queues, places, _, _, times, flags, properties = zip(*rows, strict=True)
    topics = {queue.topic for queue in queues}
    if len(topics) != 1 or any(flag & TRANSACTION_MASK == ROLLBACK for flag in set(flags)):
        return None
    uniques = _last_uniques(properties)
    if uniques is None:
        return None
    words = _first_words(properties)
    if words is None:
        return None
    prefix = prefix_hash(topics.pop())
    plus = prefix * POWERS[LANE_BYTES] & MASK
    hashes = [(hashed + plus) & MASK for hashed in _hashed(uniques)]
    if not words:
        return list(zip(hashes, places, times, strict=True))
    keys: list[KeyPlace] = [(0, 0, 0)] * (2 * len(rows))
    keys[0::2] = zip(hashes, places, times, strict=True)
    keys[1::2] = zip(_hashed_words(words, prefix), places, times, strict=True)
    return keys


def _last_uniques(properties: tuple[bytes, ...]) -> list[bytes] | None:
    """The UNIQ_KEYs with which all properties end; None when they do not."""
    count = len(properties)
    ends = b"".join([each[-_LAST:] for each in properties])
    if len(ends) != count * _LAST or ends[_LAST - 1 :: _LAST].count(b"\x02") != count:
        return None
    if any(ends[at::_LAST].count(letter) != count for at, letter in enumerate(_LAST_MARK)):
        return None
    uniques = [each[-LANE_BYTES - 1 : -1] for each in properties]
    return uniques if b"".join(uniques).isalnum() else None


def _first_words(properties: tuple[bytes, ...]) -> list[bytes] | None:
    """The words of KEYS with which all properties begin, none when nobody has KEYS; None when it is otherwise."""
    count = len(properties)
    marks = b"".join(properties).count(KEYS_MARK)
    if not marks:
        return []
    if marks != count:
        return None
    heads = [each.partition(b"\x02")[0] for each in properties]
    if b"".join([head[: len(KEYS_MARK)] for head in heads]) != KEYS_MARK * count:
        return None
    words = [head[len(KEYS_MARK) :] for head in heads]
    text = b"".join(words)
    if not text.isascii() or b" " in text or b"\x01" in text or max(map(len, words)) > LANE_BYTES or b"" in words:
        return None
    return words


def _hashed(lanes: list[bytes]) -> list[int]:
    hashes: list[int] = []
    for start in range(0, len(lanes), AT_ONCE):
        hashes += hash_lanes(lanes[start : start + AT_ONCE])
    return hashes


def _hashed_words(words: list[bytes], prefix: int) -> list[int]:
    plus = [prefix * power & MASK for power in POWERS]
    hashes = _hashed([word.rjust(LANE_BYTES, b"\0") for word in words])
    return [(hashed + plus[length]) & MASK for hashed, length in zip(hashes, map(len, words), strict=True)]
