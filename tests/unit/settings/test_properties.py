"""Java properties text, read as Java reads it."""

import pytest

from firearrow.errors import SettingsError
from firearrow.settings import parse_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b\n", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a: b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a=b ", {"a": "b "}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("# no\n! no\n  # no\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u4e2d\\t.", {"a": "中\t."}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b=c", {"a": "b=c"}),
        ("path=C\\:\\\\x", {"path": "C:\\x"}),
    ],
)
def test_reads_what_java_reads(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


def test_a_broken_escape_says_what_to_write() -> None:
    with pytest.raises(SettingsError, match="escape without 4 digits"):
        parse_properties("a=\\u12")
