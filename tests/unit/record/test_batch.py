import struct

import pytest

from firearrow.errors import BadBody, IllegalMessage
from firearrow.model import EpochMs, Host, Message, PhysicalOffset, QueueOffset
from firearrow.model.flags import is_wrapped_batch
from firearrow.record.batch import columns_of, decode_batch, encode_batch, unwrap
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.decode import decode, decode_all, heads
from firearrow.record.encode import Draft, encode
from firearrow.record.encode_columns import encode_columns
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import stored_properties
from tests.unit.record.stamps import check_stamp

HOST = host_bytes(Host("10.0.0.1", 10911))
NOW = EpochMs(1_700_000_000_000)
ENVELOPE = Envelope("T", HOST, HOST, sys_flag=2, reconsume_times=1)
MESSAGES = [Message("T", b"one", {"TAGS": "a"}, 7), Message("T", b"", {}), Message("T", b"three", {"KEYS": "k"})]
BATCH = encode_batch(MESSAGES)


def columns(batch: bytes, **more: int) -> MessageColumns:
    """The messages of a batch for queue 2."""
    return columns_of(batch, 2, NOW, **more)


def test_bytes_of_a_batch() -> None:
    assert encode_batch([Message("T", b"hi", {"a": "b"}, 7)]).hex() == (
        "0000001c 00000000 00000000 00000007 00000002 6869 0004 61016202".replace(" ", "")
    )


def test_a_batch_becomes_independent_records() -> None:
    records, sizes = encode_columns(ENVELOPE, columns(BATCH), [10, 11, 12], 5000, NOW + 1)
    for head in heads(records):
        assert check_stamp(records, head, required=True)
    stored = list(decode_all(records))
    assert [message.body for message in stored] == [b"one", b"", b"three"]
    assert [message.properties for message in stored] == [{"TAGS": "a"}, {}, {"KEYS": "k"}]
    assert [message.flag for message in stored] == [7, 0, 0]
    assert [message.queue_offset for message in stored] == [10, 11, 12]
    assert stored[0].physical_offset == 5000
    assert stored[2].physical_offset == 5000 + sizes[0] + sizes[1]
    assert {(message.queue_id, message.sys_flag, message.reconsume_times) for message in stored} == {(2, 2, 1)}


def test_an_open_last_property_does_not_swallow_the_stamp() -> None:
    properties = b"TAGS\x01a"
    batch = struct.pack(">iiiii", 22 + len(properties), 0, 0, 0, 0) + struct.pack(">h", len(properties)) + properties
    record, _ = encode_columns(ENVELOPE, columns(batch), [0], 0, NOW)
    assert decode(record).properties == {"TAGS": "a"}


def test_truncated_at_every_byte() -> None:
    edges = {0, len(encode_batch(MESSAGES[:1])), len(encode_batch(MESSAGES[:2]))}
    for length in set(range(len(BATCH))) - edges:
        with pytest.raises(BadBody):
            columns(BATCH[:length])


def test_sizes_must_add_up() -> None:
    for size in (0, -1, 21, len(BATCH) + 1, 2**31 - 1):
        with pytest.raises(BadBody):
            columns(struct.pack(">i", size) + BATCH[4:])
    for length in (-1, 2**31 - 1, 4):
        with pytest.raises(BadBody):
            columns(BATCH[:16] + struct.pack(">i", length) + BATCH[20:])
    with pytest.raises(BadBody):
        columns(BATCH[:23] + struct.pack(">h", -1) + BATCH[25:])


def test_magic_and_crc_inside_are_ignored() -> None:
    assert len(columns(BATCH[:4] + b"\xff" * 8 + BATCH[12:]).bodies) == 3


def test_number_of_messages_is_limited() -> None:
    assert len(columns(BATCH, max_messages=3).bodies) == 3
    with pytest.raises(BadBody, match="more than 2 messages"):
        columns(BATCH, max_messages=2)


def test_what_fits_no_batch() -> None:
    with pytest.raises(IllegalMessage):
        encode_batch([Message("T", b"", {"k": "v" * 40_000})])
    with pytest.raises(IllegalMessage):
        encode_batch([Message("T", b"", {}, 2**31)])


def test_a_batch_stored_whole_is_taken_apart() -> None:
    draft = Draft("T", 0, BATCH, stored_properties("INNER_NUM\x013"), NOW, HOST, HOST, sys_flag=0xC0)
    whole = decode(encode(draft, QueueOffset(100), PhysicalOffset(0), NOW))
    assert is_wrapped_batch(whole.sys_flag)
    inner = unwrap(whole)
    assert [message.queue_offset for message in inner] == [100, 101, 102]
    assert [message.body for message in inner] == [b"one", b"", b"three"]
    assert inner[0].flag == 7
    assert inner[0].properties == {"TAGS": "a"}
    assert {message.store_host for message in inner} == {whole.store_host}
    assert decode_batch(BATCH, "T") == MESSAGES
