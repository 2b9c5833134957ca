"""Bodies that no decoder expects go to the quarantine with a reason: one body does not stop an archive."""

import base64
import json
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import any_pb2, struct_pb2
from google.protobuf import descriptor_pb2 as proto
from pyspark.sql import types as T  # noqa: N812 - the name everyone uses

from firearrow.spark.bodies import avro_bodies
from firearrow.spark.bodies.avro_bodies import AvroBodies
from firearrow.spark.bodies.batches import TypedRows, reader
from firearrow.spark.bodies.body_format import BodyFormat, decoder
from firearrow.spark.bodies.json_bodies import JsonBodies
from firearrow.spark.bodies.protobuf_bodies import ProtobufBodies
from firearrow.spark.bodies.registry import RegisteredSchema

F = proto.FieldDescriptorProto


def of_json(kind: T.DataType) -> BodyFormat:
    return BodyFormat(schema=T.StructType([T.StructField("id", T.LongType()), T.StructField("price", kind)]).json())


def descriptors() -> proto.FileDescriptorSet:
    made = proto.FileDescriptorSet()
    imports = ["google/protobuf/any.proto", "google/protobuf/struct.proto"]
    file = made.file.add(name="o.proto", package="shop", syntax="proto2", dependency=imports)
    file.message_type.add(name="Line").field.add(name="sku", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    order.field.add(name="name", number=2, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    entry = order.nested_type.add(name="ByEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    for message, number, name, kind, label in (
        (order, 4, "any", ".google.protobuf.Any", F.LABEL_OPTIONAL),
        (order, 5, "value", ".google.protobuf.Value", F.LABEL_OPTIONAL),
        (order, 3, "by", ".shop.Order.ByEntry", F.LABEL_REPEATED),
        (entry, 2, "value", ".shop.Line", F.LABEL_OPTIONAL),
    ):
        message.field.add(name=name, number=number, type=F.TYPE_MESSAGE, type_name=kind, label=label)
    return made


DESCRIPTORS = base64.b64encode(descriptors().SerializeToString()).decode()
PROTOBUF = BodyFormat("protobuf", DESCRIPTORS, message="shop.Order")
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
AVRO = BodyFormat("avro", json.dumps({"type": "record", "name": "O", "fields": [{"name": "p", "type": PRICE}]}))


def inside(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def any_of(message: str, value: bytes = b"") -> bytes:
    return inside(4, any_pb2.Any(type_url=f"type.googleapis.com/{message}", value=value).SerializeToString())


@pytest.mark.parametrize(
    ("how", "body", "told"),
    [
        (of_json(T.StringType()), b'{"id":1,"more":' + b'{"a":' * 500 + b"1" + b"}" * 501, "nested too deeply"),
        (of_json(T.StringType()), b'{"price":' + b'{"a":' * 500 + b"1" + b"}" * 501, "nested too deeply"),
        (of_json(T.DecimalType(10, 2)), b'{"price":1e9999999999999999999}', "cannot be read"),
        (of_json(T.DecimalType(10, 2)), b'{"price":"1e9999999999999999999"}', "cannot be read"),
        (of_json(T.DateType()), b'{"price":"2026-W18-5"}', "not a date"),
        (of_json(T.TimestampType()), b'{"price":"2026-05-01x12"}', "not a time"),
        (AVRO, b"\x08" + (12345).to_bytes(4, "big"), "does not fit decimal"),
        (PROTOBUF, any_of("x.Y"), "no form in JSON"),
        (PROTOBUF, inside(5, struct_pb2.Value(number_value=float("nan")).SerializeToString()), "no form in JSON"),
        (PROTOBUF, inside(2, b"\xff\xfe"), "no UTF-8"),
    ],
)
def test_a_strange_body_is_a_fault_of_its_own(how: BodyFormat, body: bytes, told: str) -> None:
    found = reader(how, ())(body, 0, None)
    assert isinstance(found, str)
    assert told in found
    made = T.StructType([T.StructField("_rescued_data", T.StringType()), *decoder(how).schema.fields])
    batch = pa.RecordBatch.from_pydict({"body": [body], "sys_flag": [0], "keys": [None]})
    assert [rows.num_rows for rows in TypedRows(how, (), {}, made)([batch])] == [0]


def test_a_key_is_no_nan() -> None:
    read = reader(of_json(T.DoubleType()), ("price",))
    assert "must not be null, missing or NaN" in str(read(b'{"price":"NaN"}', 0, None))


def test_a_message_inside_of_any_is_found_in_the_descriptor_set() -> None:
    found = ProtobufBodies(DESCRIPTORS, "shop.Order").decode(any_of("shop.Line", b"\x0a\x01a"))
    assert '{"@type": "type.googleapis.com/shop.Line", "sku": "a"}' in found.values


def test_unknown_fields_in_values_of_a_map_are_rescued() -> None:
    line = b"\x0a\x01a\x48\x07"  # sku "a", and field 9 = 7
    found = ProtobufBodies(DESCRIPTORS, "shop.Order").decode(inside(3, b"\x0a\x01k" + inside(2, line)))
    assert json.loads(found.rescued or "") == {"by": {"k": {"9": [7]}}}


def test_unknown_fields_in_a_union_of_several_types_are_rescued(monkeypatch: pytest.MonkeyPatch) -> None:
    def schema(names: str) -> str:
        inner = {"type": "record", "name": "A", "fields": [{"name": name, "type": "int"} for name in names]}
        return json.dumps({"type": "record", "name": "O", "fields": [{"name": "u", "type": ["null", inner, "string"]}]})

    class Registry:
        def __init__(self, _url: str) -> None: ...

        def by_id(self, _number: int) -> RegisteredSchema:
            return RegisteredSchema(schema("ax"))

    monkeypatch.setattr(avro_bodies, "SchemaRegistry", Registry)
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(json.loads(schema("ax"))), {"u": {"a": 1, "x": 42}})
    found = AvroBodies(schema("a"), "http://registry").decode(b"\0\0\0\0\1" + data.getvalue())
    assert json.loads(found.rescued or "") == {"u": {"a": 1, "x": 42}}


def test_times_are_cut_to_microseconds_and_doubles_are_the_nearest() -> None:
    read = JsonBodies(T.StructType([T.StructField("t", T.TimestampType()), T.StructField("d", T.DoubleType())]).json())
    time, number = read.decode(b'{"t":"2026-05-01T12:00:00.123456789Z","d":9007199254740993}').values
    assert (time.microsecond, number) == (123456, 9007199254740992.0)
