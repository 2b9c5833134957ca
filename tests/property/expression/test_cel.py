"""CEL: arithmetic, logic and budgets hold for generated expressions; no text makes the compiler fail otherwise."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firearrow.expression.cel.message_view import MessageView
from firearrow.expression.cel.meter import STEPS
from firearrow.expression.cel.program import CelVerdict, compile_cel
from firearrow.expression.errors import BadExpression, NoValue, OutOfBudget

BODY = b'{"a": 1, "b": [1, 2, 3], "c": {"d": "x"}, "e": null}'
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
PARTS = [
    "body", ".a", ".b", ".c", ".d", "[0]", "keys", "topic", "tag", "properties", " && ", " || ", "!", "(", ")",
    "[", "]", "{", "}", ":", " ? ", ", ", "+", "-", "*", "/", "%", " == ", " < ", " in ", "1", "1u", "2.5", "'x'",
    "true", "null",
    ".all(x, x > 1)", ".map(x, x)", ".exists(y, y == y)", "size(", "int(", "string(", "type(", "has(", "has(body.a)",
    "x", ".size()", ".contains('x')", ".matches('x+')", "`q`", "b'\\x00'", "r'\\'", "//", "\n", ".",
]  # fmt: skip


def view() -> MessageView:
    return MessageView("orders", {"TAGS": "x", "n": "1"}, lambda: BODY, 1, 2)


def value(text: str, most_steps: int = STEPS) -> Any:
    """Return what an expression evaluates to, or the type of its error."""
    try:
        return compile_cel(text).value(view(), most_steps)
    except (NoValue, OutOfBudget) as error:
        return type(error)


def sized(number: int) -> Any:
    return number if -(2**63) <= number < 2**63 else NoValue


@given(INTS, INTS)
def test_integers_are_of_64_bits(left: int, right: int) -> None:
    assert value(f"{left} + {right}") == sized(left + right)
    assert value(f"{left} - {right}") == sized(left - right)
    assert value(f"{left} * {right}") == sized(left * right)
    quotient = abs(left) // abs(right) if right else 0
    towards_zero = quotient if (left < 0) == (right < 0) else -quotient
    assert value(f"{left} / {right}") == (sized(towards_zero) if right else NoValue)
    assert value(f"{left} % {right}") == (left - towards_zero * right if right else NoValue)
    assert value(f"{left} < {right} || {left} == {right} || {left} > {right}") is True


@given(st.lists(st.sampled_from(["true", "false", "1/0 == 1", "topic"]), min_size=1, max_size=6))
def test_the_order_of_conditions_does_not_matter(conditions: list[str]) -> None:
    for sign, decisive in ((" && ", "false"), (" || ", "true")):
        found = value(sign.join(conditions))
        assert found == value(sign.join(reversed(conditions)))
        if len(conditions) == 1:
            continue
        if decisive in conditions:
            assert found is (decisive == "true")
        elif set(conditions) <= {"true", "false"}:
            assert found is (decisive != "true")
        else:
            assert found is NoValue


@given(st.lists(st.integers(-5, 5), max_size=12), st.integers(-5, 5))
def test_macros_are_the_functions_of_python(numbers: list[int], limit: int) -> None:
    text = str(numbers)
    assert value(f"{text}.all(x, x > {limit})") == all(x > limit for x in numbers)
    assert value(f"{text}.exists(x, x > {limit})") == any(x > limit for x in numbers)
    assert value(f"{text}.exists_one(x, x > {limit})") == (sum(x > limit for x in numbers) == 1)
    assert value(f"{text}.filter(x, x > {limit})") == [x for x in numbers if x > limit]
    assert value(f"{text}.map(x, x > {limit}, x * 2)") == [x * 2 for x in numbers if x > limit]
    assert value(f"{limit} in {text}") == (limit in numbers)


@given(st.lists(st.sampled_from(PARTS), max_size=25).map("".join) | st.text(max_size=60), st.integers(0, 60))
def test_every_text_is_refused_or_judged_within_its_budget(text: str, steps: int) -> None:
    try:
        program = compile_cel(text)
    except BadExpression:
        return
    whole = program.judge(view())
    again = program.judge(view())
    assert (whole.verdict, whole.steps, whole.reason) == (again.verdict, again.steps, again.reason)
    bounded = program.judge(view(), steps)
    if whole.steps <= steps:
        assert (bounded.verdict, bounded.steps) == (whole.verdict, whole.steps)
    elif program.steps > steps:
        assert bounded.verdict is CelVerdict.OUT_OF_BUDGET


@given(st.text(max_size=40))
def test_texts_are_written_and_read_again(text: str) -> None:
    escaped = "".join(f"\\U{ord(character):08x}" for character in text if not 0xD800 <= ord(character) <= 0xDFFF)
    plain = "".join(character for character in text if not 0xD800 <= ord(character) <= 0xDFFF)
    assert value(f"'{escaped}'") == plain
    assert value(f"bytes('{escaped}')") == plain.encode()
    assert value(f"string(bytes('{escaped}')) == '{escaped}' && size('{escaped}') == {len(plain)}") is True
