"""What a group wants."""

import pytest

from firearrow.client.consumer.subscription import SQL92, doubt, subscription
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


def test_sql_is_left_to_the_broker() -> None:
    wanted = subscription("T", "a > 5", version=1, kind=SQL92)
    assert wanted.wants("anything")
    assert wanted.data().tags_set == []


def test_nonsense_is_refused() -> None:
    for topic, text, kind in (("bad topic", "*", "TAG"), ("T", " || ", "TAG"), ("T", "*", "XPATH")):
        with pytest.raises(SettingsError):
            subscription(topic, text, version=1, kind=kind)


@pytest.mark.parametrize("text", ["new, changed", "new && changed", "a || b,c"])
def test_what_is_probably_meant_as_several_tags_is_doubted(text: str) -> None:
    assert "write || between tags" in doubt(subscription("T", text, version=1))


@pytest.mark.parametrize("text", ["*", "new", "new || changed", "a&b"])
def test_other_tags_are_not_doubted(text: str) -> None:
    assert doubt(subscription("T", text, version=1)) == ""


def test_sql_is_not_doubted() -> None:
    assert doubt(subscription("T", "a IN ('x', 'y')", version=1, kind=SQL92)) == ""
