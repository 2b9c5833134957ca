"""The parts of CEL: tokens with their places, the shape of trees, operators and functions one by one, patterns."""

import math
from typing import Any

import pytest

from firearrow.expression.cel import functions, operators
from firearrow.expression.cel.meter import CostMeter
from firearrow.expression.cel.nodes import (
    Conditional,
    FieldTest,
    FunctionCall,
    ListNode,
    Literal,
    Logic,
    Macro,
    MapNode,
    Name,
    Select,
)
from firearrow.expression.cel.parser import parse
from firearrow.expression.cel.patterns import Pattern
from firearrow.expression.cel.tokens import tokens_of
from firearrow.expression.cel.values import BoolKey, TypeValue, Uint, key_of, type_of, value_of
from firearrow.expression.errors import BadExpression, NoValue, OutOfBudget


def meter(steps: int = 100) -> CostMeter:
    return CostMeter(None, steps, 0)


def test_tokens_have_kinds_values_and_places() -> None:
    found = tokens_of("a.`b c` in [0x1F, 2u, .5, 'x\\n', b'\\377', r'\\n'] // end")
    assert [(token.kind, token.text) for token in found[:4]] == [
        ("name", "a"),
        (".", "."),
        ("quoted", "b c"),
        ("in", "in"),
    ]
    values = [token.value for token in found if token.kind == "literal"]
    assert values == [31, Uint(2), 0.5, "x\n", b"\xff", "\\n"]
    assert type(values[1]) is Uint
    assert found[2].at == 2
    assert found[-1].kind == "end"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", Literal), ("a", Name), ("a.b", Select), ("a(b)", FunctionCall), ("a + b", FunctionCall), ("a && b",
        Logic),
        ("[a]", ListNode),
        ("{a: b}", MapNode), ("a ? b : c", Conditional), ("has(a.b)", FieldTest), ("a.all(x, x)", Macro),
    ],
)  # fmt: skip
def test_trees_have_the_shape_of_the_text(text: str, kind: type) -> None:
    assert type(parse(text)) is kind


def test_operators_bind_as_in_the_specification() -> None:
    tree = parse("!a || -b * c + d < e && f ? g : h ? i : j")
    assert isinstance(tree, Conditional)
    assert isinstance(tree.condition, Logic)
    assert not tree.condition.is_and
    assert isinstance(tree.no, Conditional)
    less = tree.condition.operands[1]
    assert isinstance(less, Logic)
    assert isinstance(less.operands[0], FunctionCall)
    assert less.operands[0].name == "<"


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("+", (1, 2), 3), ("+", ("a", "b"), "ab"), ("+", ([1], [2]), [1, 2]), ("-", (Uint(3), Uint(2)), Uint(1)),
        ("-", (Uint(2), Uint(3)), NoValue), ("/", (-7, 2), -3), ("%", (-7, 2), -1), ("/", (1.0, 0.0), math.inf),
        ("/", (-(2**63), -1), NoValue), ("%", (5.0, 2.0), NoValue), ("negate", (-(2**63),), NoValue),
        ("negate", (Uint(1),), NoValue),
        ("==", (1, 1.0), True), ("==", (1, True), False), ("==", ({"a": [1]}, {"a": [1.0]}), True),
        ("!=", (None, 0), True),
        ("<", (Uint(1), 2.5), True), ("<", (True, 1), NoValue), ("in", (1.0, [1]), True), ("in", (True, {1: 1}), False),
        ("[]", ({BoolKey.TRUE: 5}, True), 5), ("[]", ([1], 0.0), 1), ("[]", ([1], 0.5), NoValue),
        ("[]", ([1], -1), NoValue),
    ],
)  # fmt: skip
def test_operators(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    if result is NoValue:
        with pytest.raises(NoValue):
            operators.OPERATORS[name](meter(), *arguments)
        return
    found = operators.OPERATORS[name](meter(), *arguments)
    assert (type(found), found) == (type(result), result)


@pytest.mark.parametrize(
    ("name", "argument", "result"),
    [
        ("int", "12", 12), ("int", "9223372036854775808", NoValue), ("int", -1.9, -1), ("int", math.nan, NoValue),
        ("int", " 1", NoValue), ("int", "1" * 5000, NoValue), ("uint", -1, NoValue), ("uint", "7", Uint(7)),
        ("double", "1e3", 1000.0), ("double", "0x1", NoValue), ("double", "1_0", NoValue), ("string", 1e21, "1e+21"),
        ("string", 2.0, "2"), ("string", -0.0045, "-0.0045"), ("string", True, "true"), ("string", b"\xff", NoValue),
        ("bool", "t", True), ("bool", "yes", NoValue), ("bytes", "é", b"\xc3\xa9"), ("bytes", "\ud800", NoValue),
        ("size", {1: 2}, 1), ("size", 1, NoValue), ("type", None, TypeValue.NULL), ("dyn", 1, 1),
    ],
)  # fmt: skip
def test_functions(name: str, argument: Any, result: Any) -> None:
    function = functions.FUNCTIONS[name, 1]
    if result is NoValue:
        with pytest.raises(NoValue):
            function(meter(), argument)
    else:
        found = function(meter(), argument)
        assert (type(found), found) == (type(result), result)


def test_keys_tell_true_from_one() -> None:
    assert key_of(True) is BoolKey.TRUE
    assert value_of(BoolKey.FALSE) is False
    assert value_of(key_of("a")) == "a"
    assert type_of(Uint(1)) is TypeValue.UINT
    with pytest.raises(NoValue, match="no key"):
        key_of([1])


def test_patterns_cost_by_the_length_of_the_text() -> None:
    pattern = Pattern("a+b")
    assert pattern.is_in(meter(), "xaab")
    assert not pattern.is_in(meter(), "x")
    with pytest.raises(OutOfBudget):
        pattern.is_in(meter(), "a" * 10_000)
    with pytest.raises(NoValue):
        pattern.is_in(meter(), 1)
    with pytest.raises(BadExpression, match="states"):
        Pattern("(a?){500}")
