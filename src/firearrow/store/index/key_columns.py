"""Hashes the keys of rows by columns, if their properties have one form. Pure.

A producer of batches writes the properties of all its messages in one order. If the rows of one topic all have a
UNIQ_KEY of the usual length at the same distance from the end, and all begin with one word of KEYS or have none, the
keys are cut out and hashed many at once by functions in C. All other rows are left to `row_keys`, which gives the same
keys.
"""

from typing import Final

from firearrow.model.flags import ROLLBACK, TRANSACTION_MASK
from firearrow.store.dispatch import Row
from firearrow.store.index.active_file import KeyPlace
from firearrow.store.index.key_hash import AT_ONCE, LANE_BYTES, MASK, POWERS, hash_lanes, prefix_hash
from firearrow.store.property_fields import KEYS_MARK, UNIQ_KEY_MARK

_KEY_AT: Final = len(UNIQ_KEY_MARK)
_ENTRY: Final = _KEY_AT + LANE_BYTES + 1
"""Bytes of a UNIQ_KEY of the usual length with its name and both separators."""
_FEWEST: Final = 16
"""Fewer rows are hashed as fast one by one."""


def keys_by_columns(rows: list[Row]) -> list[KeyPlace] | None:
    """The hashed keys of rows, in order; None when the rows do not have the one form."""
    if len(rows) < _FEWEST:
        return None
    queues, places, _, _, times, flags, properties = zip(*rows, strict=True)
    topics = {queue.topic for queue in queues}
    if len(topics) != 1 or any(flag & TRANSACTION_MASK == ROLLBACK for flag in set(flags)):
        return None
    uniques = _uniques_in_place(properties)
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
    # Two keys a row, in the order of `row_keys`: [0::2] the UNIQ_KEYs, [1::2] the words of KEYS.
    keys: list[KeyPlace] = [(0, 0, 0)] * (2 * len(rows))
    keys[0::2] = zip(hashes, places, times, strict=True)
    keys[1::2] = zip(_hashed_words(words, prefix), places, times, strict=True)
    return keys


def _uniques_in_place(properties: tuple[bytes, ...]) -> list[bytes] | None:
    """The UNIQ_KEYs if all properties have one of the usual length at one distance from their end, else None."""
    _, found, after = properties[0].rpartition(UNIQ_KEY_MARK)
    if not found or len(after) <= LANE_BYTES:
        return None
    start = -_KEY_AT - len(after)
    entries = [text[start : start + _ENTRY or None] for text in properties]
    uniques = [entry[_KEY_AT:-1] for entry in entries]
    is_one_form = (
        {entry[:_KEY_AT] for entry in entries} == {UNIQ_KEY_MARK}
        and {entry[-1:] for entry in entries} == {b"\x02"}
        and set(map(len, uniques)) == {LANE_BYTES}
        and {text[start - 1 : start] for text in properties} <= {b"", b"\x02"}
        and b"".join(uniques).isalnum()
        and (start + _ENTRY == 0 or UNIQ_KEY_MARK not in b"".join([text[start + _ENTRY :] for text in properties]))
    )
    return uniques if is_one_form else None


def _first_words(properties: tuple[bytes, ...]) -> list[bytes] | None:
    """The words of KEYS if all properties begin with one; empty if no properties have KEYS; else None."""
    count = len(properties)
    marks = b"".join(properties).count(KEYS_MARK)
    if not marks:
        return []
    if marks != count:
        return None
    heads = [text.partition(b"\x02")[0] for text in properties]
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
