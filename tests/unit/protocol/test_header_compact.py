import struct

import pytest

from firearrow.errors import BadFrame, BadHeader
from firearrow.protocol.command import BadFields
from firearrow.protocol.header_compact import narrow_code
from firearrow.protocol.serialize import (
    encode_answer,
    encode_request,
    ext_fields,
    read_heading,
)
from tests.unit.protocol.commands import (
    CATALOGUE,
    COMPACT,
    SEEK,
    Boundary,
    Found,
    Nothing,
    Optional,
    Seek,
    Wide,
    decode_answer,
    header_of,
)

FIXED = struct.Struct(">hbhiii")


def entry(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


def compact(fields: bytes, code: int = 29, language: int = 0, size: int | None = None) -> bytes:
    fixed = FIXED.pack(code, language, 479, 7, 0, 0)
    return fixed + struct.pack(">i", len(fields) if size is None else size) + fields


TOPIC, QUEUE, TIME = entry(b"topic", b"T"), entry(b"queueId", b"3"), entry(b"timestamp", b"5")
PLAIN = Seek(topic="T", queue_id=3, timestamp=5)


def test_golden_request() -> None:
    header = bytes.fromhex("00690001df0000000000000000000000000000000c0005746f7069630000000154")
    heading, _ = read_heading(COMPACT, header)
    assert (heading.code, heading.version, heading.language, heading.opaque) == (105, 479, "JAVA", 0)
    assert ext_fields(COMPACT, header) == {"topic": "T"}


def test_golden_answer() -> None:
    header = bytes.fromhex("00000001990000004d00000001000000000000000d00066f66667365740000000133")
    heading = decode_answer(COMPACT, header, Found)
    assert heading.is_answer
    assert (heading.code, heading.opaque, heading.version) == (0, 0x4D, 409)
    assert heading.request == Found(offset=3)


def test_requests_survive() -> None:
    for request in (
        SEEK,
        PLAIN,
        Nothing(),
        Optional(),
        Optional(size=1),
        Seek(topic="x" * 300, queue_id=-1, timestamp=-(2**63), boundary=Boundary.LOWER, weight=1.5, verbose=True),
    ):
        heading = CATALOGUE.decode_request(COMPACT, header_of(COMPACT, request, 12))
        assert heading.request == request
        assert (heading.opaque, heading.language, heading.version) == (12, "PYTHON", 513)


def test_a_remark() -> None:
    heading, _ = read_heading(COMPACT, encode_answer(COMPACT, 7, Found(offset=1), 17, "nö")[8:])
    assert (heading.code, heading.remark) == (17, "nö")
    assert decode_answer(COMPACT, encode_answer(COMPACT, 7, Found(offset=1), 17, "nö")[8:], Found).request == Found(
        offset=1
    )


@pytest.mark.parametrize(
    "fields",
    [
        TOPIC + QUEUE + TIME,
        TIME + QUEUE + TOPIC,
        TOPIC + QUEUE + TIME + entry(b"bname", b"broker-a") + entry(b"ns", b""),
        entry(b"bname", b"x" * 300) + TOPIC + QUEUE + TIME,
        entry(b"topic", b"old") + TOPIC + QUEUE + TIME,
        TOPIC + QUEUE + entry(b"timestamp", b"4") + TIME,
        TOPIC + entry(b"queueId", b"+3") + TIME,
        TOPIC + QUEUE + entry(b"timestamp", b"0000000000000000000000005"),
        TOPIC + QUEUE + TIME + entry(b"g", b"") + entry(b"exact", b"1") + entry(b"", b"nameless"),
    ],
)
def test_leniency(fields: bytes) -> None:
    assert CATALOGUE.decode_request(COMPACT, compact(fields)).request == PLAIN


def test_an_empty_value_is_absent_unless_a_text_is_required() -> None:
    fields = entry(b"topic", b"") + QUEUE + TIME + entry(b"g", b"")
    assert CATALOGUE.decode_request(COMPACT, compact(fields)).request == Seek(topic="", queue_id=3, timestamp=5)
    with pytest.raises(BadFields, match="<queueId> is null"):
        CATALOGUE.decode_request(COMPACT, compact(TOPIC + entry(b"queueId", b"") + TIME))


def test_unknown_language_and_code() -> None:
    heading = CATALOGUE.decode_request(COMPACT, compact(b"", code=4711, language=99))
    assert (heading.code, heading.language, heading.request) == (4711, "OTHER", None)


def test_codes_that_do_not_fit_are_recognised_by_their_low_bits() -> None:
    assert [narrow_code(code) for code in (200050, 200051, 200151, 310, -1)] == [3442, 3443, 3543, 310, -1]
    heading = CATALOGUE.decode_request(COMPACT, header_of(COMPACT, Wide(topic="T")))
    assert (heading.code, heading.request) == (200050, Wide(topic="T"))


@pytest.mark.parametrize(
    "fields",
    [
        TOPIC + TIME,
        TOPIC + entry(b"queueId", b" 3") + TIME,
        TOPIC + entry(b"queueId", b"1_0") + TIME,
        TOPIC + entry(b"queueId", b"2147483648") + TIME,
        TOPIC + QUEUE + entry(b"timestamp", b"9223372036854775808"),
        entry(b"topic", b"\xff") + QUEUE + TIME,
        TOPIC + QUEUE + TIME[:-1],
        TOPIC + QUEUE + TIME + b"\0",
        TOPIC + QUEUE + TIME + b"\xff\xff",
        TOPIC + QUEUE + TIME + b"\0\1x\xff\xff\xff\xff",
        TOPIC + QUEUE + TIME + b"\0\1x\x7f\xff\xff\xff",
        b"\0\5topic\0\0\0",
        b"\0\5topic",
    ],
)
def test_bad_fields_tell_who_asked(fields: bytes) -> None:
    with pytest.raises(BadFields) as caught:
        CATALOGUE.decode_request(COMPACT, compact(fields))
    assert (caught.value.heading.opaque, caught.value.heading.code) == (7, 29)


@pytest.mark.parametrize("size", [-1, 0, 1, 10**6, 2**31 - 1])
def test_a_wrong_size_of_the_fields(size: int) -> None:
    with pytest.raises(BadFields):
        CATALOGUE.decode_request(COMPACT, compact(TOPIC + QUEUE + TIME, size=size))


@pytest.mark.parametrize("size", [-1, 1, 2**31 - 1])
def test_a_wrong_size_of_the_remark(size: int) -> None:
    with pytest.raises(BadFields):
        CATALOGUE.decode_request(COMPACT, FIXED.pack(29, 0, 0, 7, 0, size) + bytes(4))


@pytest.mark.parametrize("size", range(21))
def test_a_short_header_says_nothing(size: int) -> None:
    with pytest.raises(BadHeader):
        CATALOGUE.decode_request(COMPACT, bytes(size))


def test_every_truncation_and_every_flipped_byte_is_refused_or_read() -> None:
    header = header_of(COMPACT, SEEK)
    for end in range(len(header)):
        with pytest.raises(BadHeader):
            CATALOGUE.decode_request(COMPACT, header[:end])
    for at in range(len(header)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(header)
            damaged[at] ^= flip
            try:
                CATALOGUE.decode_request(COMPACT, bytes(damaged))
            except BadHeader:
                continue


def test_a_header_beyond_24_bits_is_refused_here() -> None:
    with pytest.raises(BadFrame):
        encode_request(COMPACT, Wide(topic="x" * 0x1000000), 1)
