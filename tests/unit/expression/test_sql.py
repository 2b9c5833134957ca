"""SQL92 filters: what compiles, what an expression says about a message, and the bounds."""

import contextlib
import re
import time

import pytest

from firearrow.expression.errors import BadExpression
from firearrow.expression.program import LONG_VALUE_STEPS, Verdict
from firearrow.expression.sql import MOST_CHARACTERS, MOST_TOKENS, compile_sql
from firearrow.expression.sql_nodes import MOST_DEPTH, MOST_LISTED, MOST_STEPS
from tests.yardstick import least_s

MESSAGE = {"amount": "120", "city": "Köln", "paid": "True", "price": "1.5", "big": "3000000000"}

TRUE = (
    "amount > 100",
    "amount >= 120 AND amount <= 120",
    "100 < amount",
    "amount BETWEEN 100 AND 200",
    "amount NOT BETWEEN 1 AND 2",
    "amount = 120",
    "amount = 120L",
    "amount <> 121",
    "city = 'Köln'",
    "city IN ('Bonn', 'Köln')",
    "city NOT IN ('Bonn')",
    "city CONTAINS 'öl' AND city STARTSWITH 'K' AND city ENDSWITH 'n'",
    "city NOT CONTAINS 'x'",
    "paid = TRUE",
    "price < amount",
    "missing IS NULL",
    "city IS NOT NULL",
    "NOT (city = 'Bonn')",
    "missing = 1 OR amount = 120",
    "big > 2147483648",
    "-amount IS NULL",
    "amount > -5",
    "/* all */ TRUE -- really\n",
)


@pytest.mark.parametrize("text", TRUE)
def test_a_message_passes(text: str) -> None:
    program = compile_sql(text)
    assert program.ignored == ""
    assert program.verdict(MESSAGE) is Verdict.TRUE
    assert program.matches(MESSAGE)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("missing > 1", Verdict.NULL),
        ("missing <> 'x'", Verdict.NULL),
        ("NOT missing = 'x'", Verdict.NULL),
        ("'x' = missing", Verdict.FALSE),
        ("city", Verdict.FALSE),
        ("missing", Verdict.NULL),
        ("city CONTAINS ''", Verdict.FALSE),
        ("city NOT CONTAINS ''", Verdict.FALSE),
        ("missing = 1 AND city = 'Bonn'", Verdict.FALSE),
        ("missing = 1 AND city = 'Köln'", Verdict.NULL),
        ("price > 1", Verdict.ERROR),
        ("city > 1", Verdict.ERROR),
        ("city > amount", Verdict.ERROR),
        ("big > 1", Verdict.ERROR),
        ("TRUE = city", Verdict.ERROR),
    ],
)
def test_a_message_does_not_pass(text: str, verdict: Verdict) -> None:
    program = compile_sql(text)
    assert program.verdict(MESSAGE) is verdict
    assert not program.matches(MESSAGE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a = ", "ends too early"),
        ("a ==1", "'=' at character 4"),
        ("a = 1 #", "character 7 is '#'"),
        ("a = 'x", "has no end"),
        ("a /* b", "has no end"),
        ("1", "compare it with something"),
        ("NOT 1", "compare it with something"),
        ("a = NULL", "IS NULL"),
        ("TRUE = 'x'", "cannot be compared"),
        ("a > 'x'", "only numbers"),
        ("(a = 1) > 2", "a condition cannot be compared"),
        ("a BETWEEN 3 AND 1", "in order"),
        ("a BETWEEN NULL AND 1", "cannot be NULL"),
        ("'x' IN ('x')", "the name of a property"),
        ("a IN ()", "does not belong there"),
        ("a > 0.0", "write 0 for zero"),
        ("a > 9223372036854775808", "64 bits"),
    ],
)
def test_an_expression_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(said)):
        compile_sql(text)


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("a LIKE 'x%'", "LIKE 'x%'"),
        ("a + 1 > 2", "+ 1 > 2"),
        ("a = 007", "07"),
        ("a = 1 )", ")"),
        ("a b #", "b #"),
        ("a = 1 = b", ""),
    ],
)
def test_text_behind_the_end_is_kept_apart(text: str, ignored: str) -> None:
    assert compile_sql(text).ignored == ignored


def test_a_program_tells_its_names_and_steps() -> None:
    program = compile_sql("b > 1 AND a IN ('x') AND b < 9")
    assert program.names == ("a", "b")
    assert 0 < program.steps < 20


HOSTILE = {
    "parentheses": "(" * 100_000 + "a" + ")" * 100_000,
    "parentheses that fit": "(" * 1900 + "a = 1" + ")" * 1900,
    "conditions": " AND ".join(["a=1"] * 100_000),
    "conditions that fit": " AND ".join(["a=1"] * 900),
    "a huge list": "a IN (" + ",".join(["'x'"] * 100_000) + ")",
    "a list that fits": "a IN (" + ",".join(f"'{i}'" for i in range(MOST_LISTED)) + ")",
    "an open text": "a = '" + "x" * 32_000,
    "quotes": "'" * (MOST_CHARACTERS - 1),
    "an open comment": "/*" * 16_000,
    "minus signs": "-" * 32_000,
    "minus signs and a line end": "-" * 32_000 + "\n",
    "comments": "--\n" * 10_000 + "a",
    "chained equality": " = ".join(["a"] * 1000),
    "NOT": "NOT " * 3000 + "a",
    "minus": "- " * 3000 + "a = 1",
    "plus": "+" * 3900 + "a = 1",
    "NaN": "a = NaN AND a > 1E309",
    "overflow": "a > " + "9" * 30_000,
    "zeros": "0" * 32_000,
    "a long name": "a" * 32_000 + " = 1",
    "a name of a megabyte": "a" * (1 << 20),
    "or and": " OR ".join(["a AND b"] * 600),
}


NEEDLE = "a" * 48 + "b" + "a" * 50
"""A part that takes Python's search of a text of the same letter as long as possible."""
HOSTILE_MESSAGES = {
    "searches": (" OR ".join([f"a CONTAINS '{NEEDLE}'"] * 277), "a" * 29_900),
    "searches of half a text": (" OR ".join([f"a CONTAINS '{'a' * 600}b{'a' * 600}'"] * 26), "a" * 2499),
    "searches of a short text": (" OR ".join([f"a CONTAINS '{'a' * 100}b{'a' * 100}'"] * 150), "a" * 390),
    "doubles": (" OR ".join(["a > 1.0 AND a < 0.5"] * 250), "1" * 30_000),
    "doubles that are none": (" OR ".join(["a > 1.0"] * 490), "1" * 30_000 + "x"),
    "hexadecimal doubles": (" OR ".join(["a < 1.0"] * 490), "0x" + "1" * 30_000 + "p1"),
    "zeros": (" OR ".join(["a < 0"] * 490), "0" * 30_000),
    "zeros of another script": (" OR ".join(["a < 0"] * 490), "\u0660" * 16_000),
    "digits of another script": (" AND ".join(["NOT a = 1"] * 390), "\u0663" * 16_000),
    "truths": (" OR ".join(["a = TRUE"] * 490), "\u0130" * 16_000),
    "two properties": (" OR ".join(["a > b"] * 490), "1" * 15_000),
    "equal properties": (" AND ".join(["a = b"] * 490), "x" * 16_000),
}


@pytest.mark.parametrize("name", [*HOSTILE, *HOSTILE_MESSAGES])
def test_hostile_expressions_are_refused_or_bounded(name: str) -> None:
    compile_sql("a = 1")
    text, value = HOSTILE_MESSAGES.get(name) or (HOSTILE[name], "1")
    message = {"a": value, "b": value if name in HOSTILE_MESSAGES else "x"}

    def judged_s() -> float:
        began, verdict = time.process_time(), None
        with contextlib.suppress(BadExpression):
            verdict = compile_sql(text).verdict(message)
        assert verdict is not None or name in HOSTILE
        return time.process_time() - began

    assert least_s(judged_s, 0.05) < 0.05


def test_searches_through_long_values_end_without_a_verdict() -> None:
    program = compile_sql(HOSTILE_MESSAGES["searches"][0])
    judged = program.judge({"a": "a" * 29_900})
    assert not judged.matches
    assert f"more than {LONG_VALUE_STEPS} steps" in judged.reason
    assert judged.steps > LONG_VALUE_STEPS
    assert program.matches({"a": "a" * 29_000 + NEEDLE}), "the first search finds it"
    assert not program.matches({"a": "a" * 50})


def test_no_filter_of_practice_meets_the_limit_of_long_values() -> None:
    text = " OR ".join([f"a CONTAINS 'order-4711-{number:06d}'" for number in range(30)])
    assert not compile_sql(text).matches({"a": "x" * 32_000})
    listed = ",".join(f"'{number}'" for number in range(1000))
    cheap = f"a = 'x' OR a IS NULL OR a IN ({listed}) OR a STARTSWITH 'y' OR a ENDSWITH 'y' OR a = TRUE"
    program = compile_sql(" OR ".join([cheap, *["a = 'x' OR a STARTSWITH 'y' OR a IS NULL"] * 150]))
    assert not program.matches({"a": "x" * 32_000}), "these do not read a value to its end"


def test_limits_are_said() -> None:
    for text, said in (
        ("a" * (MOST_CHARACTERS + 1), f"at most {MOST_CHARACTERS}"),
        ("+" * (MOST_TOKENS + 1), f"more than {MOST_TOKENS}"),
        ("NOT " * (MOST_DEPTH + 1) + "a", f"more than {MOST_DEPTH} levels"),
        (" OR ".join(["a"] * (MOST_STEPS + 1)), "more than"),
    ):
        with pytest.raises(BadExpression, match=said):
            compile_sql(text)
