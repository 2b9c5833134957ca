import sys
import zlib

import lz4.frame
import pytest
import zstandard

from firearrow.errors import BadBody, Unsupported
from firearrow.record.compression import Codec, codec_of, compress, decompress, with_codec

every_codec = pytest.mark.parametrize("codec", Codec)


def test_bits() -> None:
    assert [codec_of(bits) for bits in (0x001, 0x101, 0x201, 0x301)] == [Codec.ZLIB, Codec.LZ4, Codec.ZSTD, Codec.ZLIB]
    assert with_codec(0x204, Codec.LZ4) == 0x105
    for bits in (0x400, 0x500, 0x600, 0x700):
        with pytest.raises(BadBody, match="no known compression"):
            codec_of(bits)


@every_codec
@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 300])
def test_there_and_back(codec: Codec, body: bytes) -> None:
    assert decompress(compress(body, codec), codec, len(body)) == body


@every_codec
def test_truncated_at_every_byte(codec: Codec) -> None:
    whole = compress(b"some body, some body" * 5, codec)
    for length in range(len(whole)):
        with pytest.raises(BadBody):
            decompress(whole[:length], codec, 1000)


@every_codec
def test_bytes_after_the_end_are_ignored_as_in_java(codec: Codec) -> None:
    assert decompress(compress(b"body", codec) + b"after", codec, 1000) == b"body"


@every_codec
@pytest.mark.parametrize("limit", [0, 1, 999])
def test_the_limit_is_exact(codec: Codec, limit: int) -> None:
    with pytest.raises(BadBody):
        decompress(compress(b"x" * (limit + 1), codec), codec, limit)
    assert decompress(compress(b"x" * limit, codec), codec, limit) == b"x" * limit


def bombs() -> list[tuple[Codec, bytes]]:
    zeros = bytes(64 << 20)
    streamed = zstandard.ZstdCompressor().compressobj()
    return [
        (Codec.ZLIB, zlib.compress(zeros, 1)),
        (Codec.LZ4, lz4.frame.compress(zeros, store_size=True)),
        (Codec.LZ4, lz4.frame.compress(zeros, store_size=False)),
        (Codec.ZSTD, zstandard.ZstdCompressor().compress(zeros)),
        (Codec.ZSTD, streamed.compress(zeros) + streamed.flush()),
    ]


def test_bombs_are_refused() -> None:
    for codec, bomb in bombs():
        with pytest.raises(BadBody, match="past"):
            decompress(bomb, codec, 4 << 20)


def test_a_promise_of_size_is_not_believed() -> None:
    # a frame of one segment that promises 2**62 bytes
    frame = b"\x28\xb5\x2f\xfd\xe0" + (1 << 62).to_bytes(8, "little") + b"\x01\x00\x00"
    with pytest.raises(BadBody):
        decompress(frame, Codec.ZSTD, 1000)


def test_java_reads_our_lz4_only_without_linked_blocks() -> None:
    info = lz4.frame.get_frame_info(compress(b"x" * 1000, Codec.LZ4))
    assert info["block_linked"] is False


@pytest.mark.parametrize(("codec", "library"), [(Codec.LZ4, "lz4"), (Codec.ZSTD, "zstandard")])
def test_a_missing_library_says_what_to_install(codec: Codec, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (library, "lz4.frame"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unsupported, match=rf"{library}.*firearrow\[compression\]"):
        compress(b"", codec)
    with pytest.raises(Unsupported, match=rf"{library}.*firearrow\[compression\]"):
        decompress(b"", codec, 1)
