"""Settings as Java reads them; expectations are those of ``java.util.Properties.load``."""

import pytest

from firearrow.errors import BadBody
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.settings.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=b\nc=d\n", {"a": "b", "c": "d"}),
        ("a = b \n", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a==b", {"a": "=b"}),
        ("a=b=c", {"a": "b=c"}),
        ("# comment\n ! comment\n\n  a=b", {"a": "b"}),
        ("a=b\\\n   c\n", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\t\\n\\r\\f\\x", {"a": "\t\n\r\fx"}),
        ("a=\\u4e2d", {"a": "中"}),
        ("a=\\uD83D\\uDD25", {"a": "\U0001f525"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


def test_ordinary_settings_look_as_java_writes_them() -> None:
    values = {"brokerName": "broker-a", "namesrvAddr": "a:9876;b:9876", "storePathRootDir": "/data/store"}
    assert format_properties(values) == (
        "brokerName=broker-a\nnamesrvAddr=a:9876;b:9876\nstorePathRootDir=/data/store\n"
    )


@pytest.mark.parametrize("data", [b"\xff=1", b"a=\\u12", b"a=\\uzzzz"])
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(BadBody):
        PropertiesText.decode(data)
