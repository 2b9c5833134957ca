import struct

import pytest

from firearrow.errors import BadRecord, IllegalMessage, ProtocolError
from firearrow.model import EpochMs, Host, PhysicalOffset, QueueOffset
from firearrow.record.compression import Codec, compress, with_codec
from firearrow.record.decode import check_body, decode, decode_all, heads, peek, size_and_magic
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes, host_address, host_bytes
from firearrow.record.layout import blank, topic_field
from firearrow.record.properties import StoredProperties, encode_properties, stored_properties
from tests.unit.record.stamps import check_stamp

V4 = host_bytes(Host("10.0.0.1", 10911))
V6 = host_bytes(Host("2001:db8::1", 10911))
NOW = EpochMs(1_700_000_000_000)


def draft(topic: str = "T", *, born: HostBytes = V4, store: HostBytes = V4, sys_flag: int = 0) -> Draft:
    properties = encode_properties({"TAGS": "a", "KEYS": "k1 k2"})
    return Draft(topic, 3, b"body", properties, NOW, born, store, flag=9, sys_flag=sys_flag)


def record_of(what: Draft, *, stamped: bool = True) -> bytes:
    return encode(what, QueueOffset(5), PhysicalOffset(1000), NOW, stamped=stamped)


FORMS = {
    "v1-v4-v4": draft(),
    "v1-v6-v4": draft(born=V6),
    "v1-v4-v6": draft(store=V6),
    "v1-v6-v6": draft(born=V6, store=V6),
    "v2-v4-v4": draft("%RETRY%" + "g" * 130),
    "v2-v6-v6": draft("%RETRY%" + "g" * 130, born=V6, store=V6),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


@every_form
def test_truncated_at_every_byte(form: Draft) -> None:
    record = record_of(form)
    for length in range(len(record)):
        with pytest.raises(BadRecord):
            decode(record[:length])


@every_form
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_shows_in_a_stamped_record(form: Draft, flip: int) -> None:
    record = record_of(form)
    for position in range(len(record)):
        damaged = bytearray(record)
        damaged[position] ^= flip
        with pytest.raises(BadRecord):
            check_stamp(damaged, peek(damaged), required=True)


@every_form
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_raises_nothing_else_in_a_plain_record(form: Draft, flip: int) -> None:
    record = record_of(form, stamped=False)
    refused = 0
    for position in range(len(record)):
        damaged = bytearray(record)
        damaged[position] ^= flip
        try:
            decode(damaged)
        except BadRecord:
            refused += 1
    assert refused >= 20  # size, magic, CRC, body and lengths at least


@every_form
def test_v6_bits_follow_the_hosts_whatever_the_producer_said(form: Draft) -> None:
    bits = (0x10 if len(form.born_host) == 20 else 0) | (0x20 if len(form.store_host) == 20 else 0)
    lying = draft(form.topic, born=form.born_host, store=form.store_host, sys_flag=0x30 ^ bits)
    record = record_of(lying)
    assert peek(record).sys_flag == bits
    assert decode(record).born_host == host_address(form.born_host)
    assert decode(record).store_host == host_address(form.store_host)


def test_peek_finds_the_parts_anywhere_in_any_buffer() -> None:
    record = record_of(draft())
    for buffer in (b"junk" + record, bytearray(b"junk" + record), memoryview(b"junk" + record)):
        head = peek(buffer, 4)
        assert (head.start, head.end, head.size) == (4, 4 + len(record), len(record))
        assert (head.queue_id, head.flag, head.queue_offset, head.physical_offset) == (3, 9, 5, 1000)
        assert (head.topic, head.body(buffer), head.store_timestamp) == ("T", b"body", NOW)
        assert head.properties(buffer).startswith(b"TAGS\x01a\x02KEYS\x01k1 k2\x02__CRC32#\x01")
        assert check_stamp(buffer, head, required=True)
        check_body(buffer, head)
        assert decode(buffer, 4).properties == {"TAGS": "a", "KEYS": "k1 k2"}


def test_records_in_a_row() -> None:
    rows = b"".join(record_of(form) for form in FORMS.values())
    assert [message.topic for message in decode_all(rows)] == [form.topic for form in FORMS.values()]
    assert [head.end - head.start for head in heads(rows)] == [len(record_of(form)) for form in FORMS.values()]
    assert list(decode_all(b"")) == []


def test_trouble_in_a_row_names_its_offset() -> None:
    first = record_of(draft())
    reading = decode_all(first + first[:-1])
    next(reading)
    with pytest.raises(BadRecord, match=f"no record at byte {len(first)}") as refusal:
        next(reading)
    assert refusal.value.offset == len(first)


def test_a_blank_is_no_record() -> None:
    filler = blank(500) + bytes(492)
    assert size_and_magic(filler) == (500, 0xCBD43194)
    with pytest.raises(BadRecord, match="magic is 0xCBD43194"):
        peek(filler)
    with pytest.raises(BadRecord):
        size_and_magic(b"1234567")


def test_wrong_body_crc() -> None:
    record = bytearray(record_of(draft()))
    record[8:12] = bytes(4)
    with pytest.raises(BadRecord, match="CRC"):
        decode(record)


def test_an_absent_stamp_is_refused_only_where_it_is_required() -> None:
    plain = record_of(draft(), stamped=False)
    assert check_stamp(plain, peek(plain)) is False
    with pytest.raises(BadRecord, match="not stamped"):
        check_stamp(plain, peek(plain), required=True)


def test_a_wrong_stamp_is_refused_always() -> None:
    record = bytearray(record_of(draft()))
    record[-2] ^= 1
    with pytest.raises(BadRecord, match="stamp"):
        check_stamp(record, peek(record))


def test_a_compressed_body_comes_out_plain() -> None:
    body = b"x" * 5000
    for codec in Codec:
        form = Draft("T", 0, compress(body, codec), StoredProperties(b""), NOW, V4, V4, sys_flag=with_codec(0, codec))
        record = record_of(form)
        message = decode(record)
        assert message.body == body
        assert message.sys_flag == codec  # bit 0 cleared, the kind kept, as Java does
        assert decode(record, max_body_bytes=None).body == compress(body, codec)
        with pytest.raises(BadRecord, match="past"):
            decode(record, max_body_bytes=4999)


def test_a_body_that_is_not_what_its_flag_says() -> None:
    for bits in (0x1, 0x101, 0x201, 0x301, 0x401, 0x701):
        form = Draft("T", 0, b"no stream", StoredProperties(b""), NOW, V4, V4, sys_flag=bits)
        with pytest.raises(BadRecord):
            decode(record_of(form))


def test_properties_that_are_not_utf8_do_not_stop_a_consumer() -> None:
    form = Draft("T", 0, b"", StoredProperties(b"k\x01\xff\xfe\x02"), NOW, V4, V4)
    assert decode(record_of(form)).properties == {"k": "\ufffd\ufffd"}


def test_a_topic_that_is_not_utf8_is_refused() -> None:
    record = record_of(draft(), stamped=False).replace(b"\x01T", b"\x01\xff")
    with pytest.raises(BadRecord, match="UTF-8"):
        peek(record)


@pytest.mark.parametrize(
    ("position", "value"),
    [(0, -1), (0, 0), (0, 2**31 - 1), (84, -1), (84, 2**31 - 1), (84, 5), (84, 3)],
)
def test_lying_lengths(position: int, value: int) -> None:
    record = bytearray(record_of(draft()))
    struct.pack_into(">i", record, position, value)
    with pytest.raises(BadRecord):
        decode(record)


def test_negative_topic_and_properties_lengths() -> None:
    record = bytearray(record_of(FORMS["v2-v4-v4"]))
    struct.pack_into(">h", record, 88 + 4, -1)
    with pytest.raises(BadRecord, match="topic length"):
        peek(record)
    record = bytearray(record_of(draft()))
    record[88 + 4] = 0x80
    with pytest.raises(BadRecord, match="topic length 128"):
        peek(record)
    record = bytearray(record_of(draft()))
    struct.pack_into(">h", record, 88 + 4 + 2, -1)
    with pytest.raises(BadRecord, match="properties length"):
        peek(record)


def test_what_fits_no_record() -> None:
    with pytest.raises(IllegalMessage, match="32767"):
        record_of(Draft("T", 0, b"", stored_properties(b"k\x01" + b"v" * 32_750 + b"\x02"), NOW, V4, V4))
    with pytest.raises(IllegalMessage, match="does not fit"):
        record_of(Draft("T", 2**31, b"", StoredProperties(b""), NOW, V4, V4))
    with pytest.raises(IllegalMessage, match="32768 bytes"):
        topic_field("x" * 32_768)


def test_hosts() -> None:
    assert host_bytes(Host("::ffff:10.0.0.1", 10911)) == V4
    assert host_bytes(Host("fe80::1%eth0", 1)).hex() == "fe80000000000000000000000000000100000001"
    for address in (Host("localhost", 1), Host("10.0.0.1", -1), Host("10.0.0.1", 2**32)):
        with pytest.raises(IllegalMessage):
            host_bytes(address)


def test_a_bad_record_is_the_peers_fault() -> None:
    assert issubclass(BadRecord, ProtocolError)
