import pytest

from firearrow.errors import IllegalMessage
from firearrow.record.properties import (
    decode_properties,
    encode_properties,
    format_properties,
    parse_properties,
    stored_properties,
)
from firearrow.record.stamp import ends_with_stamp, stamp_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        ("\x02\x02a\x01b\x02\x02", {"a": "b"}),
        ("a\x01\x02c\x01d", {"c": "d"}),
        ("\x01b\x02c\x01d", {"c": "d"}),
        ("ab\x02c\x01d", {"c": "d"}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("a\x011\x02a\x012\x02", {"a": "2"}),
        ("\x01\x01x\x02", {}),
    ],
)
def test_parse_as_java(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected
    assert decode_properties(text.encode()) == expected


@pytest.mark.parametrize(
    ("key", "value"), [("k", "v\x02TRAN_MSG\x01true"), ("a\x01", "v"), ("k", "\x00"), ("\x02", "")]
)
def test_separators_cannot_be_smuggled(key: str, value: str) -> None:
    with pytest.raises(IllegalMessage, match="character 0, 1 or 2"):
        format_properties({key: value})


def test_the_last_entry_is_closed() -> None:
    assert stored_properties("a\x01b") == b"a\x01b\x02"
    assert stored_properties(b"a\x01b\x02") == b"a\x01b\x02"
    assert stored_properties("") == b""


STAMP = stamp_of(0xFFFFFFFF)


def test_the_stamp_is_twenty_bytes_with_its_digits_reversed() -> None:
    assert STAMP == b"__CRC32#\x017463847412\x02"
    assert stamp_of(0) == b"__CRC32#\x010000000000\x02"
    assert stamp_of(12) == b"__CRC32#\x012100000000\x02"


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b"a\x01b\x02" + STAMP, b"a\x01b\x02"),
        (STAMP, b""),
        (STAMP + b"a\x01b\x02", b"a\x01b\x02"),
        (STAMP[:-1], b""),
        (b"a\x01b\x02__CRC32#\x01junk\x02c\x01d", b"a\x01b\x02c\x01d\x02"),
        (STAMP + STAMP, b""),
        (b"TAGS\x01x" + STAMP, b"TAGS\x01x\x02"),  # glued by Apache's broker to an entry that was left open
        (b"TAGS\x01x" + STAMP + b"__CRC32#\x01junk\x02", b"TAGS\x01x\x02"),
        (b"TAGS\x01x" + STAMP[:-1] + STAMP, b"TAGS\x01x\x02"),
        (b"k\x01v__CRC32#\x01\x02\x02\x02_]SG\x01true\x02", b"k\x01v__CRC32#\x01\x02_]SG\x01true\x02"),
        (b"x" + STAMP, b"x" + STAMP),  # a key of the application that ends like the stamp's
    ],
)
def test_stamps_are_stripped_before_a_record_is_written_again(raw: bytes, kept: bytes) -> None:
    assert stored_properties(raw) == kept
    assert stored_properties(kept) == kept
    assert decode_properties(raw) == decode_properties(kept)
    assert "__CRC32#" not in decode_properties(raw)


def test_a_glued_stamp_leaves_the_value_readable() -> None:
    assert decode_properties(b"TAGS\x01x" + STAMP) == {"TAGS": "x"}
    assert ends_with_stamp(b"TAGS\x01x" + STAMP)
    assert not ends_with_stamp(b"x" + STAMP)
    assert not ends_with_stamp(b"")
    assert not ends_with_stamp(STAMP[1:])


def test_limit() -> None:
    assert len(stored_properties("k\x01" + "v" * 32_764)) == 32_767
    with pytest.raises(IllegalMessage, match="32768 bytes"):
        stored_properties("k\x01" + "v" * 32_765)


def test_lone_surrogates_become_question_marks_as_in_java() -> None:
    assert encode_properties({"k": "\ud800"}) == b"k\x01?\x02"
