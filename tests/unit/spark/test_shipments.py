"""Shipments to each queue: the rows that travel together, their order, and the rows that travel alone."""

import struct

import pyarrow as pa
import pytest

from firearrow.client.producer.encoded import DrawnKeys, EncodedBatch
from firearrow.errors import IllegalMessage, SettingsError
from firearrow.model import Message, MessageQueue
from firearrow.model.java_hash import java_hash
from firearrow.record.batch import decode_batch
from firearrow.spark.sink.rows import ROW_ID_PROPERTY, Origin, RowShape
from firearrow.spark.sink.shipments import QueueLane, RowTable

ORIGIN = Origin("query", 7, 3)
QUEUES = tuple(MessageQueue("t", "b", number) for number in range(8))
PLAIN = RowShape("t")
ROOMY = 1 << 20
STRINGS = pa.map_(pa.string(), pa.string())


def drawn(count: int) -> DrawnKeys:
    return DrawnKeys(1_700_000_000_000, "AC1E", struct.pack(f">{count}H", *range(count)).hex().upper().encode())


def lanes(
    shape: RowShape = PLAIN, queues: tuple[MessageQueue, ...] = QUEUES, room: int = ROOMY, **columns: object
) -> list[QueueLane]:
    table = RowTable(pa.RecordBatch.from_pydict(columns), shape, ORIGIN, 0)
    return table.lanes({"t": queues, "u": (MessageQueue("u", "b", 0),)}, drawn(len(table)), room)


def unpacked(lane: QueueLane) -> list[list[Message]]:
    """The messages of each parcel, without the unique keys that they have."""
    found = []
    for parcel in lane.parcels:
        content = parcel.content
        messages = decode_batch(content.body, content.topic) if isinstance(content, EncodedBatch) else [content]
        plain = []
        for message in messages:
            properties = dict(message.properties)
            assert properties.pop("UNIQ_KEY").startswith("AC1E")
            plain.append(Message(message.topic, message.body, properties))
        found.append(plain)
        assert parcel.rows == len(found[-1])
    return found


def bodies(lane: QueueLane) -> list[list[bytes]]:
    return [[message.body for message in parcel] for parcel in unpacked(lane)]


def test_rows_go_to_their_queues_in_order() -> None:
    found = lanes(body=[b"%d" % number for number in range(6)], target_queue=[0, 1, 8, 9, 16, 1])
    assert {lane.queue.queue_id: bodies(lane) for lane in found} == {0: [[b"0", b"2", b"4"]], 1: [[b"1", b"3", b"5"]]}


def test_every_part_is_in_the_batch() -> None:
    (lane,) = lanes(
        queues=QUEUES[:1],
        body=["a", "b"],
        keys=[["k1", "k2"], None],
        tags=["red", ""],
        sharding_key=["s", None],
        row_id=["r1", "r2"],
        properties=pa.array([[("TAGS", "old"), ("x", "y"), ("UNIQ_KEY", "old")], [("TAGS", "kept")]], STRINGS),
    )
    assert unpacked(lane) == [
        [
            Message("t", b"a", {"x": "y", "KEYS": "k1 k2", "TAGS": "red", "__SHARDINGKEY": "s", ROW_ID_PROPERTY: "r1"}),
            Message("t", b"b", {"TAGS": "kept", ROW_ID_PROPERTY: "r2"}),
        ]
    ]


def test_the_queue_follows_from_the_target_the_sharding_key_or_the_identity() -> None:
    ids = [str(number) for number in range(200)]
    by_identity = lanes(body=ids, row_id=ids)
    assert len(by_identity) == 8
    again = lanes(body=["other"] * 200, row_id=ids)
    assert [sum(parcel.rows for parcel in lane.parcels) for lane in again] == [
        sum(parcel.rows for parcel in lane.parcels) for lane in by_identity
    ]
    (by_key,) = lanes(body=["a", "b"], sharding_key=["shop-1", "shop-1"])
    assert by_key.queue == QUEUES[abs(java_hash("shop-1")) % 8]
    properties = pa.array([[("__SHARDINGKEY", "shop-1")]], STRINGS)
    (mapped,) = lanes(body=["a"], properties=properties)
    assert mapped.queue == by_key.queue
    (both,) = lanes(body=["a"], properties=properties, sharding_key=["shop-2"])
    assert both.queue == QUEUES[abs(java_hash("shop-2")) % 8]
    (asked,) = lanes(body=["a"], properties=properties, target_queue=[-1])
    assert asked.queue == QUEUES[7]


def test_rows_that_are_delayed_travel_alone_between_the_others() -> None:
    (lane,) = lanes(queues=QUEUES[:1], body=["a", "b", "c", "d", "e"], delay_level=[0, None, 3, 0, 0])
    assert bodies(lane) == [[b"a", b"b"], [b"c"], [b"d", b"e"]]
    assert unpacked(lane)[1][0].properties["DELAY"] == "3"
    alone = lane.parcels[1].content
    assert isinstance(alone, Message)
    assert alone.properties["UNIQ_KEY"] == "AC1E0002", "the one of its row, however often it is sent"


def test_rows_of_one_wait_travel_together() -> None:
    waits = ["false", "false", None, None, "false"]
    properties = pa.array([[("WAIT", wait)] if wait else [("a", "b")] for wait in waits], STRINGS)
    (lane,) = lanes(queues=QUEUES[:1], body=["a", "b", "c", "d", "e"], properties=properties)
    assert bodies(lane) == [[b"a", b"b"], [b"c", b"d"], [b"e"]]
    said = [parcel.content.wait for parcel in lane.parcels if isinstance(parcel.content, EncodedBatch)]
    assert said == ["false", None]


def test_a_full_batch_is_followed_by_another_and_a_large_row_travels_alone() -> None:
    rows = [b"x" * 50] * 5 + [b"y" * 2000] + [b"z" * 50] * 2
    (lane,) = lanes(queues=QUEUES[:1], room=400, body=rows)
    found = [len(parcel) for parcel in bodies(lane)]
    assert sum(found) == 8
    assert [body for parcel in bodies(lane) for body in parcel] == rows
    assert [b"y" * 2000] in bodies(lane)
    encoded = [len(parcel.content.body) for parcel in lane.parcels if isinstance(parcel.content, EncodedBatch)]
    assert encoded
    assert max(encoded) <= 400


def test_topics_of_a_column_have_queues_of_their_own() -> None:
    found = lanes(RowShape(), body=["a", "b", "c", "d"], topic=["t", "u", "u", "t"], target_queue=[1, 5, 5, 1])
    assert {lane.queue: bodies(lane) for lane in found} == {
        QUEUES[1]: [[b"a", b"d"]],
        MessageQueue("u", "b", 0): [[b"b", b"c"]],
    }


def test_retry_topics_take_no_batches() -> None:
    queue = MessageQueue("%RETRY%g", "b", 0)
    for shape in (RowShape(), RowShape("%RETRY%g")):
        rows = pa.RecordBatch.from_pydict({"body": ["a", "b"], "topic": ["%RETRY%g"] * 2})
        table = RowTable(rows, shape, ORIGIN, 0)
        assert table.topics == ["%RETRY%g"]
        (lane,) = table.lanes({"%RETRY%g": (queue,)}, drawn(2), ROOMY)
        assert [parcel.rows for parcel in lane.parcels] == [1, 1]


def test_what_no_broker_could_store_is_refused() -> None:
    for columns in (
        {"tags": ["a\x01b", "c"]},
        {"properties": pa.array([None, [("a", "b"), ("bad", "\x00")]], STRINGS)},
        {"row_id": ["a", "b\x02"]},
    ):
        with pytest.raises(IllegalMessage, match="holds a character 0, 1 or 2"):
            lanes(body=["x", "y"], **columns)
    with pytest.raises(IllegalMessage, match="'bad' holds"):
        lanes(body=["x"], properties=pa.array([[("a", "b"), ("bad", "\x02")]], STRINGS))
    with pytest.raises(IllegalMessage, match="properties take"):
        lanes(body=["x", "y"], keys=["k" * 40_000, "k"])
    with pytest.raises(SettingsError, match="it takes a map"):
        lanes(body=["x"], properties=["no map"])


def test_no_rows_are_nothing_to_send() -> None:
    table = RowTable(pa.RecordBatch.from_pydict({"body": pa.array([], pa.binary())}), RowShape("t"), ORIGIN, 0)
    assert table.lanes({"t": QUEUES}, drawn(0), ROOMY) == []
