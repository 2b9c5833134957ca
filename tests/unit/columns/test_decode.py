"""Columns of a few records whose values are known."""

import pytest

pytest.importorskip("pyarrow")

import numpy as np

from firearrow.columns import TYPES, Heads, Treatment, batches_of, decode_columns, record_starts, schema_of
from firearrow.columns.decode import as_bytes
from firearrow.errors import BadRecord
from firearrow.model import EpochMs, Host, PhysicalOffset, QueueOffset
from firearrow.record.compression import Codec, compress, with_codec
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.layout import blank
from firearrow.record.properties import StoredProperties
from firearrow.spark.schema import NAMES, row_id

V4 = host_bytes(Host("10.0.0.1", 10911))
V6 = host_bytes(Host("2001:db8::1", 10911))
PROPERTIES = StoredProperties(b"KEYS\x01k1 k2\x02TAGS\x01a\x02UNIQ_KEY\x01U\x02DELAY\x013\x02")


def record(number: int = 0, *, body: bytes = b"hello", properties: bytes = PROPERTIES, sys_flag: int = 0) -> bytes:
    draft = Draft("orders", 2, body, StoredProperties(properties), EpochMs(1000), V4, V6, 7, sys_flag, 1)
    return encode(draft, QueueOffset(number), PhysicalOffset(1000 + number), EpochMs(2000))


def test_every_column() -> None:
    batch = decode_columns(record(5), list(TYPES), broker="broker-a")
    (row,) = batch.select([name for name in TYPES if not name.endswith("timestamp")]).to_pylist()
    assert row == {
        "topic": "orders",
        "broker": "broker-a",
        "queue_id": 2,
        "queue_offset": 5,
        "physical_offset": 1005,
        "message_id": "20010DB800000000000000000000000100002A9F00000000000003ED",
        "unique_key": "U",
        "keys": "k1 k2",
        "tags": "a",
        "body": b"hello",
        "properties": [("KEYS", "k1 k2"), ("TAGS", "a"), ("UNIQ_KEY", "U"), ("DELAY", "3")],
        "born_host": "10.0.0.1:10911",
        "store_host": "[2001:db8::1]:10911",
        "flag": 7,
        "sys_flag": 0x20,
        "reconsume_times": 1,
        "delay_level": 3,
        "transaction_state": "NONE",
        "prepared_transaction_offset": 0,
        "body_crc": 907060870,
        "store_size": len(record(5)),
        "row_id": "broker-a/orders/2/5@1005",
    }
    assert row["row_id"] == row_id("broker-a", "orders", 2, 5, 1005)
    assert [each.value for each in batch.column("store_timestamp")] == [2_000_000]
    assert [each.value for each in batch.column("born_timestamp")] == [1_000_000]


def test_the_row_of_spark_is_the_row_of_columns() -> None:
    assert tuple(TYPES) == NAMES


def test_nothing_is_an_empty_batch_of_the_right_schema() -> None:
    batch = decode_columns(b"", list(TYPES))
    assert batch.num_rows == 0
    assert batch.schema.equals(schema_of(list(TYPES)))


def test_records_at_known_places_in_any_order() -> None:
    first, second = record(1), record(2, body=b"second")
    starts = np.array([len(first), 0], np.int64)
    batch = decode_columns(first + second, ["queue_offset", "body", "keys"], starts=starts)
    assert batch.to_pydict() == {"queue_offset": [2, 1], "body": [b"second", b"hello"], "keys": ["k1 k2", "k1 k2"]}


def test_a_missing_last_separator_and_an_absent_property() -> None:
    buffer = record(0, properties=b"TAGS\x01x") + record(1, properties=b"") + record(2)
    batch = decode_columns(buffer, ["tags", "keys", "properties"])
    assert batch.column("tags").to_pylist() == ["x", None, "a"]
    assert batch.column("keys").to_pylist() == [None, None, "k1 k2"]
    assert [len(pairs) for pairs in batch.column("properties").to_pylist()] == [1, 0, 4]


def test_of_equal_keys_the_last_counts() -> None:
    buffer = record(0, properties=b"a\x011\x02b\x012\x02a\x013\x02") + record(1, properties=b"a\x019\x02")
    batch = decode_columns(buffer, ["properties"])
    assert [dict(pairs) for pairs in batch.column(0).to_pylist()] == [{"b": "2", "a": "3"}, {"a": "9"}]


@pytest.mark.parametrize("codec", Codec)
def test_compressed_bodies(codec: Codec) -> None:
    body = b"again and again " * 50
    packed = record(0, body=compress(body, codec), sys_flag=with_codec(0, codec))
    batch = decode_columns(packed + record(1), ["body", "sys_flag"])
    assert batch.column("body").to_pylist() == [body, b"hello"]
    assert [flag & 1 for flag in batch.column("sys_flag").to_pylist()] == [0, 0]
    raw = decode_columns(packed, ["body", "sys_flag"], treatment=Treatment(max_body_bytes=None))
    assert raw.column("body").to_pylist() == [compress(body, codec)]
    assert raw.column("sys_flag").to_pylist()[0] & 1


def test_a_compressed_body_that_is_broken_is_refused_or_kept() -> None:
    broken = record(3, body=b"no zlib", sys_flag=1)
    with pytest.raises(BadRecord, match="does not decompress"):
        decode_columns(broken, ["body"])
    kept = decode_columns(record(2) + broken, ["body", "sys_flag"], treatment=Treatment(keep_bad=True))
    assert kept.to_pydict() == {"body": [b"hello", b"no zlib"], "sys_flag": [0x20, 0x21]}


def test_a_body_that_inflates_past_the_limit_is_refused() -> None:
    packed = record(0, body=compress(b"x" * 1000, Codec.ZLIB), sys_flag=with_codec(0, Codec.ZLIB))
    with pytest.raises(BadRecord, match="limit of 999"):
        decode_columns(packed, ["body"], treatment=Treatment(max_body_bytes=999))


def test_crc_is_checked_where_wanted() -> None:
    good, bent = record(0), bytearray(record(1))
    bent[100] ^= 1
    assert decode_columns(good + bytes(bent), ["body"]).num_rows == 2
    with pytest.raises(BadRecord, match="CRC") as caught:
        decode_columns(good + bytes(bent), ["body"], treatment=Treatment(check_crc=True))
    assert caught.value.offset == len(good)


def test_fillers_are_passed_over_only_where_they_may_stand() -> None:
    buffer = record(0) + blank(40).ljust(40, b"\0") + record(1)
    assert decode_columns(buffer, ["queue_offset"], blanks=True).to_pydict() == {"queue_offset": [0, 1]}
    with pytest.raises(BadRecord):
        decode_columns(buffer, ["queue_offset"])


def test_long_runs_and_changing_sizes_are_walked_alike() -> None:
    sizes = [5] * 500 + [5, 6, 7, 8] * 100 + [9] * 300
    made = [record(number, body=b"x" * size) for number, size in enumerate(sizes)]
    starts = record_starts(as_bytes(b"".join(made)))
    assert starts.tolist() == [0, *np.cumsum([len(each) for each in made])[:-1].tolist()]


def test_batches_are_bounded_by_what_bodies_inflate_to() -> None:
    body = b"x" * 1000
    packed = [record(n, body=compress(body, Codec.ZLIB), sys_flag=with_codec(0, Codec.ZLIB)) for n in range(10)]
    data = as_bytes(b"".join([*packed, *(record(n) for n in range(10, 15))]))
    heads = Heads(data, record_starts(data))
    names = ["queue_offset", "body", "sys_flag"]
    batches = list(batches_of(heads, names, broker="b", treatment=Treatment(batch_bytes=3500)))
    assert [batch.num_rows for batch in batches] == [3, 3, 3, 6]
    together = {name: [value for batch in batches for value in batch.column(name).to_pylist()] for name in names}
    assert together == decode_columns(data.tobytes(), names).to_pydict()
    assert len(list(batches_of(heads, ["queue_offset"], broker="b", treatment=Treatment(batch_bytes=1)))) == 1
    alone = list(batches_of(heads, ["body"], broker="b", treatment=Treatment(batch_bytes=1)))
    assert [batch.num_rows for batch in alone] == [1] * 9 + [6]
