"""Bytes that Apache wrote: ours must be the same."""

import struct
from zlib import crc32

import pytest

from firearrow.errors import BadBody
from firearrow.model import EpochMs, Host, PhysicalOffset, QueueOffset
from firearrow.model.java_hash import java_hash, tag_code
from firearrow.record.compression import decompress
from firearrow.record.decode import decode, peek, size_and_magic
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.layout import BLANK_MAGIC, CRC_MASK, blank
from firearrow.record.message_id import offset_message_id, parse_offset_message_id
from firearrow.record.properties import StoredProperties, stored_properties
from tests.unit.record.stamps import check_stamp

# Written by Apache 4.9.8: body "hello", topic TopicA, queue 0, offset 0; its properties lack the last separator.
RECORD_4_9 = bytes.fromhex(
    "000000bb daa320a7 3610a686 00000000 00000000 0000000000000000 0000000000000000 00000000 000001a1dc4d988e"
    "7f0000010000de60 000001a1dc4d9894 7f000001000051af 00000000 0000000000000000 00000005 68656c6c6f 06 546f70696341"
    "0055 4b455953016b31206b3202554e49515f4b45590143304138303030313030303031384234414143323030303030303030303030300"
    "2434c55535445520144656661756c74436c757374657202544147530154616741"
)
BORN = host_bytes(Host("127.0.0.1", 0xDE60))
STORE = host_bytes(Host("127.0.0.1", 20911))


def test_record_of_4_9_decodes() -> None:
    message = decode(RECORD_4_9)
    assert message.topic == "TopicA"
    assert message.body == b"hello"
    assert message.properties == {
        "KEYS": "k1 k2",
        "UNIQ_KEY": "C0A80001000018B4AAC2000000000000",
        "CLUSTER": "DefaultCluster",
        "TAGS": "TagA",
    }
    assert (message.queue_id, message.queue_offset, message.physical_offset) == (0, 0, 0)
    assert message.born_timestamp == 0x1A1DC4D988E
    assert message.store_timestamp == 0x1A1DC4D9894
    assert message.born_host == Host("127.0.0.1", 0xDE60)
    assert message.store_host == Host("127.0.0.1", 20911)
    assert message.store_size == 187
    assert message.body_crc == 907060870
    assert (message.tag, message.keys, message.unique_key) == (
        "TagA",
        ["k1", "k2"],
        "C0A80001000018B4AAC2000000000000",
    )


def test_record_of_4_9_encodes_to_the_same_bytes() -> None:
    head = peek(RECORD_4_9)
    draft = Draft(
        topic="TopicA",
        queue_id=0,
        body=b"hello",
        properties=StoredProperties(head.properties(RECORD_4_9)),  # as 4.9 left them, the last entry open
        born_timestamp=EpochMs(0x1A1DC4D988E),
        born_host=BORN,
        store_host=STORE,
    )
    record = encode(draft, QueueOffset(0), PhysicalOffset(0), EpochMs(0x1A1DC4D9894), stamped=False)
    assert record == RECORD_4_9


def test_ids_of_that_record() -> None:
    assert offset_message_id(STORE, PhysicalOffset(0)) == "7F000001000051AF0000000000000000"
    assert parse_offset_message_id("7F000001000051AF0000000000000000") == (Host("127.0.0.1", 20911), 0)


def test_consume_queue_entry_of_that_record() -> None:
    head = peek(RECORD_4_9)
    entry = struct.pack(">qiq", head.physical_offset, head.size, tag_code(decode(RECORD_4_9).tag))
    assert entry.hex() == "0000000000000000000000bb000000000027a807"


def test_that_record_is_not_stamped() -> None:
    assert check_stamp(RECORD_4_9, peek(RECORD_4_9)) is False


@pytest.mark.parametrize(("body", "crc"), [(b"hello", 907060870), (b"x", 215750275), (b"hi", 1486039724)])
def test_body_crcs(body: bytes, crc: int) -> None:
    assert crc32(body) & CRC_MASK == crc


def test_index_hash() -> None:
    assert abs(java_hash("TopicA#k1")) % 1000 == 649


def test_blank_at_1029472_of_a_mebibyte() -> None:
    filler = blank((1 << 20) - 1_029_472)
    assert filler.hex() == "00004aa0cbd43194"
    assert size_and_magic(filler) == (19104, BLANK_MAGIC)


# Written by the encoder of Apache 5.5.0 with enabledAppendPropCRC: topic, body, properties, hosts, sysFlag, record.
STAMPED_BY_5_5 = [
    (
        "TopicA",
        b"hello",
        "TAGS\x01TagA\x02KEYS\x01k1",
        "127.0.0.1",
        "10.0.0.5",
        0x0,
        (
            "0000008cdaa320a73610a6860000000300000007000000000000002900000000075bcd15000000000000018bcfe568017f00"
            "0001000004d20000018bcfe568020a00000500002a9f0000000200000000000000630000000568656c6c6f06546f70696341"
            "0026544147530154616741024b455953016b31025f5f435243333223013736303139313137333002"
        ),
    ),
    (
        "TopicA",
        b"",
        "",
        "127.0.0.1",
        "10.0.0.5",
        0x301,
        (
            "00000075daa320a7000000000000000300000007000000000000002900000000075bcd15000003010000018bcfe568017f00"
            "0001000004d20000018bcfe568020a00000500002a9f0000000200000000000000630000000006546f7069634100145f5f43"
            "5243333223013737383239333239363002"
        ),
    ),
    (
        "%RETRY%" + "g" * 130,
        "中文".encode(),
        "TAGS\x01中文\x02",
        "2001:db8::1",
        "fe80::2",
        0x0,
        (
            "00000123daa320ab5a09ed370000000300000007000000000000002900000000075bcd15000000300000018bcfe568012001"
            "0db8000000000000000000000001000004d20000018bcfe56802fe80000000000000000000000000000200002a9f00000002"
            "000000000000006300000006e4b8ade696870089255245545259256767676767676767676767676767676767676767676767"
            "6767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767"
            "6767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767"
            "6767676767676700205441475301e4b8ade69687025f5f435243333223013630373938373337333002"
        ),
    ),
    (
        "T",
        b"x",
        "a\x01b\x02",
        "2001:db8::1",
        "10.0.0.5",
        0x8,
        (
            "00000081daa320a70cdc16830000000300000007000000000000002900000000075bcd15000000180000018bcfe568012001"
            "0db8000000000000000000000001000004d20000018bcfe568020a00000500002a9f00000002000000000000006300000001"
            "7801540018610162025f5f435243333223013934393330353033373002"
        ),
    ),
    (
        "T",
        b"x",
        "a\x01b\x02",
        "127.0.0.1",
        "::1",
        0x0,
        (
            "00000081daa320a70cdc16830000000300000007000000000000002900000000075bcd15000000200000018bcfe568017f00"
            "0001000004d20000018bcfe568020000000000000000000000000000000100002a9f00000002000000000000006300000001"
            "7801540018610162025f5f435243333223013335323134373630373102"
        ),
    ),
]


@pytest.mark.parametrize(("topic", "body", "properties", "born", "store", "sys_flag", "expected"), STAMPED_BY_5_5)
def test_stamped_records_of_5_5(
    topic: str, body: bytes, properties: str, born: str, store: str, sys_flag: int, expected: str
) -> None:
    draft = Draft(
        topic=topic,
        queue_id=3,
        body=body,
        properties=stored_properties(properties),
        born_timestamp=EpochMs(1700000000001),
        born_host=host_bytes(Host(born, 1234)),
        store_host=host_bytes(Host(store, 10911)),
        flag=7,
        sys_flag=sys_flag,
        reconsume_times=2,
        prepared_transaction_offset=PhysicalOffset(99),
    )
    record = encode(draft, QueueOffset(41), PhysicalOffset(123456789), EpochMs(1700000000002))
    assert record.hex() == expected
    assert check_stamp(record, peek(record), required=True)


# Written by the compressors of Apache 5.5.0 at level 5.
@pytest.mark.parametrize(
    ("bits", "compressed"),
    [
        (0x101, "04224d1860707314000000af466972654172726f77200a00425072726f772000000000"),
        (0x201, "28b52ffd00588c000050466972654172726f77200100d7a92001010000"),
        (0x301, "785e73cb2c4a752c2aca2f5770a3190b004c4d24eb"),
        (0x001, "785e73cb2c4a752c2aca2f5770a3190b004c4d24eb"),
    ],
)
def test_bodies_compressed_by_5_5(bits: int, compressed: str) -> None:
    assert decompress(bytes.fromhex(compressed), bits, 100) == b"FireArrow " * 10
    with pytest.raises(BadBody):
        decompress(bytes.fromhex(compressed), bits, 99)
