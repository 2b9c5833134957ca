"""Events of Debezium and tombstones as changes of rows: any bytes are a change or a misfit."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructField, StructType

from firearrow.spark.bodies.batches import reader
from firearrow.spark.bodies.body_format import BodyFormat
from firearrow.spark.bodies.debezium import DebeziumEvents
from firearrow.spark.bodies.misfit import DecodedBody, Misfit
from firearrow.spark.bodies.tombstones import Tombstones

ROW = StructType([StructField("id", LongType(), False), StructField("name", StringType(), False)])
EVENTS = DebeziumEvents(ROW.json())
numbers, texts = st.integers(-(1 << 63), (1 << 63) - 1), st.text(st.characters(exclude_categories=["Cs"]))
changed = reader(BodyFormat("debezium", ROW.json()), ("id",))


@given(numbers, texts, st.sampled_from("crud"), numbers, st.booleans(), st.booleans())
def test_an_event_is_the_row_after_it_or_the_key_that_it_deletes(
    key: int, name: str, op: str, moment: int, is_wrapped: bool, has_more: bool
) -> None:
    row: dict[str, Any] = {"id": key, "name": name} | ({"new": [1]} if has_more else {})
    sides = {"before": {"id": key}, "after": None} if op == "d" else {"before": None, "after": row}
    event: Any = {"op": op, "ts_ms": moment, "source": {"lsn": 1}, **sides}
    found = EVENTS.decode(json.dumps({"schema": None, "payload": event} if is_wrapped else event).encode())
    if op == "d":
        assert found == DecodedBody((op, moment, '{"lsn":1}', key, None), None, True)
    else:
        rest = '{"new":[1]}' if has_more else None
        assert found == DecodedBody((op, moment, '{"lsn":1}', key, name), rest, False)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"id": 1}', "it has no field op"),
        ('{"op": "t"}', 'op "t" is about no row'),
        ('{"op": "u", "after": null}', "op u and no row after it"),
        ('{"op": "d", "after": {"id": 1, "name": "x"}}', "op d and no row before it"),
        ('{"op": "c", "after": {"id": 1}}', "name"),
        ('{"op": "c", "ts_ms": "x", "after": {"id": 1, "name": "x"}}', "ts_ms"),
    ],
)
def test_what_is_no_change_of_a_row(body: str, reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        EVENTS.decode(body.encode())


@given(numbers, st.sampled_from([None, b"", b"null"]), st.booleans())
def test_a_message_without_a_body_deletes_the_row_of_its_keys(key: int, body: bytes | None, is_object: bool) -> None:
    found = changed(body, 0, json.dumps({"id": key}, separators=(",", ":")) if is_object else str(key))
    assert found == DecodedBody((None, None, None, key, None), None, True)


@given(texts.filter(bool))
def test_a_key_of_text_is_what_the_keys_say(key: str) -> None:
    decode = Tombstones(ROW, ("name",)).decode
    if not key.startswith("{"):
        assert decode(key).values == (None, key)
    assert decode(json.dumps({"name": key})).values == (None, key)


def test_tombstones_that_name_no_row() -> None:
    assert changed(b"", 0, None) == "the body is empty, and no KEYS say which row is to be deleted"
    assert "id" in str(changed(None, 0, "words"))
    with pytest.raises(Misfit, match="not an object with every column of the key"):
        Tombstones(ROW, ("id", "name")).decode("17")
    assert changed(b'{"op":"d","before":{"name":"x"}}', 0, None) == (
        "field id is a part of the key and must not be null, missing or NaN"
    )


@given(st.binary() | st.text().map(str.encode) | st.recursive(st.none() | numbers | texts, st.lists).map(
    lambda value: json.dumps({"op": "u", "after": value}).encode()
), texts)  # fmt: skip
def test_any_bytes_are_a_change_or_a_reason(body: bytes, keys: str) -> None:
    assert isinstance(changed(body, 0, keys), DecodedBody | str)
