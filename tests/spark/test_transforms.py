"""Transforms of archives, replays and audits on small DataFrames."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from pyspark.errors import PythonException
from pyspark.testing import assertDataFrameEqual

from firearrow.errors import SettingsError
from firearrow.spark.bodies.body_format import BodyFormat
from firearrow.spark.pipelines import audit, replay, transforms
from firearrow.spark.schema import ROW_DDL
from tests.spark import auditset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
DDL = BodyFormat(schema="name string, price double")


def row(offset: int, body: bytes | None, topic: str = "t", queue: int = 0, **more: object) -> dict[str, object]:
    made = {
        "topic": topic, "broker": "b", "queue_id": queue, "queue_offset": offset, "physical_offset": offset * 100,
        "message_id": f"m{offset}", "unique_key": f"u{queue}-{offset}", "keys": None, "tags": None, "body": body,
        "properties": {"colour": "red"}, "born_timestamp": NOON, "store_timestamp": NOON, "born_host": "h:1",
        "store_host": "h:2", "flag": 0, "sys_flag": 0, "reconsume_times": 0, "delay_level": None,
        "transaction_state": "NONE", "prepared_transaction_offset": 0, "body_crc": 0, "store_size": 100,
        "row_id": f"b/{topic}/{queue}/{offset}@{offset * 100}",
    }  # fmt: skip
    return {**made, **more}


def rows(spark: "SparkSession", *given: dict[str, object]) -> "DataFrame":
    return spark.createDataFrame(list(given), ROW_DDL)


def test_json_bodies_are_typed_or_quarantined_never_both(spark: "SparkSession") -> None:
    given = rows(
        spark,
        row(0, b'{"name": "espresso", "price": 2.5}'),
        row(1, b'{"name": "tea"}'),
        row(2, b'{"name": "milk", "price": "dear"}'),
        row(3, b"not json"),
        row(4, b""),
        row(5, b"\xff\xfe{}"),
        row(6, b"[1, 2]"),
    )
    good = transforms.typed(given, DDL)
    assert good.columns[-2:] == ["name", "price"]
    assertDataFrameEqual(
        good.select("_queue_offset", "name", "price"),
        spark.createDataFrame(
            [(0, "espresso", 2.5), (1, "tea", None)], "_queue_offset long, name string, price double"
        ),
    )
    bad = {one.queue_offset: one.reason for one in transforms.quarantine(given, DDL).collect()}
    assert sorted(bad) == [2, 3, 4, 5, 6]
    assert bad[4] == "the body is empty"
    assert bad[5] == "the body is not UTF-8 (byte 0)"
    assert transforms.quarantine(given, DDL).columns == [*given.columns, "reason"]


STRICT = BodyFormat(schema="id long NOT NULL, at timestamp, size float, inner struct<a: int NOT NULL>")


def test_what_is_not_a_row_of_the_schema_is_quarantined(spark: "SparkSession") -> None:
    wrong = {
        b'{"id":1} trailing': "goes on after its JSON value",
        b'{"id":400}{"id":401}': "goes on after its JSON value",
        b'{"id":1},{"id":2}': "goes on after its JSON value",
        b'[{"id":1},{"id":2}]': "the body is an array, not an object",
        b'{"id":1,"id":2}': "repeats a field: id",
        b'{"id":1,"inner":{"a":1,"a":2}}': "repeats a field: a",
        b'{"id":null}': "field id must not be null or missing",
        b"{}": "field id must not be null or missing",
        b'{"id":1,"inner":{}}': "field inner.a must not be null",
        b'{"id":1,"at":1700000000000}': "field at is outside of the years 1 to 9999",
        b'{"id":1,"size":1e400}': "field size is too large",
        b'{"id":1,"size":3.5e38}': "field size is too large",
        b'{"id":9223372036854775808}': "field id is 9223372036854775808, which does not fit 64 bits",
        b"{'id':1}": "the body is not JSON",
    }
    given = rows(spark, *(row(offset, body) for offset, body in enumerate(wrong)))
    bad = transforms.quarantine(given, STRICT).orderBy("queue_offset").collect()
    assert [bytes(one.body) for one in bad] == list(wrong)
    for one, reason in zip(bad, wrong.values(), strict=True):
        assert reason in one.reason
    assert transforms.typed(given, STRICT).collect() == []


def test_what_the_schema_does_not_have_is_rescued(spark: "SparkSession") -> None:
    given = rows(
        spark,
        row(0, b' {"id": 1, "at": 1700000000, "inner": {"a": 2}} \n'),
        row(1, b'{"id": 2, "new": 5.10, "inner": {"a": 2, "newer": {}}}'),
    )
    one, two = transforms.typed(given, STRICT).orderBy("id").collect()
    assert (one._rescued_data, one.inner.a, one.at) == (None, 2, datetime(2023, 11, 14, 22, 13, 20))  # noqa: DTZ001 - as Spark hands it out
    assert two._rescued_data == '{"new":5.10,"inner":{"newer":{}}}'
    assert transforms.quarantine(given, STRICT).collect() == []
    named = transforms.typed(given, replace(STRICT, rescued="left_over"))
    assert "left_over" in named.columns


def test_a_body_that_is_not_of_the_schema_ends_a_job_that_says_fail(spark: "SparkSession") -> None:
    given = rows(spark, row(0, b'{"id": 1}'), row(7, b'{"id": "x"}'))
    with pytest.raises(PythonException, match=r"field id is \"x\", not an integer \(topic t, broker b, queue"):
        transforms.typed(given, STRICT, transforms.FAIL).collect()


def test_two_columns_of_one_name_are_refused(spark: "SparkSession") -> None:
    given = rows(spark, row(0, b"{}"))
    with pytest.raises(SettingsError, match="two columns _Topic"):
        transforms.typed(given, BodyFormat(schema="_Topic string"))


def test_a_body_that_does_not_inflate_is_quarantined_as_it_is_stored(spark: "SparkSession") -> None:
    given = rows(spark, row(0, b"{}", sys_flag=1))
    (bad,) = transforms.quarantine(given, DDL).collect()
    assert "does not inflate" in bad.reason
    assert bytes(bad.body) == b"{}"
    assert transforms.typed(given, DDL).collect() == []


def test_fields_of_bodies_may_be_called_like_columns_of_messages(spark: "SparkSession") -> None:
    given = rows(spark, row(0, b'{"topic": "mine", "body": "too"}'))
    (one,) = transforms.typed(given, BodyFormat(schema="topic string, body string")).collect()
    assert (one._topic, one.topic, one.body) == ("t", "mine", "too")


def test_views_of_retries_and_dead_letters(spark: "SparkSession") -> None:
    given = rows(
        spark,
        row(0, b"a"),
        row(1, b"b", "%RETRY%g", properties={"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "M1"}, reconsume_times=2),
        row(
            2,
            b"c",
            "%DLQ%g",
            properties={"RETRY_TOPIC": "orders", "DLQ_ORIGIN_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "M2"},
        ),
    )
    (again,) = transforms.retries(given).collect()
    assert (again.consumer_group, again.origin_topic, again.origin_message_id) == ("g", "orders", "M1")
    (dead,) = transforms.dead_letters(given).collect()
    assert (dead.consumer_group, dead.origin_topic, dead.origin_message_id) == ("g", "orders", "M2")


def test_a_replay_marks_its_messages_and_keeps_the_order_of_queues(spark: "SparkSession") -> None:
    given = rows(spark, *(row(offset, b"x", queue=offset % 3) for offset in range(30, 0, -1)))
    how = replay.Replay("r1", {}, topic="again", predicate="queue_offset > 3", tasks=2)
    planned = replay.planned(given, how).collect()
    assert len(planned) == 27
    for queue in range(3):
        offsets = [one.queue_offset for one in planned if one.target_queue == queue]
        assert offsets == sorted(offsets)
        assert len(offsets) == 9
    assert planned[0].properties == {
        "colour": "red",
        "FIREARROW_REPLAY": "r1",
        "FIREARROW_REPLAY_OF": planned[0].row_id,
    }
    assert planned[0].replay_row_id == f"r1/{planned[0].row_id}"
    twice = replay.marked(replay.planned(given, how), "r2").first()
    assert twice is not None
    assert twice.properties["FIREARROW_REPLAY"] == "r2"
    dry = replay.summary(given, how).collect()
    assert [(one.queue_id, one.messages, one.bytes, one.target) for one in dry] == [
        (n, 9, 9, "again") for n in range(3)
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        replay.Replay("", {}, topic="t"),
        replay.Replay("j", {}),
        replay.Replay("j", {}, topic="t", same_topic=True),
        replay.Replay("j", {}, topic="t", tasks=0),
    ],
)
def test_replays_that_say_too_little_are_refused(wrong: replay.Replay) -> None:
    with pytest.raises(SettingsError):
        wrong.checked()


def planted(spark: "SparkSession") -> "Iterator[DataFrame]":
    """Receipts and stored rows with one lost, one duplicate, one late and two reordered messages among 1,000."""
    receipts = [("t", f"u0-{n}", NOON + timedelta(seconds=n), f"k{n % 5}", n // 5) for n in range(1000)]
    order = list(range(1000))
    order[500], order[505] = order[505], order[500]
    stored = [
        row(place, b"x", unique_key=f"u0-{n}", store_timestamp=NOON + timedelta(seconds=n))
        for place, n in enumerate(order)
        if n != 321
    ]
    stored.append(row(1000, b"x", unique_key="u0-77", store_timestamp=NOON + timedelta(seconds=1000)))
    stored[10]["born_timestamp"] = NOON - timedelta(hours=1)
    for one in stored[:10] + stored[11:]:
        one["born_timestamp"] = one["store_timestamp"]
    yield spark.createDataFrame(receipts, audit.RECEIPT_DDL)
    yield rows(spark, *stored)


def test_an_audit_finds_exactly_what_was_planted(spark: "SparkSession") -> None:
    receipts, stored = planted(spark)
    offsets = spark.createDataFrame([("t", "b", 0, "g", 990)], audit.OFFSET_DDL)
    found = audit.findings(receipts, stored, offsets).collect()
    by_kind = {kind: sorted(one.unique_key for one in found if one.kind == kind) for kind in audit.KINDS}
    assert by_kind["lost"] == ["u0-321"]
    assert by_kind["duplicated"] == ["u0-77"]
    assert by_kind["late"] == ["u0-10"]
    assert by_kind["reordered"] == ["u0-500"]
    assert len(by_kind["unread"]) == 11
    report = audit.report(audit.findings(receipts, stored, offsets), receipts, stored).collect()
    assert [
        (one.sent, one.stored, one.lost, one.duplicated, one.late, one.reordered, one.unread) for one in report
    ] == [(1000, 1000, 1, 1, 1, 1, 11)]


def test_an_audit_of_a_clean_set_finds_nothing(spark: "SparkSession") -> None:
    receipts, stored = planted(spark)
    kept = stored.where("unique_key not in ('u0-77', 'u0-10', 'u0-500', 'u0-505')")
    some = receipts.where("unique_key not in ('u0-321', 'u0-77', 'u0-10', 'u0-500', 'u0-505')")
    assert audit.findings(some, kept).count() == 0


def test_an_audit_of_a_large_set_finds_exactly_what_was_planted(spark: "SparkSession", tmp_path: Path) -> None:
    verdict = auditset.run(spark, 300_000, tmp_path)
    assert verdict["exact"], verdict
    assert verdict["planted"] == {"lost": 3, "duplicated": 5, "late": 6, "reordered": 4}
