"""Bodies of messages as rows: any bytes are a row or a misfit, in every format, and what is rescued is JSON again."""

import base64
import json

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.spark.bodies.avro_bodies import AvroBodies
    from firearrow.spark.bodies.debezium import DebeziumEvents
    from firearrow.spark.bodies.json_bodies import JsonBodies
    from firearrow.spark.bodies.misfit import Misfit
    from firearrow.spark.bodies.protobuf_bodies import ProtobufBodies
    from firearrow.spark.bodies.strict_json import parse

from tests.property.spark.test_binary_bodies import ORDER, descriptors

KINDS = {
    "id": "long", "size": "float", "price": "decimal(9,2)", "at": "timestamp", "day": "date", "raw": "binary",
    "words": {"type": "array", "elementType": "string", "containsNull": False},
}  # fmt: skip
FIELDS = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in KINDS.items()]
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS})
DECODERS = (
    JsonBodies(SCHEMA),
    DebeziumEvents(SCHEMA),
    AvroBodies(json.dumps(ORDER)),
    ProtobufBodies(base64.b64encode(descriptors()).decode(), "shop.Order"),
)
SEEDS = (
    b'\x00{"id": 1, "size": 2.5, "price": 12.34, "at": "2026-05-01T12:00:00Z", "day": "2026-05-01", "new": [1e400]}',
    b'\x01{"op":"u","ts_ms":5,"source":{},"after":{"id":1,"words":["a"]},"before":null}',
    b'\x01{"schema":{},"payload":{"op":"d","before":{"id":1,"raw":"aGk="}}}',
    b"\x02\x0a\x00\x02\x01\x00\x00\x00\x00\x00",
    b"\x03\x08\x05\x12\x03tea\x48\x05",
)


def target(data: bytes) -> None:
    if not data:
        return
    try:
        found = DECODERS[data[0] % len(DECODERS)].decode(data[1:])
    except Misfit:
        return
    if found.rescued is not None:
        parse(found.rescued.encode())


if __name__ == "__main__":
    run(target, seeds=SEEDS)
