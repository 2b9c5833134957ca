"""The keys of rows, hashed as the index wants them: many at once. Pure."""

from typing import Final

from firearrow.model.flags import ROLLBACK, TRANSACTION_MASK
from firearrow.model.java_hash import java_hash
from firearrow.store.activeindex import KeyPlace
from firearrow.store.dispatch import Row
from firearrow.store.keyhash import (
    AT_ONCE,
    LANE_BYTES,
    MASK,
    POWERS,
    SHORT_LANE,
    hash_lanes,
    hash_short_lanes,
    head_hash,
    prefix_hash,
)
from firearrow.store.placement import PlacedRun
from firearrow.store.propertyfields import KEYS_MARK, SEPARATOR, UNIQ_KEY_MARK, field
from firearrow.store.uniformkeys import uniform_keys

LONGEST_HEAD: Final = 24
"""Characters of a key before those that fill a lane, whose hash is remembered: an IPv6 client's UNIQ_KEY has 56."""
_LONG_KEY: Final = LANE_BYTES + LONGEST_HEAD
_USUAL_LENGTHS: Final = (LANE_BYTES, _LONG_KEY)
_NO_KEY: Final = bytes(LANE_BYTES)


def hashes_of_run(run: PlacedRun) -> list[int] | None:
    """The hashes of the one key that each message of a run has; None when they have more, or none as usual."""
    shared = run.properties
    if run.sys_flag & TRANSACTION_MASK == ROLLBACK or KEYS_MARK in shared.before or KEYS_MARK in shared.after:
        return None
    if len(shared.key_head) > _LONG_KEY or not shared.key_head.isascii():
        return None
    plus = head_hash(run.tail.topic, shared.key_head) * POWERS[SHORT_LANE] & MASK
    return [(hashed + plus) & MASK for hashed in hash_short_lanes(b"".join(shared.ends), len(shared.ends))]


def hashed_keys(rows: list[Row]) -> list[KeyPlace]:
    """The keys of rows as the index wants them, in order."""
    return uniform_keys(rows) or _each_hashed(rows)


def _each_hashed(rows: list[Row]) -> list[KeyPlace]:
    lanes, added, places = _keys_of(rows)
    keys: list[KeyPlace] = []
    for start in range(0, len(lanes), AT_ONCE):
        hashes = hash_lanes(lanes[start : start + AT_ONCE])
        some = zip(hashes, added[start : start + AT_ONCE], places[start : start + AT_ONCE], strict=True)
        keys += [((hashed + plus) & MASK, physical, store_ms) for hashed, plus, (physical, store_ms) in some]
    return keys


def _keys_of(rows: list[Row]) -> tuple[list[bytes], list[int], list[tuple[int, int]]]:
    """The keys of rows, each as a lane to hash, what to add to its hash, and the place of its message."""
    lanes: list[bytes] = []
    added: list[int] = []
    places: list[tuple[int, int]] = []
    last_queue, last_head, last_plus = None, b"", 0
    for queue, physical, _, _, store_ms, sys_flag, properties in rows:
        if sys_flag & TRANSACTION_MASK == ROLLBACK:
            continue
        # What `field` does, for a key of the usual length, without the call.
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
                # What `_add_key` does; neighbours in the log mostly come from one client.
                head = unique[:LONGEST_HEAD]
                if queue is not last_queue or head != last_head:
                    last_queue, last_head = queue, head
                    last_plus = head_hash(queue.topic, head) * POWERS[LANE_BYTES] & MASK
                lanes.append(unique[LONGEST_HEAD:])
                added.append(last_plus)
                places.append((physical, store_ms))
            elif unique:
                _add_key(queue.topic, unique, lanes, added)
                places.append((physical, store_ms))
        if properties.partition(KEYS_MARK)[1]:
            words = [word for word in field(properties, KEYS_MARK).split(b" ") if word]
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
    else:
        lanes.append(_NO_KEY)
        added.append(java_hash(f"{topic}#{key.decode('utf-8', 'replace')}") & MASK)
