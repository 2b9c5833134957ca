"""Avro and Protobuf bodies: read as they were written, unknown fields rescued, any other bytes a misfit."""

import base64
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firearrow.errors import SettingsError
from firearrow.spark.bodies.misfit import DecodedBody, Misfit

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("pyspark")
pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

from google.protobuf import message_factory  # noqa: E402

from firearrow.spark.bodies.avro_bodies import AvroBodies  # noqa: E402
from firearrow.spark.bodies.protobuf_bodies import ProtobufBodies, descriptor_of, message_indexes  # noqa: E402

LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "labels", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "any", "type": ["null", "string", "long"], "default": None},
    ],
}
NEW_YEAR = datetime(1970, 1, 1, tzinfo=UTC)
orders = st.fixed_dictionaries(
    {
        "id": st.integers(-(1 << 63), (1 << 63) - 1),
        "item": st.none() | st.text(max_size=5),
        "price": st.decimals(-(10**9), 10**9, places=2, allow_nan=False),
        "at": st.integers(0, 4_000_000_000_000).map(lambda ms: NEW_YEAR + timedelta(milliseconds=ms)),
        "lines": st.lists(st.fixed_dictionaries({"sku": st.text(max_size=3), "count": st.integers(-9, 9)}), max_size=3),
        "labels": st.dictionaries(st.text(max_size=3), st.none() | st.floats(allow_nan=False), max_size=3),
        "kind": st.sampled_from(["NEW", "OLD"]),
        "any": st.none() | st.text(max_size=3) | st.integers(0, 9),
    }
)  # fmt: skip
AVRO = AvroBodies(json.dumps(ORDER))


def written(value: Any, schema: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


@given(orders)
def test_an_avro_value_is_read_as_it_was_written(order: dict[str, Any]) -> None:
    found = dict(zip(AVRO.schema.fieldNames(), AVRO.decode(written(order, ORDER)).values, strict=True))
    assert dict(found.pop("labels")) == order["labels"]
    other = found.pop("any")
    assert (None if other is None else json.loads(other)) == order["any"]
    assert found == {name: value for name, value in order.items() if name not in ("labels", "any")}


@given(orders, st.binary(min_size=1, max_size=4))
def test_bytes_behind_an_avro_value_are_a_misfit(order: dict[str, Any], tail: bytes) -> None:
    with pytest.raises(Misfit, match="goes on after its Avro value"):
        AVRO.decode(written(order, ORDER) + tail)


@given(st.binary(max_size=60))
@example(b"")
@example(b"\xff" * 12)
def test_any_bytes_are_an_avro_row_or_a_misfit(body: bytes) -> None:
    try:
        found = AVRO.decode(body)
    except Misfit:
        return
    assert isinstance(found, DecodedBody)


def file(name: str, newer: bool) -> Any:
    made = pb2.FileDescriptorProto(name=f"{name}.proto", package="shop", syntax="proto3")
    made.dependency.append("google/protobuf/timestamp.proto")
    made.message_type.add(name="Other")
    line = made.message_type.add(name="Line")
    order = made.message_type.add(name="Order")
    t = pb2.FieldDescriptorProto
    for owner, fields in (
        (line, [("sku", 1, t.TYPE_STRING, 1, ""), ("count", 2, t.TYPE_INT32, 1, "")]),
        (order, [("id", 1, t.TYPE_UINT64, 1, ""), ("item", 2, t.TYPE_STRING, 1, ""),
                 ("lines", 3, t.TYPE_MESSAGE, 3, ".shop.Line"),
                 ("at", 4, t.TYPE_MESSAGE, 1, ".google.protobuf.Timestamp"), ("raw", 5, t.TYPE_BYTES, 1, "")]),
    ):  # fmt: skip
        for word, number, kind, label, of in fields:
            owner.field.add(name=word, number=number, type=kind, label=label, type_name=of or None)
        if newer:
            owner.field.add(name="extra", number=9, type=t.TYPE_INT64, label=1)
            owner.field.add(name="words", number=10, type=t.TYPE_STRING, label=3)
    return made


def descriptors(newer: bool = False) -> bytes:
    found: bytes = pb2.FileDescriptorSet(file=[file("orders", newer)]).SerializeToString()
    return found


PROTOBUF = ProtobufBodies(base64.b64encode(descriptors()).decode(), "shop.Order")
Newer = message_factory.GetMessageClass(descriptor_of(descriptors(newer=True), "shop.Order"))


@given(
    st.integers(0, (1 << 64) - 1), st.text(max_size=5), st.lists(st.integers(-9, 9), max_size=3),
    st.integers(0, 1 << 33), st.binary(max_size=4), st.integers(0, 5), st.lists(st.text(max_size=3), max_size=2),
)  # fmt: skip
def test_a_protobuf_message_is_read_as_it_was_written_and_unknown_fields_are_rescued(
    number: int, item: str, counts: list[int], seconds: int, raw: bytes, extra: int, words: list[str]
) -> None:
    message = Newer(id=number, item=item, raw=raw, extra=extra, words=words)
    for count in counts:
        message.lines.add(sku="s", count=count, extra=extra)
    message.at.seconds = seconds
    found = PROTOBUF.decode(message.SerializeToString())
    assert found.values[0] == Decimal(number)
    assert found.values[1] == item
    assert found.values[2] == [{"sku": "s", "count": count} for count in counts]
    assert found.values[3].timestamp() == seconds
    assert found.values[4] == raw
    rest: dict[str, Any] = {}
    if extra:
        rest["9"] = [extra]
        if counts:
            rest["lines"] = {str(at): {"9": [extra]} for at in range(len(counts))}
    if words:
        rest["10"] = [base64.b64encode(word.encode()).decode() for word in words]
    assert (json.loads(found.rescued) if found.rescued else {}) == rest


@given(st.binary(max_size=60))
def test_any_bytes_are_a_protobuf_row_or_a_misfit(body: bytes) -> None:
    try:
        found = PROTOBUF.decode(body)
    except Misfit:
        return
    assert isinstance(found, DecodedBody)


@pytest.mark.parametrize(("head", "indexes"), [(b"\x00", [0]), (b"\x02\x04", [2]), (b"\x04\x02\x00", [1, 0])])
def test_message_indexes_are_confluent_s(head: bytes, indexes: list[int]) -> None:
    assert message_indexes(head + b"rest") == (indexes, b"rest")


def test_schemas_that_are_none_are_refused() -> None:
    with pytest.raises(SettingsError, match="the Avro schema cannot be read"):
        AvroBodies('{"type": "recrod"}')
    with pytest.raises(SettingsError, match="not a record"):
        AvroBodies('"string"')
    with pytest.raises(SettingsError, match="name one with --body-message"):
        ProtobufBodies(base64.b64encode(descriptors()).decode(), "")
    with pytest.raises(SettingsError, match=r"no message shop\.Nothing"):
        ProtobufBodies(base64.b64encode(descriptors()).decode(), "shop.Nothing")
    with pytest.raises(SettingsError, match="make it with protoc"):
        ProtobufBodies(base64.b64encode(b"no descriptors").decode(), "shop.Order")
