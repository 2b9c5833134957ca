import pytest

from firearrow.model.java_hash import java_hash, tag_code


# Printed by Java's own String.hashCode.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("é", 233),
        ("中文", 646394),
        ("polygenelubricants", -2147483648),
        ("\U0001f600x", 54959989),
        ("\ud800", 55296),
        ("TopicA#k1", -1903240649),
        ("a" * 1000, 904019584),
        ("\U0001f600" * 300, 268022404),
    ],
)
def test_agrees_with_java(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def by_definition(text: str) -> int:
    wide = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(wide), 2):
        value = (31 * value + int.from_bytes(wide[index : index + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@pytest.mark.parametrize("length", [1, 255, 256, 257, 511, 512, 513, 5000])
@pytest.mark.parametrize("letter", ["z", "ÿ", "Ā", "\uffff", "\U0010ffff"])
def test_every_chunk_boundary(letter: str, length: int) -> None:
    text = letter * length
    assert java_hash(text) == by_definition(text)


def test_no_tag_is_code_zero() -> None:
    assert tag_code("") == 0
    assert tag_code("TagA") == 2598919
