"""Rows become messages: parts, identities, queues."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from firearrow.errors import IllegalMessage, SettingsError
from firearrow.model import Message, MessageQueue
from firearrow.model.java_hash import java_hash
from firearrow.spark.rows import ROW_ID_PROPERTY, Origin, Row, RowShape, lanes_of, messages_of, queue_for

ORIGIN = Origin("query", 7, 3)
QUEUES = tuple(MessageQueue("t", "b", number) for number in range(8))


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
        delay_level=pa.array([3]),
        delay_ms=pa.array([250]),
        deliver_timestamp=pa.array([at], pa.timestamp("us", "UTC")),
        properties=pa.array(
            [[("colour", "red"), ("UNIQ_KEY", "old"), ("MSG_REGION", "x")]], pa.map_("string", "string")
        ),
        row_id=pa.array(["b/orders/0/1@5"]),
    )
    (row,) = messages_of(rows, RowShape(), ORIGIN, 0)
    assert row.message.topic == "orders"
    assert row.message.body == b"espresso"
    assert row.message.properties == {
        "colour": "red",
        "KEYS": "a b",
        "TAGS": "new",
        "__SHARDINGKEY": "shop-1",
        "DELAY": "3",
        "TIMER_DELAY_MS": "250",
        "TIMER_DELIVER_MS": str(int(at.timestamp() * 1000)),
        ROW_ID_PROPERTY: "b/orders/0/1@5",
    }


def test_an_option_names_the_topic_before_a_column_does() -> None:
    rows = batch(topic=pa.array(["a"]), body=pa.array(["text"]))
    (row,) = messages_of(rows, RowShape(topic="b"), ORIGIN, 0)
    assert row.message == Message("b", b"text", row.message.properties)


def test_identities_come_from_columns_or_the_row_id_or_the_place() -> None:
    rows = batch(
        body=pa.array([b"x", b"y"]), a=pa.array(["k1", "k2"]), n=pa.array([1, 2]), row_id=pa.array(["r", None])
    )

    def ids(shape: RowShape) -> list[str]:
        return [row.message.properties[ROW_ID_PROPERTY] for row in messages_of(rows, shape, ORIGIN, 10)]

    assert ids(RowShape("t", ("a",))) == ["k1", "k2"]
    assert ids(RowShape("t", ("a", "n"))) == ['["k1","1"]', '["k2","2"]']
    first, second = ids(RowShape("t"))
    assert first == "r"
    assert second.startswith("query:7:3:11:")
    assert second == ids(RowShape("t"))[1], "the same place and content have the same identity"
    assert Origin("query", 7, 3).identity(11, b"other") != second


def test_the_queue_follows_from_what_the_row_asks_for_its_sharding_key_or_its_identity() -> None:
    plain = Message("t", b"", {ROW_ID_PROPERTY: "one"})
    sharded = plain.with_properties({"__SHARDINGKEY": "shop-1"})
    assert queue_for(Row(plain), QUEUES) == queue_for(Row(plain), QUEUES)
    assert queue_for(Row(sharded), QUEUES) == QUEUES[abs(java_hash("shop-1")) % 8]
    assert queue_for(Row(plain, 11), QUEUES) == QUEUES[3]
    used = {queue_for(Row(Message("t", b"", {ROW_ID_PROPERTY: str(number)})), QUEUES) for number in range(200)}
    assert used == set(QUEUES)


def test_lanes_keep_the_order_of_rows() -> None:
    rows = [Row(Message("t", str(number).encode(), {ROW_ID_PROPERTY: str(number)}), number % 2) for number in range(6)]
    lanes = lanes_of(rows, {"t": QUEUES})
    assert [[int(message.body) for message in lane.messages] for lane in lanes] == [[0, 2, 4], [1, 3, 5]]


def test_rows_that_cannot_be_messages_are_refused_with_a_reason() -> None:
    with pytest.raises(IllegalMessage, match="row 41 of partition 3 has no body"):
        messages_of(batch(body=pa.array([b"a", None])), RowShape("t"), ORIGIN, 40)
    with pytest.raises(IllegalMessage, match="no topic"):
        messages_of(batch(body=pa.array([b"a"]), topic=pa.array([None], pa.string())), RowShape(), ORIGIN, 0)
    with pytest.raises(SettingsError, match="cast it to binary"):
        messages_of(batch(body=pa.array([1])), RowShape("t"), ORIGIN, 0)


def test_a_shape_says_which_columns_are_missing() -> None:
    with pytest.raises(SettingsError, match="needs a column 'body'"):
        RowShape("t").check(["topic"])
    with pytest.raises(SettingsError, match="needs a topic"):
        RowShape().check(["body"])
    with pytest.raises(SettingsError, match="identityColumns names z"):
        RowShape("t", ("z",)).check(["body"])
    RowShape("t", ("k",)).check(["body", "k"])
