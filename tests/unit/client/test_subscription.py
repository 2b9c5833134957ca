"""The subscriptions of a group."""

import sys

import pytest

from firearrow.client.consumer.subscription import Filter, cel, doubt, expressions, sql, subscription
from firearrow.errors import SettingsError


def test_everything_is_a_star_or_nothing() -> None:
    for text in ("*", "", " * "):
        wanted = subscription("T", text, version=1)
        assert wanted.expression == "*"
        assert wanted.wants("")
        assert wanted.wants("A")


def test_tags_are_named_with_bars_and_hashed_as_in_java() -> None:
    wanted = subscription("T", "TagA || TagB", version=7)
    assert wanted.wants("TagA")
    assert not wanted.wants("")
    assert not wanted.wants("TagC")
    data = wanted.data()
    assert data.code_set == [2598919, 2598920]
    assert (data.sub_string, data.sub_version, data.expression_type) == ("TagA || TagB", 7, "TAG")


def test_sql_is_evaluated_by_the_broker() -> None:
    wanted = subscription("T", sql("a > 5"), version=1)
    assert wanted.wants("anything")
    data = wanted.data()
    assert (data.sub_string, data.expression_type, data.tags_set) == ("a > 5", "SQL92", [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a >", "ends too early"),
        ("a LIKE 'x%'", "CONTAINS"),
        ("a + 1 > 2", "no arithmetic"),
        (5, "write a condition"),
        ("", "is empty"),
    ],
)
def test_a_wrong_condition_is_refused_before_anything_is_sent(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        sql(text)


def test_without_lark_the_broker_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lark", None)
    assert sql("a >") == Filter("a >")


def test_cel_is_evaluated_by_the_broker() -> None:
    data = subscription("T", cel("body.amount > 5"), version=1).data()
    assert (data.sub_string, data.expression_type, data.tags_set) == ("body.amount > 5", "CEL", [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("amount > 5", "'amount' at character 1 is not a variable"),
        ("body.a >", "the end of the expression"),
        (5, "write"),
    ],
)
def test_a_wrong_condition_on_bodies_is_refused_before_anything_is_sent(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        cel(text)


def test_topics_have_tags_or_filters() -> None:
    given = {"T": "A || B", "U": sql("a = 1"), "V": cel("body.a == 1.0")}
    assert expressions(given) == given
    with pytest.raises(SettingsError, match="or cel"):
        expressions({"T": 5})


def test_nonsense_is_refused() -> None:
    for topic, text in (("bad topic", "*"), ("T", " || ")):
        with pytest.raises(SettingsError):
            subscription(topic, text, version=1)


@pytest.mark.parametrize("text", ["new, changed", "new && changed", "a || b,c"])
def test_what_is_probably_meant_as_several_tags_is_doubted(text: str) -> None:
    assert "write || between tags" in doubt(subscription("T", text, version=1))


@pytest.mark.parametrize("text", ["*", "new", "new || changed", "a&b"])
def test_other_tags_are_not_doubted(text: str) -> None:
    assert doubt(subscription("T", text, version=1)) == ""


def test_sql_is_not_doubted() -> None:
    assert doubt(subscription("T", sql("a IN ('x', 'y')"), version=1)) == ""
