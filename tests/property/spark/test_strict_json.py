"""Strict JSON against Python's own parser, told to be strict, and conversion against the schema's meaning."""

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from firearrow.spark.bodies.columns import fields, fits
from firearrow.spark.bodies.misfit import Misfit
from firearrow.spark.bodies.strict_json import NumberText, parse, text_of

types = pytest.importorskip("pyspark.sql.types")

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
PIECES = (
    b"", b" ", b",", b'"', b"{", b"}", b"[", b"0", b"-", b".", b"e5", b"NaN", b"\\ud800", b"\xff", b"\xed\xa0\x80",
    b'"a":1,', b"//", b"\x00", b"'",
)  # fmt: skip
spacings = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")])


def reference(text: bytes) -> Any:
    """Python's value of a text when every liberty of its parser is refused."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in found}) != len(found):
            raise ValueError("a name twice")
        return dict(found)

    def refuse(_: str) -> Any:
        raise ValueError("not a number")

    value = json.loads(text.decode("utf-8"), object_pairs_hook=pairs, parse_constant=refuse)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def plain(value: Any) -> Any:
    """A parsed value with its numbers as Python reads them."""
    if isinstance(value, NumberText):
        return float(value)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def outcome(read: Any, text: bytes) -> tuple[str, Any]:
    try:
        return "is", read(text)
    except (ValueError, RecursionError):
        return "is not", None


@given(values, spacings, st.booleans())
def test_every_json_value_is_read_and_written_again(value: Any, spacing: tuple[str, str], ascii_only: bool) -> None:
    text = json.dumps(value, separators=spacing, ensure_ascii=ascii_only).encode()
    found = parse(text)
    assert plain(found) == value
    assert reference(text_of(found).encode()) == value


@given(values, st.data())
@example({"a": 1}, None)
def test_a_changed_text_is_taken_or_refused_as_by_the_reference(value: Any, data: Any) -> None:
    text = bytearray(json.dumps(value, ensure_ascii=False).encode())
    if data is None:
        text += b"{}"
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(text)))
            piece = data.draw(st.sampled_from(PIECES))
            text[place : place + data.draw(st.integers(0, 2))] = piece
    mine = outcome(lambda given: plain(parse(given)), bytes(text))
    theirs = outcome(reference, bytes(text))
    assert repr(mine) == repr(theirs)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([8, 16, 32, 64]))
@example(1 << 63, 64)
@example(-(1 << 63), 64)
@example(1.0, 32)
def test_an_integer_is_itself_or_refused(number: float, bits: int) -> None:
    kind = {8: types.ByteType(), 16: types.ShortType(), 32: types.IntegerType(), 64: types.LongType()}[bits]
    read = fields(types.StructType([types.StructField("n", kind)]))
    fitting = isinstance(number, int) and -(1 << bits - 1) <= number < 1 << bits - 1
    body = json.dumps({"n": number}).encode()
    if fitting:
        assert read(parse(body), {}) == (number,)
    else:
        with pytest.raises(Misfit, match="field n"):
            read(parse(body), {})


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(1, 38), st.data())
@example(Decimal("1E+400"), 38, None)
@example(Decimal("0E-400"), 1, None)
def test_a_decimal_keeps_every_digit_or_is_refused(number: Decimal, precision: int, data: Any) -> None:
    scale = 0 if data is None else data.draw(st.integers(0, precision))
    assume(abs(number.as_tuple().exponent) < 1000)  # type: ignore[arg-type]
    read = fields(types.StructType([types.StructField("n", types.DecimalType(precision, scale))]))
    unscaled = number.scaleb(scale, context=None) if number else number
    exact = unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**precision if number else True
    assert fits(number, precision, scale) == exact
    for body in (f'{{"n":{number:f}}}', f'{{"n":"{number:f}"}}'):
        if exact:
            assert read(parse(body.encode()), {}) == (number,)
        else:
            with pytest.raises(Misfit, match="does not fit decimal"):
                read(parse(body.encode()), {})


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**400), 10**400))
@example(10**400)
@example(3.4028235677973366e38)
def test_a_float_is_finite_or_refused(number: float) -> None:
    for kind, largest in ((types.DoubleType(), 1.7976931348623157e308), (types.FloatType(), 3.4028234663852886e38)):
        read = fields(types.StructType([types.StructField("n", kind)]))
        try:
            (found,) = read(parse(json.dumps({"n": number}).encode()), {})
        except Misfit:
            assert abs(number) > largest
        else:
            assert math.isfinite(found)
            assert found == float(number)


INNER = types.StructType([types.StructField("a", types.LongType()), types.StructField("b", types.StringType())])
NESTED = types.StructType(
    [
        types.StructField("s", INNER),
        types.StructField("l", types.ArrayType(INNER)),
        types.StructField("m", types.MapType(types.StringType(), INNER)),
    ]
)
objects = st.fixed_dictionaries({}, optional={"a": st.integers(0, 9), "b": texts, "x": values, "y": values})

bodies = st.fixed_dictionaries(
    {"s": objects, "l": st.lists(objects, max_size=3), "m": st.dictionaries(texts, objects, max_size=3)},
    optional={"z": values},
)


@given(bodies)
def test_what_the_schema_does_not_have_is_rescued_at_its_place(value: dict[str, Any]) -> None:
    rest: dict[str, Any] = {}
    inner, several, named = fields(NESTED)(parse(json.dumps(value).encode()), rest)

    def split(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        known = {name: given.get(name) for name in ("a", "b")}
        return known, {name: left for name, left in given.items() if name not in known}

    expected: dict[str, Any] = {name: left for name, left in value.items() if name == "z"}
    assert inner == split(value["s"])[0]
    assert several == [split(each)[0] for each in value["l"]]
    assert named == [(name, split(each)[0]) for name, each in value["m"].items()]
    left = {
        "s": split(value["s"])[1],
        "l": {str(number): split(each)[1] for number, each in enumerate(value["l"]) if split(each)[1]},
        "m": {word: split(each)[1] for word, each in value["m"].items() if split(each)[1]},
    }
    expected |= {name: inner for name, inner in left.items() if inner}
    assert reference(text_of(rest).encode()) == expected
