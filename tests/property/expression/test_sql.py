"""SQL92: a text that compiles never fails otherwise than said, and laws that hold for every message."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.expression.errors import BadExpression, NoValue
from firearrow.expression.java_values import compare_doubles, double, whole
from firearrow.expression.program import Verdict
from firearrow.expression.sql import compile_sql
from firearrow.expression.sql_tokens import KEYWORDS, SYMBOLS

WORDS = st.sampled_from((*sorted(KEYWORDS), *SYMBOLS, "a", "b", "1", "2.5", "'x'", "''"))
TEXTS = st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=20).map(" ".join))
VALUES = st.one_of(st.text(max_size=8), st.integers().map(str), st.floats().map(str), st.sampled_from(["true", ""]))
MESSAGES = st.dictionaries(st.sampled_from("ab"), VALUES)


@given(TEXTS, MESSAGES)
def test_a_text_is_refused_or_gives_a_verdict(text: str, message: dict[str, str]) -> None:
    try:
        program = compile_sql(text)
    except BadExpression:
        return
    verdict = program.verdict(message)
    assert program.matches(message) is (verdict is Verdict.TRUE)
    assert text.endswith(program.ignored)


@given(st.lists(WORDS, min_size=1, max_size=20).map(" ".join), MESSAGES)
def test_not_swaps_true_and_false(text: str, message: dict[str, str]) -> None:
    try:
        plain = compile_sql(f"({text})")
    except BadExpression:
        return
    if plain.ignored:
        return
    swapped = {Verdict.TRUE: Verdict.FALSE, Verdict.FALSE: Verdict.TRUE}
    verdict = plain.verdict(message)
    assert compile_sql(f"NOT ({text})").verdict(message) is swapped.get(verdict, verdict)


@given(st.integers())
def test_whole_numbers_fit_or_have_no_value(number: int) -> None:
    for bits in (31, 63):
        if -(1 << bits) <= number < 1 << bits:
            assert whole(str(number), bits) == number
        else:
            try:
                whole(str(number), bits)
            except NoValue:
                continue
            raise AssertionError(number)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_doubles_are_ordered(left: float, right: float) -> None:
    assert compare_doubles(left, right) == -compare_doubles(right, left) or left == right == 0
    assert compare_doubles(double(repr(left)) if "inf" not in repr(left) else left, left) == 0
