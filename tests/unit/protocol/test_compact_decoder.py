import struct
from typing import Any

import pytest

from firearrow.errors import BadHeader
from firearrow.protocol import compact_decoder as compact_decoding
from firearrow.protocol.compact_decoder import (
    SHAPE_FIELDS_MAX,
    SHAPE_SIZE_MAX,
    SHAPES_MAX,
    SIGHTINGS_TO_LEARN,
    CompactDecoder,
    read_heading,
)
from firearrow.protocol.serialize import encode_request
from tests.unit.protocol.commands import COMPACT, Nothing, Optional, Seek, header_of


def by_shape(decoder: CompactDecoder[Any], header: bytes, at: int) -> object:
    """Decode fields by the shape of their header; None for a header of no known shape."""
    shape = decoder._shapes.by_size.get(len(header) - at)
    if shape is None or int.from_bytes(header[at:], "little") & shape.mask != shape.expected:
        return None
    return shape.build(*shape.cut(header, at))


def learned(*requests: Seek, extra: dict[str, str] | None = None) -> CompactDecoder[Seek]:
    decoder = CompactDecoder(Seek)
    for request in requests:
        header = encode_request(COMPACT, request, 1, extra=extra)[8:]
        for _ in range(SIGHTINGS_TO_LEARN):
            assert decoder.decode(header).request == request
        assert by_shape(decoder, header, 21) == request
    return decoder


FIRST = Seek(topic="T1", queue_id=3, timestamp=1234567890123, exact=True, group="me")
SAME_SIZES = Seek(topic="ü", queue_id=9, timestamp=9999999999999, exact=True, group="us")


def test_a_shape_fits_other_values_of_the_same_sizes() -> None:
    assert by_shape(learned(FIRST), header_of(COMPACT, SAME_SIZES), 21) == SAME_SIZES


def test_equal_size_but_other_places() -> None:
    shorter_topic = Seek(topic="T", queue_id=33, timestamp=1234567890123, exact=True, group="me")
    decoder = learned(FIRST)
    header = header_of(COMPACT, shorter_topic)
    assert len(header) == len(header_of(COMPACT, FIRST))
    assert by_shape(decoder, header, 21) is None
    for _ in range(SIGHTINGS_TO_LEARN):
        assert decoder.decode(header).request == shorter_topic
    assert by_shape(decoder, header, 21) == shorter_topic
    assert decoder.decode(header_of(COMPACT, FIRST)).request == FIRST


def test_strange_fields_and_any_order_have_shapes_too() -> None:
    decoder = learned(FIRST, extra={"bname": "broker-a", "zone": "z"})
    header = encode_request(COMPACT, SAME_SIZES, 1, extra={"bname": "broker-b", "zone": "y"})[8:]
    assert by_shape(decoder, header, 21) == SAME_SIZES


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\0\0\0\x013", b"\0\0\0\x01x"),
        (b"\0\0\0\x013", b"\0\0\0\x01+"),
        (b"1234567890123", b"12345678901 3"),
        (b"\0\5topic", b"\0\5tropic"[:7]),
        (b"T1", b"\xff\xfe"),
        (b"\0\0\0\2T1", b"\0\0\0\3T1"),
        (b"\0\0\0\2T1", b"\xff\0\0\2T1"),
    ],
)
def test_damage_is_not_taken_for_the_shape(old: bytes, new: bytes) -> None:
    header = header_of(COMPACT, FIRST)
    assert header.count(old) == 1
    with pytest.raises(BadHeader):
        learned(FIRST).decode(header.replace(old, new))


def test_every_flipped_bit_of_a_known_shape_is_judged_as_without_it() -> None:
    decoder, untaught = learned(FIRST), CompactDecoder(Seek)
    header = header_of(COMPACT, FIRST)
    for at in range(len(header)):
        for bit in range(8):
            damaged = bytearray(header)
            damaged[at] ^= 1 << bit
            untaught._shapes.by_size.clear()
            assert outcome(decoder, bytes(damaged)) == outcome(untaught, bytes(damaged)), (at, bit)


def outcome(decoder: CompactDecoder[Seek], header: bytes) -> object:
    try:
        return decoder.decode(header)
    except BadHeader as error:
        return str(error)


def test_java_s_odd_values_under_a_shape() -> None:
    decoder = learned(Seek(topic="T", queue_id=12, timestamp=5, verbose=True))
    header = header_of(COMPACT, Seek(topic="T", queue_id=12, timestamp=5, verbose=True))
    assert decoder.decode(header.replace(b"\0\0\0\x0212", b"\0\0\0\x02+7")).request == Seek(
        topic="T", queue_id=7, timestamp=5, verbose=True
    )
    assert decoder.decode(header.replace(b"true", b"tRuE")).request.verbose is True  # type: ignore[union-attr]
    assert decoder.decode(header.replace(b"true", b"1111")).request.verbose is False  # type: ignore[union-attr]


def test_empty_values_and_repeated_keys_have_no_shape() -> None:
    for fields in (
        b"\0\4name\0\0\0\0\0\4size\0\0\0\x011",
        b"\0\4size\0\0\0\x019\0\4size\0\0\0\x011",
    ):
        decoder = CompactDecoder(Optional)
        header = struct.pack(">hbhiiii", 28, 0, 0, 1, 0, 0, len(fields)) + fields
        for _ in range(3 * SIGHTINGS_TO_LEARN):
            assert decoder.decode(header).request == Optional(size=1)
        assert by_shape(decoder, header, 21) is None


def test_a_header_without_fields() -> None:
    decoder = CompactDecoder(Nothing)
    for _ in range(3 * SIGHTINGS_TO_LEARN):
        assert decoder.decode(header_of(COMPACT, Nothing())).request == Nothing()


def test_what_is_learned_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [Seek(topic="x" * size, queue_id=1, timestamp=1) for size in range(1, SHAPES_MAX + 10)]
    decoder = learned(*requests)
    assert len(decoder._shapes.by_size) <= SHAPES_MAX
    huge = header_of(COMPACT, Seek(topic="x" * 5000, queue_id=1, timestamp=1))
    for _ in range(3 * SIGHTINGS_TO_LEARN):
        decoder.decode(huge)
    assert by_shape(decoder, huge, 21) is None
    monkeypatch.setattr(compact_decoding, "BUILDERS_MAX", 1)
    other = header_of(COMPACT, FIRST)
    for _ in range(3 * SIGHTINGS_TO_LEARN):
        assert decoder.decode(other).request == FIRST
    assert by_shape(decoder, other, 21) is None


def test_nothing_is_learned_from_a_peer_that_has_not_proved_who_it_is() -> None:
    decoder, header = CompactDecoder(Seek), header_of(COMPACT, FIRST)
    heading, at = read_heading(header)
    for _ in range(3 * SIGHTINGS_TO_LEARN):
        assert decoder.decode_fields(heading, header, at, False) == FIRST
    assert by_shape(decoder, header, at) is None
    assert not decoder._shapes._sightings


def test_shapes_of_all_structs_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_decoding, "ALL_SHAPES_MAX", 20)
    decoders = [learned(*[Seek(topic="x" * size, queue_id=1, timestamp=1) for size in range(1, 9)]) for _ in range(5)]
    assert sum(len(decoder._shapes.by_size) for decoder in decoders) <= 20


def test_a_header_of_many_fields_has_no_shape() -> None:
    decoder = CompactDecoder(Seek)
    many = {f"field{number}": "v" for number in range(SHAPE_FIELDS_MAX)}
    header = encode_request(COMPACT, FIRST, 1, extra=many)[8:]
    assert len(header) < SHAPE_SIZE_MAX
    for _ in range(3 * SIGHTINGS_TO_LEARN):
        assert decoder.decode(header).request == FIRST
    assert not decoder._shapes.by_size
