"""Compressed registrations: what 4.9 and 5.x brokers write, what hostile peers might."""

import struct
import zlib

import pytest

from firearrow.errors import BadBody
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigAndMappingTable
from firearrow.protocol.bodies.naming.registration import (
    RegisterBrokerBody,
    decode_registration,
    encode_registration,
    topic_from_text,
)
from firearrow.protocol.bodies.version import DataVersion

VERSION_4_9_8 = 409
VERSION_5_5_0 = 513

FULL = RegisterBrokerBody(
    filter_server_list=["f:1"],
    topic_config_serialize_wrapper=TopicConfigAndMappingTable(
        data_version=DataVersion(counter=7, state_version=3, timestamp=1_700_000_000_000),
        topic_config_table={
            "T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8, attributes={"a": "b"})
        },
        topic_queue_mapping_info_map={"T": TopicQueueMappingInfo(topic="T", bname="b", curr_id_map={0: 1})},
    ),
)


def prefixed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def test_a_compressed_registration_comes_back() -> None:
    data = encode_registration(FULL, compressed=True)
    assert decode_registration(data, compressed=True, version=VERSION_5_5_0) == FULL


def test_a_4_9_broker_writes_neither_attributes_nor_mappings() -> None:
    plain = b"".join(
        [
            prefixed(b'{"counter":1,"timestamp":5}'),
            struct.pack(">i", 2),
            prefixed(b"TopicA 4 8 6 SINGLE_TAG"),
            prefixed(b"TopicB 1 1 7 MULTI_TAG"),
            prefixed(b"[]"),
        ]
    )
    body = decode_registration(zlib.compress(plain, 9), compressed=True, version=VERSION_4_9_8)
    table = body.topic_config_serialize_wrapper
    assert table.data_version == DataVersion(counter=1, timestamp=5)
    assert list(table.topic_config_table) == ["TopicA", "TopicB"]
    assert table.topic_config_table["TopicB"].topic_filter_type == "MULTI_TAG"
    assert table.topic_config_table["TopicB"].perm == 7


def test_attributes_with_a_blank_are_lost_as_in_java() -> None:
    assert topic_from_text('T 1 1 6 SINGLE_TAG {"a":"b c"}').attributes == {}


@pytest.mark.parametrize("text", ["", "T", "T 1 1 6", "T x 1 6 SINGLE_TAG", f"T {2**31} 1 6 SINGLE_TAG"])
def test_a_topic_that_is_no_topic_is_refused(text: str) -> None:
    with pytest.raises(BadBody):
        topic_from_text(text)


def test_a_bomb_stops_at_the_limit() -> None:
    bomb = zlib.compress(bytes(10_000_000), 9)
    with pytest.raises(BadBody, match="more than 1000000 bytes"):
        decode_registration(bomb, compressed=True, version=VERSION_5_5_0, limit=1_000_000)


def test_a_body_of_exactly_the_limit_passes() -> None:
    data = encode_registration(FULL, compressed=True)
    size = len(zlib.decompress(data))
    assert decode_registration(data, compressed=True, version=VERSION_5_5_0, limit=size) == FULL


@pytest.mark.parametrize("cut", range(1, 120, 7))
def test_a_cut_stream_is_refused(cut: int) -> None:
    data = encode_registration(FULL, compressed=True)
    with pytest.raises(BadBody):
        decode_registration(data[:-cut], compressed=True, version=VERSION_5_5_0)


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 1000])
def test_a_length_beyond_the_end_is_refused(length: int) -> None:
    with pytest.raises(BadBody):
        decode_registration(zlib.compress(struct.pack(">i", length)), compressed=True, version=VERSION_5_5_0)
