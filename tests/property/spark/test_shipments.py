"""Every row is sent once, to the queue that the rule names for it, in its order, as the message that it is."""

import struct
from hashlib import blake2b
from zlib import crc32

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.client.producer.encoded import DrawnKeys
from firearrow.client.producer.selector import queue_of_key
from firearrow.model import Message, MessageQueue
from firearrow.record.batch import decode_batch
from firearrow.spark.sink.rows import (
    CUT_OFF,
    EVERY_TAG,
    NOT_TAKEN_OVER,
    ROW_ID_PROPERTY,
    TAG_SEPARATOR,
    Origin,
    RowShape,
)
from firearrow.spark.sink.shipments import QueueLane, RowTable

few = settings(max_examples=150, deadline=None)
ORIGIN = Origin("q", 1, 2)
FIRST = 90
TOPICS = {"t": 3, "u": 5, "%RETRY%g": 2}
QUEUES = {topic: tuple(MessageQueue(topic, "b", number) for number in range(n)) for topic, n in TOPICS.items()}
STRINGS = pa.map_(pa.string(), pa.string())
texts = st.none() | st.text(st.characters(codec="utf-8", min_codepoint=3), max_size=6)


def is_plain(tag: str) -> bool:
    """Whether a subscription can name a tag."""
    return tag == tag.strip(CUT_OFF) and tag != EVERY_TAG and TAG_SEPARATOR not in tag


ROW = {
    "topic": (st.sampled_from(sorted(TOPICS)), pa.string()),
    "body": (st.binary(max_size=60), pa.binary()),
    "keys": (st.none() | st.lists(st.text("kä", min_size=1), max_size=3), pa.list_(pa.string())),
    "tags": (texts.filter(lambda tag: tag is None or is_plain(tag)), pa.string()),
    "sharding_key": (texts, pa.string()),
    "delay_level": (st.sampled_from([None, 0, 0, 0, 3]), pa.int32()),
    "properties": (
        st.none()
        | st.dictionaries(st.sampled_from(["a", "TAGS", "WAIT", "__SHARDINGKEY", "UNIQ_KEY"]), texts).filter(
            lambda properties: is_plain(properties.get("TAGS") or "")
        ),
        STRINGS,
    ),
    "row_id": (texts, pa.string()),
    "target_queue": (st.none() | st.integers(-9, 9), pa.int32()),
}
Row = dict[str, object]


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Rows with some of the columns."""
    names = ["topic", "body", *sorted(draw(st.sets(st.sampled_from(sorted(ROW)))) - {"topic", "body"})]
    rows: st.SearchStrategy[Row] = st.fixed_dictionaries({name: ROW[name][0] for name in names}).map(dict)
    return draw(st.lists(rows, min_size=1, max_size=20, unique_by=told_apart))


def told_apart(row: Row) -> object:
    """Rows that may stand in a batch once: rows that share a row_id and a body are refused."""
    return (row["row_id"], row["body"] or b"") if row.get("row_id") else object()


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        listed = [list(value.items()) if isinstance(value, dict) else value for value in values]
        columns[name] = pa.array(listed, ROW[name][1])
    return pa.RecordBatch.from_pydict(columns)


def expected_message(row: Row, number: int) -> Message:
    """The message of one row, in plain Python."""
    body, topic, given = row["body"], row["topic"], row.get("properties")
    assert isinstance(body, bytes)
    assert isinstance(topic, str)
    properties: dict[str, str] = {}
    if isinstance(given, dict):
        properties = {name: value for name, value in given.items() if value and name not in NOT_TAKEN_OVER}
    words, delay = row.get("keys"), row.get("delay_level")
    parts = {
        "KEYS": " ".join(words) if isinstance(words, list) else None,
        "TAGS": row.get("tags"),
        "__SHARDINGKEY": row.get("sharding_key"),
        "DELAY": str(delay) if delay else None,
    }
    properties |= {name: value for name, value in parts.items() if isinstance(value, str) and value}
    made = f"q:1:2:{FIRST + number}:{blake2b(body, digest_size=8).hexdigest()}"
    properties[ROW_ID_PROPERTY] = str(row.get("row_id") or made)
    return Message(topic, body, properties)


def expected_queue(row: Row, message: Message) -> MessageQueue:
    queues, wanted = QUEUES[message.topic], row.get("target_queue")
    if isinstance(wanted, int):
        return queues[wanted % len(queues)]
    key = message.properties.get("__SHARDINGKEY")
    if key:
        return queue_of_key(queues, key)
    return queues[crc32(message.properties[ROW_ID_PROPERTY].encode()) % len(queues)]


def unpacked(lane: QueueLane, keys: list[str]) -> list[Message]:
    """The messages of a lane without their unique keys, which are noted."""
    found: list[Message] = []
    for parcel in lane.parcels:
        content = parcel.content
        is_alone = isinstance(content, Message)
        for message in [content] if isinstance(content, Message) else decode_batch(content.body, content.topic):
            properties = dict(message.properties)
            keys.append(properties.pop("UNIQ_KEY"))
            assert message.topic == lane.queue.topic
            assert is_alone or not ("DELAY" in properties or message.topic.startswith("%RETRY%"))
            assert isinstance(content, Message) or properties.get("WAIT") == content.wait
            found.append(Message(message.topic, message.body, properties))
    return found


@few
@given(tables(), st.sampled_from([200, 1 << 20]), st.booleans())
def test_lanes_are_what_each_row_says(rows: list[Row], room: int, by_column: bool) -> None:
    if not by_column:
        rows = [row | {"topic": "t"} for row in rows]
    count = len(rows)
    table = RowTable(batch_of(rows), RowShape() if by_column else RowShape("t"), ORIGIN, FIRST)
    ends = struct.pack(f">{count}H", *range(count)).hex().upper().encode()
    lanes = table.lanes(QUEUES, DrawnKeys(7, "KEY", ends), room)
    expected: dict[MessageQueue, list[Message]] = {}
    for number, row in enumerate(rows):
        message = expected_message(row, number)
        expected.setdefault(expected_queue(row, message), []).append(message)
    keys: list[str] = []
    assert {lane.queue: unpacked(lane, keys) for lane in lanes} == expected
    assert len(lanes) == len(expected)
    assert sorted(keys) == [f"KEY{number:04X}" for number in range(count)]
