"""Rows become messages: what each column means."""

import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from firearrow.errors import IllegalMessage, SettingsError
from firearrow.model import Message
from firearrow.spark.sink.rows import ROW_ID_PROPERTY, Origin, RowShape, check_rows, messages_of

ORIGIN = Origin("query", 7, 3)


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_every_part_of_a_row_lands_in_the_message() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    rows = batch(
        topic=pa.array(["orders"]),
        body=pa.array([b"espresso"]),
        keys=pa.array([["a", "b"]]),
        tags=pa.array(["new"]),
        sharding_key=pa.array(["shop-1"]),
        deliver_at=pa.array([at], pa.timestamp("us", "UTC")),
        properties=pa.array(
            [[("colour", "red"), ("UNIQ_KEY", "old"), ("MSG_REGION", "x")]], pa.map_("string", "string")
        ),
    )
    (message,) = messages_of(rows, RowShape(), ["b/orders/0/1@5"])
    assert message.topic == "orders"
    assert message.body == b"espresso"
    assert message.properties == {
        "colour": "red",
        "KEYS": "a b",
        "TAGS": "new",
        "__SHARDINGKEY": "shop-1",
        "TIMER_DELIVER_MS": str(int(at.timestamp() * 1000)),
        ROW_ID_PROPERTY: "b/orders/0/1@5",
    }


def delays(**columns: pa.Array) -> list[dict[str, str]]:
    rows = batch(body=pa.array([b"x"] * len(next(iter(columns.values())))), **columns)
    found = messages_of(rows, RowShape("t"), ["i"] * rows.num_rows)
    return [{key: value for key, value in message.properties.items() if key != ROW_ID_PROPERTY} for message in found]


def test_delays_follow_the_rules_of_messages() -> None:
    waits = pa.array([timedelta(microseconds=1500), None, None], pa.duration("us"))
    at = datetime(2030, 1, 1, 0, 0, 0, 999, tzinfo=UTC)
    times = pa.array([None, at, None], pa.timestamp("us", "UTC"))
    at_ms = Message("t", b"x", deliver_at=at).properties["TIMER_DELIVER_MS"]
    assert delays(delay=waits, deliver_at=times, delay_level=pa.array([None, 0, 3], pa.int32())) == [
        {"TIMER_DELAY_MS": "2"}, {"TIMER_DELIVER_MS": at_ms}, {"DELAY": "3"},
    ]  # fmt: skip
    for unit in ("s", "ms", "ns"):
        assert delays(delay=pa.array([timedelta(seconds=5)], pa.duration(unit))) == [{"TIMER_DELAY_MS": "5000"}]


def test_wrong_delays_are_refused() -> None:
    wait = pa.array([timedelta(seconds=5)], pa.duration("us"))
    with pytest.raises(IllegalMessage, match="two delays"):
        delays(delay=wait, delay_level=pa.array([3]))
    with pytest.raises(IllegalMessage, match="negative level"):
        delays(delay_level=pa.array([3, -3]))
    with pytest.raises(IllegalMessage, match="negative"):
        delays(delay=pa.array([timedelta(seconds=-5)], pa.duration("us")))
    with pytest.raises(SettingsError, match="no time zone"):
        delays(deliver_at=pa.array([datetime(2030, 1, 1)], pa.timestamp("us")))  # noqa: DTZ001 - the mistake


def test_an_option_names_the_topic_before_a_column_does() -> None:
    rows = batch(topic=pa.array(["a"]), body=pa.array(["text"]))
    (message,) = messages_of(rows, RowShape(topic="b"), ["i"])
    assert message == Message("b", b"text", {ROW_ID_PROPERTY: "i"})


def test_what_is_null_or_empty_is_no_property() -> None:
    rows = batch(
        body=pa.array([b"x"]),
        keys=pa.array([["a", None, "b"]]),
        tags=pa.array([""]),
        sharding_key=pa.array([None], pa.string()),
        delay_level=pa.array([0]),
        properties=pa.array([[("TAGS", "kept"), ("none", None), ("empty", "")]], pa.map_("string", "string")),
    )
    (message,) = messages_of(rows, RowShape("t"), ["i"])
    assert message.properties == {"TAGS": "kept", "KEYS": "a b", ROW_ID_PROPERTY: "i"}


def test_numbers_and_bytes_are_taken_as_text() -> None:
    rows = batch(body=pa.array([b"x"]), keys=pa.array([7]), tags=pa.array([b"new"]), delay_level=pa.array(["3"]))
    (message,) = messages_of(rows, RowShape("t"), ["i"])
    assert message.properties == {"KEYS": "7", "TAGS": "new", "DELAY": "3", ROW_ID_PROPERTY: "i"}


@pytest.mark.parametrize(
    ("column", "told"), [("delay", "column 'delay' is int64; make it an interval"), ("deliver_at", "a timestamp")]
)
def test_delays_have_types_of_their_own(column: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        messages_of(batch(body=pa.array([b"x"]), **{column: pa.array([7])}), RowShape("t"), ["i"])


def test_rows_that_cannot_be_messages_are_refused_with_a_reason() -> None:
    with pytest.raises(IllegalMessage, match="row 41 of partition 3 has no body"):
        check_rows(batch(body=pa.array([b"a", None])), RowShape("t"), ORIGIN, 40)
    for topics in ([None, "t"], ["", "t"]):
        with pytest.raises(IllegalMessage, match="row 0 of partition 3 has no topic"):
            check_rows(batch(body=pa.array([b"a", None]), topic=pa.array(topics, pa.string())), RowShape(), ORIGIN, 0)
    with pytest.raises(SettingsError, match="cast it to binary"):
        messages_of(batch(body=pa.array([1])), RowShape("t"), ["i"])


def test_a_tag_that_no_subscription_can_name_is_refused() -> None:
    bodies, nameable = pa.array([b"0", b"1", b"2", b"3", b"4"]), ["a|b", None, "", "a b"]
    for tag in ("a||b", "||", "*", "a ", " a", "a\n", " ", "a\u00a0"):
        tags = pa.array([*nameable, tag])
        with pytest.raises(IllegalMessage, match=re.escape(f"column 'tags' has {tag!r}, which no subscription")):
            check_rows(batch(body=bodies, tags=tags), RowShape("t"), ORIGIN, 0)
    check_rows(batch(body=bodies[:4], tags=pa.array(nameable)), RowShape("t"), ORIGIN, 0)


def test_a_tag_in_the_properties_is_checked_unless_the_column_has_one() -> None:
    def rows(tag: str, **more: pa.Array) -> pa.RecordBatch:
        properties = pa.array([None, [("colour", "red")], [("TAGS", tag)]], pa.map_("string", "string"))
        return batch(body=pa.array([b"0", b"1", b"2"]), properties=properties, **more)

    without = [{}, {"tags": pa.array(["a", "b", None])}, {"tags": pa.array(["a", "b", ""])}]
    for tag in ("a||b", "*", "a "):
        for more in without:
            told = re.escape(f"TAGS in column 'properties' has {tag!r}, which no subscription")
            with pytest.raises(IllegalMessage, match=told):
                check_rows(rows(tag, **more), RowShape("t"), ORIGIN, 0)
        own = rows(tag, tags=pa.array(["a", "b", "c"]))
        check_rows(own, RowShape("t"), ORIGIN, 0)
        assert messages_of(own, RowShape("t"), ["i"] * 3)[2].properties["TAGS"] == "c", "the column comes first"
    check_rows(rows("a"), RowShape("t"), ORIGIN, 0)


def test_a_shape_says_which_columns_are_missing() -> None:
    with pytest.raises(SettingsError, match="needs a column 'body'"):
        RowShape("t").check(["topic"])
    with pytest.raises(SettingsError, match="needs a topic"):
        RowShape().check(["body"])
    with pytest.raises(SettingsError, match="identityColumns names z"):
        RowShape("t", ("z",)).check(["body"])
    RowShape("t", ("k",)).check(["body", "k"])


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.field("element", pa.string(), nullable=False)),
        pa.list_(pa.field("element", pa.string())),
        pa.large_list(pa.field("element", pa.large_string(), nullable=False)),
    ],
)
def test_keys_may_be_arrays_whose_elements_are_never_null(kind: pa.DataType) -> None:
    """As Spark makes them of F.array and F.split."""
    rows = batch(body=pa.array([b"x", b"y"]), keys=pa.array([["a", "b"], None], kind))
    one, two = messages_of(rows, RowShape("t"), ["i", "j"])
    assert one.properties["KEYS"] == "a b"
    assert "KEYS" not in two.properties


def test_properties_may_be_maps_whose_values_are_never_null() -> None:
    kind = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
    rows = batch(body=pa.array([b"x"]), properties=pa.array([[("a", "1")]], kind))
    (message,) = messages_of(rows, RowShape("t"), ["i"])
    assert message.properties["a"] == "1"
