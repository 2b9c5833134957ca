"""Hashes the keys of rows for the index, many at once. Pure."""

from collections.abc import Sequence
from typing import Final

from firearrow.model.flags import ROLLBACK, TRANSACTION_MASK
from firearrow.model.java_hash import java_hash
from firearrow.store.dispatch import Row
from firearrow.store.index.active_file import KeyPlace
from firearrow.store.index.key_columns import keys_by_columns
from firearrow.store.index.key_hash import (
    AT_ONCE,
    LANE_BYTES,
    MASK,
    POWERS,
    SHORT_LANE,
    hash_lanes,
    hash_short_lanes,
    head_hash,
    long_hash,
    prefix_hash,
)
from firearrow.store.placement import UniformRows
from firearrow.store.property_fields import (
    KEYS_MARK,
    MOST_KEY_BYTES,
    SEPARATOR,
    UNIQ_KEY_MARK,
    field,
    indexed_words,
)

LONGEST_HEAD: Final = 24
"""The most characters before the last lane of a key, whose hash is cached: an IPv6 client's UNIQ_KEY has 24 + 32."""
_LONG_KEY: Final = LANE_BYTES + LONGEST_HEAD
_USUAL_LENGTHS: Final = (LANE_BYTES, _LONG_KEY)
_NO_KEY: Final = bytes(LANE_BYTES)
_UNIQ_KEY: Final = UNIQ_KEY_MARK[:-1]
_KEYS: Final = KEYS_MARK[:-1]


def uniform_hashes(rows: UniformRows) -> list[list[int]] | None:
    """The hashes of the UNIQ_KEYs of rows, then those of their KEYS, where they have such properties.

    None if the keys must be looked at one by one: several words in KEYS, letters outside ASCII, unusual lengths.
    """
    if rows.sys_flag & TRANSACTION_MASK == ROLLBACK:
        return []
    values, found = rows.properties.values, list[list[int]]()
    for name in (_UNIQ_KEY, _KEYS):
        keys = values.get(name)
        if keys is not None:
            hashes = _column_hashes(rows.tail.topic, keys, are_words=name == _KEYS)
            if hashes is None:
                return None
            found.append(hashes)
    return found


def _column_hashes(topic: str, keys: Sequence[bytes], *, are_words: bool) -> list[int] | None:
    """The hashes of keys of one length."""
    text, count, length = b"".join(keys), len(keys), len(keys[0])
    if not text.isascii() or (are_words and b" " in text):
        return None
    heads = {key[:-SHORT_LANE] for key in keys}
    if len(heads) == 1 and SHORT_LANE <= length <= _LONG_KEY:
        lanes = [key[-SHORT_LANE:] for key in keys]
        plus, hashed = head_hash(topic, heads.pop()) * POWERS[SHORT_LANE], hash_short_lanes
    elif length <= LANE_BYTES:
        lanes = [key.rjust(LANE_BYTES, b"\0") for key in keys] if length < LANE_BYTES else list(keys)
        plus, hashed = prefix_hash(topic) * POWERS[length], hash_lanes
    else:
        return None
    hashes: list[int] = []
    for start in range(0, count, AT_ONCE):
        hashes += [(each + plus) & MASK for each in hashed(lanes[start : start + AT_ONCE])]
    return hashes


def hashed_keys(rows: list[Row]) -> list[KeyPlace]:
    """The hashed keys of rows, in order."""
    return keys_by_columns(rows) or _hashed_one_by_one(rows)


def _hashed_one_by_one(rows: list[Row]) -> list[KeyPlace]:
    lanes, added, places = _keys_of(rows)
    keys: list[KeyPlace] = []
    for start in range(0, len(lanes), AT_ONCE):
        hashes = hash_lanes(lanes[start : start + AT_ONCE])
        found = zip(hashes, added[start : start + AT_ONCE], places[start : start + AT_ONCE], strict=True)
        keys += [((hashed + plus) & MASK, physical, store_ms) for hashed, plus, (physical, store_ms) in found]
    return keys


def _keys_of(rows: list[Row]) -> tuple[list[bytes], list[int], list[tuple[int, int]]]:
    """For each key of rows: its lane, the number to add to the lane's hash, and the position of its message."""
    lanes: list[bytes] = []
    added: list[int] = []
    places: list[tuple[int, int]] = []
    last_queue, last_head, last_plus = None, b"", 0
    for queue, physical, _, _, store_ms, sys_flag, properties in rows:
        if sys_flag & TRANSACTION_MASK == ROLLBACK:
            continue
        # `field` inlined for a key of a usual length.
        before, found, after = properties.rpartition(UNIQ_KEY_MARK)
        if found:
            unique = after.partition(b"\x02")[0]
            if len(unique) not in _USUAL_LENGTHS or (before and before[-1] != SEPARATOR):
                unique = field(properties, UNIQ_KEY_MARK)
            if len(unique) == LANE_BYTES and unique.isascii():
                plus = queue.key_prefix
                if plus < 0:
                    plus = queue.key_prefix = prefix_hash(queue.topic) * POWERS[LANE_BYTES] & MASK
                lanes.append(unique)
                added.append(plus)
                places.append((physical, store_ms))
            elif len(unique) == _LONG_KEY and unique.isascii():
                # `_add_key` inlined: neighbours in the log mostly have one client, so one head hash serves them.
                head = unique[:LONGEST_HEAD]
                if queue is not last_queue or head != last_head:
                    last_queue, last_head = queue, head
                    last_plus = head_hash(queue.topic, head) * POWERS[LANE_BYTES] & MASK
                lanes.append(unique[LONGEST_HEAD:])
                added.append(last_plus)
                places.append((physical, store_ms))
            elif 0 < len(unique) <= MOST_KEY_BYTES:
                _add_key(queue.topic, unique, lanes, added)
                places.append((physical, store_ms))
        if properties.partition(KEYS_MARK)[1]:
            words = indexed_words(field(properties, KEYS_MARK))
            for word in words:
                _add_key(queue.topic, word, lanes, added)
            places += [(physical, store_ms)] * len(words)
    return lanes, added, places


def _add_key(topic: str, key: bytes, lanes: list[bytes], added: list[int]) -> None:
    if len(key) <= LANE_BYTES and key.isascii():
        lanes.append(key.rjust(LANE_BYTES, b"\0"))
        added.append(prefix_hash(topic) * POWERS[len(key)] & MASK)
    elif len(key) <= LONGEST_HEAD + LANE_BYTES and key.isascii():
        lanes.append(key[-LANE_BYTES:])
        added.append(head_hash(topic, key[:-LANE_BYTES]) * POWERS[LANE_BYTES] & MASK)
    elif key.isascii():
        lanes.append(_NO_KEY)
        added.append(long_hash(topic, key))
    else:
        lanes.append(_NO_KEY)
        added.append(java_hash(f"{topic}#{key.decode('utf-8', 'replace')}") & MASK)
