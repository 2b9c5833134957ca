"""Records of a pull as messages: a bad one keeps nobody from the others."""

import pytest

from firearrow.client.consumer.broker_queries import PulledBytes, PullStatus
from firearrow.errors import BadRecord
from firearrow.model import EpochMs, Host, Message, PhysicalOffset, QueueOffset
from firearrow.record.batch import encode_batch
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import StoredProperties

HOST = host_bytes(Host("10.0.0.1", 10911))
NOW = EpochMs(1_700_000_000_000)
WRAPPED = 0xC0


def record(body: bytes, offset: int, sys_flag: int = 0) -> bytes:
    draft = Draft("T", 0, body, StoredProperties(b""), NOW, HOST, HOST, sys_flag=sys_flag)
    return encode(draft, QueueOffset(offset), PhysicalOffset(offset * 1000), NOW)


def pulled(body: bytes) -> PulledBytes:
    return PulledBytes(PullStatus.FOUND, body, 10, 0, 10)


def test_a_wrapped_batch_that_is_none_is_one_message_with_a_fault() -> None:
    good = encode_batch([Message("T", b"one"), Message("T", b"two")])
    found = pulled(record(b"no batch", 0, WRAPPED) + record(good, 1, WRAPPED) + record(b"plain", 3)).messages()
    assert [(message.body, bool(message.body_fault)) for message in found] == [
        (b"no batch", True),
        (b"one", False),
        (b"two", False),
        (b"plain", False),
    ]
    assert [message.queue_offset for message in found] == [0, 1, 2, 3]
    assert "batch" in found[0].body_fault


def test_a_damaged_body_is_a_fault_of_its_message_alone() -> None:
    found = pulled(record(b"before", 0).replace(b"before", b"befure") + record(b"after", 1)).messages()
    assert [message.body for message in found] == [b"befure", b"after"]
    assert "CRC" in found[0].body_fault
    assert not found[1].body_fault


def test_bytes_that_cannot_be_split_are_refused_whole() -> None:
    with pytest.raises(BadRecord):
        pulled(record(b"before", 0) + b"\x00" * 100).messages()
