import struct

import pytest

from firearrow.errors import BadFrame
from firearrow.protocol.frame import FRAME_MAX, Frame, FrameLimits, FrameSplitter, prefix

JSON_HEADER = (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
COMPACT_FRAME = bytes.fromhex("000000250100002100690001df0000000000000000000000000000000c0005746f7069630000000154")


def framed(header: bytes, body: bytes = b"", encoding: int = 0) -> bytes:
    return prefix(encoding, len(header), len(body)) + header + body


def test_prefix_is_the_golden_one() -> None:
    assert prefix(0, len(JSON_HEADER), 0) == bytes.fromhex("0000007f0000007b")
    assert prefix(1, 0x21, 0) == COMPACT_FRAME[:8]


def test_splits_golden_frames() -> None:
    frames = FrameSplitter().feed(framed(JSON_HEADER) + COMPACT_FRAME)
    assert frames == [(0, JSON_HEADER, b""), (1, COMPACT_FRAME[8:], b"")]


STREAM = framed(b"{}", b"body") + framed(b"", b"") + framed(b"x" * 5, b"", 1) + framed(b"h", b"b" * 40)
FRAMES: list[Frame] = [(0, b"{}", b"body"), (0, b"", b""), (1, b"x" * 5, b""), (0, b"h", b"b" * 40)]


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_frames_do_not_depend_on_one_cut(cut: int) -> None:
    splitter = FrameSplitter()
    assert splitter.feed(STREAM[:cut]) + splitter.feed(STREAM[cut:]) == FRAMES
    assert splitter.kept == 0


def test_one_byte_at_a_time() -> None:
    splitter = FrameSplitter()
    assert [frame for at in range(len(STREAM)) for frame in splitter.feed(STREAM[at : at + 1])] == FRAMES


def test_ten_thousand_frames_in_one_piece() -> None:
    assert len(FrameSplitter().feed(STREAM * 2500)) == 10_000


def test_largest_frame_in_small_pieces() -> None:
    body = bytes(FRAME_MAX - 8)
    stream = framed(b"", body)
    assert len(stream) == FRAME_MAX
    splitter = FrameSplitter()
    frames = [frame for at in range(0, len(stream), 1024) for frame in splitter.feed(stream[at : at + 1024])]
    assert frames == [(0, b"", body)]


@pytest.mark.parametrize("length", [0, 3, FRAME_MAX - 3, 2**31 - 1, 2**31, 2**32 - 1])
def test_impossible_lengths_are_faults(length: int) -> None:
    splitter = FrameSplitter()
    assert splitter.feed(struct.pack(">II", length, 0)) == []
    assert isinstance(splitter.fault, BadFrame)
    assert splitter.kept == 0


@pytest.mark.parametrize("encoding", [2, 3, 127, 128, 255])
def test_unknown_encodings_are_faults(encoding: int) -> None:
    splitter = FrameSplitter()
    splitter.feed(struct.pack(">II", 10, encoding << 24 | 2))
    assert "encoding" in str(splitter.fault)


def test_header_longer_than_its_frame_is_a_fault() -> None:
    splitter = FrameSplitter()
    splitter.feed(struct.pack(">II", 10, 7))
    assert "does not fit" in str(splitter.fault)


def test_header_limit() -> None:
    splitter = FrameSplitter(FrameLimits(header_max=4))
    assert splitter.feed(framed(b"1234")) == [(0, b"1234", b"")]
    splitter.feed(framed(b"12345"))
    assert "limit of 4" in str(splitter.fault)


def test_frames_before_a_fault_are_delivered_and_none_after() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(framed(b"{}") + b"GET / HTTP/1.1\r\n") == [(0, b"{}", b"")]
    assert splitter.fault is not None
    assert splitter.feed(framed(b"{}")) == []


def test_a_fault_is_found_before_the_frame_is_complete() -> None:
    splitter = FrameSplitter()
    splitter.feed(struct.pack(">II", FRAME_MAX, 0)[:7])
    assert splitter.fault is None
    splitter.feed(b"\0")
    assert splitter.fault is not None


def test_a_header_beyond_24_bits_cannot_be_framed() -> None:
    with pytest.raises(BadFrame):
        prefix(0, 0x1000000, 0)
