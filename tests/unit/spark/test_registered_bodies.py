"""Bodies with the id of a registered schema in front: evolution, rescued fields, faulty bodies, a failing registry."""

import base64
import json
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from firearrow.cli.jobs.body_options import BodyOptions, body_format_of
from firearrow.errors import SettingsError
from firearrow.spark.bodies.misfit import Misfit
from tests.property.spark.test_binary_bodies import Newer, descriptors
from tests.spark.registry_server import RegistryServer

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("pyspark")

from firearrow.spark.bodies.body_format import BodyFormat, decoder, resolved  # noqa: E402
from firearrow.spark.bodies.registry import RegistryUnreachable, without_user  # noqa: E402

INNER_OLD = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "int"}]}
INNER_NEW = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
}


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


OLD = record({"name": "id", "type": "int"}, {"name": "inner", "type": INNER_OLD})
NEW = record(
    {"name": "id", "type": "long"},
    {"name": "inner", "type": INNER_NEW},
    {"name": "more", "type": {"type": "array", "items": "double"}},
    {"name": "item", "type": ["null", "string"], "default": None},
)
READER = record(
    {"name": "id", "type": "long"},
    {"name": "inner", "type": INNER_OLD},
    {"name": "item", "type": "string", "default": "none"},
)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer().serving() as server:
        yield server


def framed(number: int, datum: bytes) -> bytes:
    return struct.pack(">BI", 0, number) + datum


def datum(schema: str, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def test_avro_of_older_and_newer_writers_becomes_rows_of_the_reader(registry: RegistryServer) -> None:
    old, new = registry.register("orders-value", OLD), registry.register("orders-value", NEW)
    made = decoder(resolved(BodyFormat("avro", READER, registry=registry.url)))
    assert made.schema.simpleString() == "struct<id:bigint,inner:struct<a:int>,item:string>"
    first = made.decode(framed(old, datum(OLD, {"id": 1, "inner": {"a": 2}})))
    assert first == ((1, {"a": 2}, "none"), None, False)
    value = {"id": 3, "inner": {"a": 4, "b": "left"}, "more": [1.5], "item": "tea"}
    second = made.decode(framed(new, datum(NEW, value)))
    assert second.values == (3, {"a": 4}, "tea")
    assert json.loads(second.rescued or "") == {"inner": {"b": "left"}, "more": [1.5]}
    made.decode(framed(new, datum(NEW, value)))
    assert registry.asked.count(f"/schemas/ids/{new}") == 1


def test_the_latest_schema_of_a_subject_is_the_reader_s(registry: RegistryServer) -> None:
    registry.register("orders-value", OLD)
    how = resolved(BodyFormat("avro", registry=registry.url, subject="orders-value"))
    assert how.schema == OLD
    with pytest.raises(SettingsError, match="has no subject nothing"):
        resolved(BodyFormat("avro", registry=registry.url, subject="nothing"))
    with pytest.raises(SettingsError, match="--body-schema-file, or --registry and --subject"):
        BodyFormat("avro").checked()


def test_what_is_wrong_with_a_body_and_what_with_the_registry(registry: RegistryServer) -> None:
    number = registry.register("orders-value", OLD)
    foreign = registry.register("other", "{}", "JSON")
    unlike = registry.register("unlike", record({"name": "id", "type": "string"}, {"name": "inner", "type": INNER_OLD}))
    made = decoder(resolved(BodyFormat("avro", READER, registry=registry.url)))
    good = datum(OLD, {"id": 1, "inner": {"a": 2}})
    for body, reason in (
        (b"\x00\x00", "does not begin with the id"),
        (b"\x01" + framed(number, good)[1:], "does not begin with the id"),
        (framed(99, good), "no schema with the id 99"),
        (framed(foreign, good), "is JSON, not AVRO"),
        (framed(number, good + b"!"), "goes on after its Avro value"),
        (framed(number, good[:-1]), "not Avro of its schema"),
        (framed(unlike, datum(json.dumps("string"), "x") + b"\x02"), "does not become the reader's"),
    ):
        with pytest.raises(Misfit, match=reason):
            made.decode(body)
    late = registry.register("orders-value", NEW)
    registry.failures = 1
    body = framed(late, datum(NEW, {"id": 3, "inner": {"a": 4, "b": ""}, "more": [], "item": None}))
    with pytest.raises(RegistryUnreachable, match="answered /schemas/ids/4 with 500"):
        made.decode(body)
    with pytest.raises(Misfit, match="does not become the reader's"):  # null is no text
        made.decode(body)
    elsewhere = decoder(resolved(BodyFormat("avro", READER, registry="http://127.0.0.1:9")))
    with pytest.raises(RegistryUnreachable, match="check its address"):
        elsewhere.decode(framed(number, good))
    with pytest.raises(SettingsError, match="give its address as http"):
        decoder(resolved(BodyFormat("avro", READER, registry="registry:8081")))


def test_protobuf_of_a_registered_schema(registry: RegistryServer) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    (file,) = FileDescriptorSet.FromString(descriptors()).file
    number = registry.register("orders-value", base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    given = BodyFormat("protobuf", message="shop.Order", registry=registry.url, subject="orders-value")
    made = decoder(resolved(given))
    body = Newer(id=7, item="tea", extra=5).SerializeToString()
    found = made.decode(framed(number, b"\x02\x04" + body))
    assert found.values[:2] == (7, "tea")
    assert found.rescued == '{"9": [5]}'
    with pytest.raises(Misfit, match=r"message \[0\] of its schema's file, and shop.Order is \[2\]"):
        made.decode(framed(number, b"\x00" + body))


def test_json_of_a_registered_schema_is_what_follows_the_id(registry: RegistryServer) -> None:
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{}}]}'
    made = decoder(resolved(BodyFormat("json", schema, registry=registry.url)))
    assert made.decode(framed(1, b'{"id": 5}')).values == (5,)
    with pytest.raises(Misfit, match="does not begin with the id"):
        made.decode(b'{"id": 5}')


def test_what_is_said_about_bodies(tmp_path: Path, registry: RegistryServer) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(OLD)
    assert body_format_of(BodyOptions("json", "", None, "", "", "", "_r"), "t") is None
    avro = body_format_of(BodyOptions("avro", "", file, "", "", "", "_r"), "t")
    assert avro == BodyFormat("avro", OLD, "_r")
    registry.register("orders-value", NEW)
    asked = body_format_of(BodyOptions("avro", "", None, "", registry.url, "", "_r"), "orders")
    assert asked == BodyFormat("avro", NEW, "_r", "", registry.url, "orders-value")
    packed = body_format_of(BodyOptions("protobuf", "", file, "shop.Order", "", "", "_r"), "t")
    assert packed is not None
    assert base64.b64decode(packed.schema) == OLD.encode()
    file.write_bytes(b"\xff")
    for given, reason in (
        (BodyOptions("debezium", "", None, "", "", "", "_r"), "debezium bodies need --body-schema"),
        (BodyOptions("avro", "", file, "", "", "", "_r"), "--body-schema-file cannot be read"),
        (BodyOptions("avro", "", tmp_path / "none", "", "", "", "_r"), "--body-schema-file cannot be read"),
        (BodyOptions("avro", "", None, "", "http://h:1", "", "_r"), "--registry and --subject"),
        (BodyOptions("avro", OLD, None, "shop.Order", "", "", "_r"), "give --body-format protobuf too"),
        (BodyOptions("xml", OLD, None, "", "", "", "_r"), "--body-format is one of"),
    ):
        with pytest.raises(SettingsError, match=reason):
            body_format_of(given, "")


def test_passwords_of_registries_are_not_noted() -> None:
    assert without_user("https://user:se%40cret@host:8081/path") == "https://host:8081/path"
    assert without_user("") == ""
