"""The stream from master to slave: any bytes, in any pieces, come out as they went in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.errors import BadFrame
from firearrow.protocol.ha_stream import HEADER, LogSpan, Reports, Spans, heartbeat, packets, report

OFFSETS = st.integers(min_value=0, max_value=(1 << 62))
PIECES = st.lists(st.integers(min_value=1, max_value=40), min_size=1)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


@given(offset=OFFSETS, data=st.binary(max_size=300), batch=st.integers(1, 64), sizes=PIECES)
def test_spans_come_out_in_order_whatever_the_pieces(offset: int, data: bytes, batch: int, sizes: list[int]) -> None:
    stream = b"".join([heartbeat(offset), *packets(offset, data, batch), heartbeat(offset + len(data))])
    spans = Spans()
    found = [span for piece in cut(stream, sizes) for span in spans.feed(piece)]
    beats = [span.offset for span in found if not span.data]
    assert beats == [offset, offset + len(data)]
    at = offset
    for span in found:
        if span.data:
            assert span.offset == at
            at += len(span.data)
    assert b"".join(bytes(span.data) for span in found) == data


@given(data=st.binary(min_size=1, max_size=200), batch=st.integers(1, 64))
def test_a_packet_has_the_layout_of_apaches(data: bytes, batch: int) -> None:
    stream, at = b"".join(packets(7, data, batch)), 0
    while at < len(stream):
        offset, size = HEADER.unpack_from(stream, at)
        assert 0 < size <= batch
        assert stream[at + 12 : at + 12 + size] == data[offset - 7 : offset - 7 + size]
        at += 12 + size


@given(offsets=st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), sizes=PIECES)
def test_reports_come_out_whatever_the_pieces(offsets: list[int], sizes: list[int]) -> None:
    reports = Reports()
    found = [one for piece in cut(b"".join(map(report, offsets)), sizes) for one in reports.feed(piece)]
    assert found == offsets


@pytest.mark.parametrize(("offset", "size"), [(-1, 0), (0, -1), (5, (1 << 30) + 1)])
def test_a_header_that_cannot_be_right_is_refused(offset: int, size: int) -> None:
    with pytest.raises(BadFrame, match="check haMasterAddress"):
        Spans().feed(HEADER.pack(offset, size))


def test_the_bytes_of_apaches_layout() -> None:
    assert report(0x0102030405060708) == bytes(range(1, 9))
    assert Spans().feed(bytes(7) + b"\x20" + bytes(3) + b"\x02" + b"ab") == [LogSpan(32, b"ab")]
