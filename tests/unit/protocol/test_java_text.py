import math

import pytest

from firearrow.protocol.java_text import java_text, parse_boolean, parse_double, parse_int32, parse_int64


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("+5", 5), ("-5", -5), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31)), ("-0", 0)],
)
def test_integers_java_takes(text: str, value: int) -> None:
    assert parse_int32(text) == value
    assert parse_int64(text) == value


@pytest.mark.parametrize(
    "text", ["", " 5", "5 ", "5\n", "5.0", "1e3", "1_0", "0x10", "--5", "+", "null", "\uff15", "9" * 20, "9" * 5000]
)
def test_integers_java_refuses(text: str) -> None:
    for parse in (parse_int32, parse_int64):
        with pytest.raises(ValueError, match=r"."):
            parse(text)


def test_ranges() -> None:
    assert parse_int64("-9223372036854775808") == -(2**63)
    for text in ("2147483648", "-2147483649"):
        with pytest.raises(ValueError, match="within"):
            parse_int32(text)
    with pytest.raises(ValueError, match="within"):
        parse_int64("9223372036854775808")


def test_only_true_is_true() -> None:
    assert [
        text for text in ("true", "TRUE", "tRuE", "1", "yes", " true", "", "false", "on") if parse_boolean(text)
    ] == [
        "true",
        "TRUE",
        "tRuE",
    ]


def test_doubles() -> None:
    assert [parse_double(text) for text in ("1", " 1.5 ", "-1e3", "1.", ".5", "2d", "Infinity")] == [
        1.0,
        1.5,
        -1000.0,
        1.0,
        0.5,
        2.0,
        math.inf,
    ]
    assert math.isnan(parse_double("NaN"))
    for text in ("", "nan", "inf", "1_0", "0x1p3", "e5", "1 2"):
        with pytest.raises(ValueError, match="number"):
            parse_double(text)


def test_texts() -> None:
    assert [java_text(value) for value in (True, False, -3, "x", 0.5)] == ["true", "false", "-3", "x", "0.5"]
