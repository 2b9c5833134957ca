"""CEL: what expressions say about messages, what is refused, and what an evaluation may cost."""

from collections.abc import Callable

import pytest

from firearrow.expression.cel.message_view import MessageView
from firearrow.expression.cel.meter import STEPS
from firearrow.expression.cel.program import CelJudgement, CelVerdict, compile_cel
from firearrow.expression.errors import BadExpression, NoValue

BODY = (
    b'{"amount": 150, "price": 2.5, "customer": {"name": "Ada", "tags": ["vip", "eu"]}, "paid": true, "note": null,'
    b' "lines": [{"sku": "a", "count": 2}, {"sku": "b", "count": 0}], "id": "9007199254740993"}'
)


def view(body: bytes = BODY, **properties: str) -> MessageView:
    given = {"TAGS": "new", "KEYS": "k1 k2", "region": "eu", "count": "12", **properties}
    return MessageView("orders", given, lambda: body, 1_700_000_000_000, 1_700_000_000_500)


def judged(text: str, body: bytes = BODY, most_steps: int = STEPS) -> CelJudgement:
    return compile_cel(text).judge(view(body), most_steps)


@pytest.mark.parametrize(
    "text",
    [
        "body.amount > 100",
        "body.amount == 150 && body.price == 2.5",
        "body.amount * body.price == 375.0",
        "body.customer.name.startsWith('A') && 'vip' in body.customer.tags",
        "body.lines.exists(line, line.sku == 'b' && line.count == 0)",
        "body.lines.map(line, line.count).size() == 2",
        "body.lines.filter(line, line.count > 0)[0].sku == 'a'",
        "body.lines.exists_one(line, line.count > 0)",
        "body.paid && body.note == null && !has(body.missing)",
        "has(body.customer.name) ? true : false",
        "int(properties.count) + 1 == 13",
        "properties['region'] in ['eu', 'us']",
        "topic == 'orders' && tag == 'new' && keys == ['k1', 'k2']",
        "store_ms - born_ms == 500",
        "type(body.amount) == double && type(body.id) == string",
        "properties.region.matches('^e[a-z]$')",
        "has(properties.missing) || body.amount > 1",
        "properties.missing == 'x' || body.amount > 1",
        "body.amount > 1 || properties.missing == 'x'",
        "!(properties.missing == 'x' && body.amount < 1)",
        "body.customer.`name` == 'Ada'",
        "[1, 2, 3].all(x, x > 0 || 1 / 0 > 0)",
        "{'a': 1}.a == 1 && {true: 1, 1: 2}[true] == 1",
        "b'\\xff'.size() == 1 && 'é'.size() == 1",
        "body.amount > 100 // a comment",
    ],
)
def test_messages_that_pass(text: str) -> None:
    assert judged(text).verdict is CelVerdict.TRUE


@pytest.mark.parametrize(
    "text", ["body.amount > 1000", "tag != 'new'", "properties.missing == 'x' && false", "1 == '1'"]
)
def test_messages_that_do_not_pass(text: str) -> None:
    assert judged(text).verdict is CelVerdict.FALSE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("properties.missing == 'x'", "no key 'missing'"),
        ("body.amount + 1 > 0.0", r"\+ does not take double, int"),
        ("int(body.customer.name) > 0", "'Ada' is not an int"),
        ("9223372036854775807 + 1 > 0", "overflows 64 bits"),
        ("1 / 0 == 1", "division by zero"),
        ("body.lines[7].sku == 'a'", "index 7 is not in a list of 2"),
        ("body.amount", "not a condition"),
        ("topic.size", "a string has no fields"),
        ("'a' < 1", "have no order"),
        ("!topic", "! does not take string"),
        ("topic ? true : false", r"\?: does not take string"),
        ("{'a': 1, 'a': 2}.a == 1", "same key twice"),
        ("{1.5: 1}.size() == 1", "a double is no key"),
        ("topic.all(x, true)", "goes through a list or a map, not a string"),
        ("keys.all(x, 1)", "all does not take int"),
    ],
)
def test_messages_without_a_verdict(text: str, reason: str) -> None:
    found = judged(text)
    assert found.verdict is CelVerdict.ERROR
    with pytest.raises(NoValue, match=reason):
        raise NoValue(found.reason)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"not json", b"\xff\xfe", b"{", b'{"amount": NaN}', b'{"amount": Infinity}', b"[" * 1000,
        b"\xef\xbb\xbf{}", b'{"amount": 1} x',
    ],
)  # fmt: skip
def test_a_body_that_is_not_json_is_an_error_only_where_it_is_looked_at(body: bytes) -> None:
    found = judged("body.amount > 1", body)
    assert found.verdict is CelVerdict.ERROR
    assert "the body is not JSON" in found.reason
    assert judged("tag == 'new'", body).verdict is CelVerdict.TRUE
    assert judged("tag == 'new' || body.amount > 1", body).verdict is CelVerdict.TRUE


def test_the_body_is_read_once_and_only_if_it_is_looked_at() -> None:
    reads: list[int] = []

    def read() -> bytes:
        reads.append(1)
        return BODY

    given = MessageView("orders", {}, read, 0, 0)
    assert compile_cel("topic == 'orders'").judge(given).verdict is CelVerdict.TRUE
    assert not reads
    text = "body.amount > 1 && body.price > 1"
    assert compile_cel(text).judge(given).verdict is CelVerdict.TRUE
    assert len(reads) == 1
    assert compile_cel(text).names == ("body",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the end of the expression stands where a value"),
        ("body.amount >", "the end of the expression"),
        ("body.amount > 1 1", "'1' at character 17 stands where an operator or the end"),
        ("(1", r"\) for an open bracket"),
        ("'abc", "no closing '"),
        ("amount > 1", r"'amount' at character 1 is not a variable; there are body, born_ms"),
        ("body.amount.floor() > 1", "method 'floor' .* is not offered; there are contains"),
        ("now() > 1", "function 'now' .* is not offered"),
        ("size(1, 2) > 1", "wrong number of arguments"),
        ("9223372036854775808 > 1", "does not fit into 64 bits"),
        ("a" * 9000, "9000 characters; the most is 8192"),
        ("1" + " +1" * 1500, "more than 2000 names"),
        ("1" + "+1" * 100, "more than 64 levels"),
        ("(" * 65 + "1" + ")" * 65, "inside more than 64 brackets"),
        ("!" * 100 + "true", "more than 64 levels"),
        ("topic.matches('(')", "is not a pattern of RE2"),
        ("topic.matches('(?=a)')", "is not a pattern of RE2"),
        ("topic.matches('" + "a" * 300 + "')", "the most is 256"),
        ("has(body)", "has at character 1 takes a field"),
        ("keys.all(1, true)", "the name of a variable"),
        ("keys.all(x)", "takes a variable and an expression"),
        ("Order{id: 1} == body", "messages such as"),
        ("body.amount & 1", "'&' at character 13 begins nothing"),
        ("'\\q' == topic", "escapes nothing"),
        ("if == 1", "a word that CEL reserves"),
    ],
)
def test_expressions_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=reason):
        compile_cel(text)


def test_conditions_may_be_many() -> None:
    text = " || ".join(f"topic == '{number}'" for number in range(300))
    assert judged(text).verdict is CelVerdict.FALSE
    assert judged(text + " || true").verdict is CelVerdict.TRUE


def test_steps_are_counted_and_limited() -> None:
    text = "keys.all(x, keys.all(y, x != '' && y != ''))"
    found = judged(text)
    assert found.verdict is CelVerdict.TRUE
    assert judged(text, most_steps=found.steps).verdict is CelVerdict.TRUE
    over = judged(text, most_steps=found.steps - 1)
    assert over.verdict is CelVerdict.OUT_OF_BUDGET
    assert "more than" in over.reason


@pytest.mark.parametrize("text", ["{0} || true", "true || {0}", "[1, 2].exists(x, x == 2 || {0})"])
def test_no_alternative_makes_up_for_a_budget_that_is_used_up(text: str) -> None:
    bomb = "[1, 2, 3, 4, 5, 6, 7, 8, 9]"
    nested = f"{bomb}.all(a, {bomb}.all(b, {bomb}.all(c, {bomb}.all(d, {bomb}.all(e, true)))))"
    verdict = judged(text.format(nested)).verdict
    assert verdict is (CelVerdict.TRUE if text.startswith("true") else CelVerdict.OUT_OF_BUDGET)


@pytest.mark.parametrize(
    "double",
    ["x + x", "[x, x]"],
)
def test_values_that_double_are_bounded(double: str) -> None:
    text = "['aaaaaaaaaaaaaaaa']" + f".map(x, {double})" * 60 + " == [1]"
    assert judged(text).verdict in (CelVerdict.OUT_OF_BUDGET, CelVerdict.FALSE)
    both = "['a']" + f".map(x, {double})" * 60
    other: Callable[[str], CelVerdict] = lambda given: judged(given).verdict  # noqa: E731
    assert other(f"{both} == {both}") is CelVerdict.OUT_OF_BUDGET


@pytest.mark.parametrize("text", ["0" * 5_000, "0" * 30 + "1 > 0", "0x" + "0" * 30 + "1 > 0", "9" * 5_000])
def test_long_numbers_are_counted_by_their_value(text: str) -> None:
    if text[0] == "9":
        with pytest.raises(BadExpression, match="does not fit into 64 bits"):
            compile_cel(text)
    else:
        compile_cel(text)
