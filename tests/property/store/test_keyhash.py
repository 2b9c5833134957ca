"""Hashing many keys at once gives what Java gives for each; single values are those of the properties in full."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.model.java_hash import java_hash
from firearrow.record.properties import decode_properties
from firearrow.store.index.key_hash import (
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
from firearrow.store.property_fields import field, has_key, keys_of

CHARACTERS = st.characters(max_codepoint=127)
ASCII = st.text(CHARACTERS, max_size=LANE_BYTES)


@given(st.lists(ASCII, min_size=1, max_size=AT_ONCE), st.text(max_size=20))
def test_hashes_are_javas(keys: list[str], topic: str) -> None:
    hashes = hash_lanes([key.encode().rjust(LANE_BYTES, b"\0") for key in keys])
    assert list(hashes) == [java_hash(key) & MASK for key in keys]
    for key, hashed in zip(keys, hashes, strict=True):
        assert (hashed + prefix_hash(topic) * POWERS[len(key)]) & MASK == java_hash(f"{topic}#{key}") & MASK


@given(st.lists(st.text(CHARACTERS, min_size=SHORT_LANE, max_size=SHORT_LANE), min_size=1, max_size=AT_ONCE))
def test_hashes_of_short_texts_are_javas(texts: list[str]) -> None:
    hashes = hash_short_lanes([text.encode() for text in texts])
    assert [hashed & MASK for hashed in hashes] == [java_hash(text) & MASK for text in texts]


PARTS = st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"x", b"\x01", b"\x02", b"TAGS\x01", b" ", b"\xff", b"a"])


@given(st.lists(PARTS, max_size=12))
def test_single_values_are_those_of_the_whole(parts: list[bytes]) -> None:
    raw = b"".join(parts)
    whole = decode_properties(raw)
    for key in ("TAGS", "KEYS", "UNIQ_KEY"):
        assert field(raw, key.encode() + b"\x01").decode("utf-8", "replace") == whole.get(key, "")
    words = [whole.get("UNIQ_KEY", ""), *whole.get("KEYS", "").split(" ")]
    assert [word.decode("utf-8", "replace") for word in keys_of(raw)] == [word for word in words if word]


@given(st.text(min_size=1, max_size=20), st.text(CHARACTERS, min_size=LANE_BYTES + 1, max_size=2 * LANE_BYTES))
def test_a_key_longer_than_a_lane_is_its_head_and_a_lane(topic: str, key: str) -> None:
    raw = key.encode()
    (hashed,) = hash_lanes([raw[-LANE_BYTES:]])
    joined = hashed + head_hash(topic, raw[:-LANE_BYTES]) * POWERS[LANE_BYTES] & MASK
    assert joined & MASK == java_hash(f"{topic}#{key}") & MASK


@given(
    st.lists(st.sampled_from(["KEYS", "UNIQ_KEY", "xKEYS"]), max_size=3),
    st.text("ab ", max_size=8),
    st.text("ab ", max_size=3),
)
def test_a_key_is_found_without_making_them_all(names: list[str], value: str, wanted: str) -> None:
    properties = "".join(f"{name}\x01{value}\x02" for name in names).encode()
    assert has_key(properties, wanted.encode()) == (wanted.encode() in keys_of(properties))
