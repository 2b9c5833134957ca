"""Compressed bodies, never inflated past a limit.

sysFlag bit 0 says that a body is compressed, bits 8-10 how: 1 LZ4 (frame format), 2 Zstandard, 3 or 0 zlib (0 from
old producers). lz4 and zstandard come with the extra ``compression`` and are imported when first needed. Bytes
after the end of a compressed stream are ignored, as Java's streams do. Must agree with Java's ``CompressionType``
and its compressors.
"""

import enum
import zlib
from typing import Final

from firearrow.errors import BadBody, Unsupported
from firearrow.model.flags import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_MASK, COMPRESSION_ZLIB, COMPRESSION_ZSTD

DEFAULT_LEVEL: Final = 5
_ZSTD_MAX_WINDOW: Final = 1 << 27


class Codec(enum.IntEnum):
    """A way to compress; the value is its bits in sysFlag."""

    LZ4 = COMPRESSION_LZ4
    ZSTD = COMPRESSION_ZSTD
    ZLIB = COMPRESSION_ZLIB


def codec_of(sys_flag: int) -> Codec:
    """Return the codec of a compressed body."""
    bits = sys_flag & COMPRESSION_MASK
    if bits == 0:
        return Codec.ZLIB
    try:
        return Codec(bits)
    except ValueError as wrong:
        raise BadBody(f"sysFlag 0x{sys_flag:x} names no known compression") from wrong


def with_codec(sys_flag: int, codec: Codec) -> int:
    """``sys_flag`` with the bits for a body that is compressed with ``codec``."""
    return sys_flag & ~COMPRESSION_MASK | codec | COMPRESSED


def compress(body: bytes, codec: Codec, level: int = DEFAULT_LEVEL) -> bytes:
    """The body compressed; LZ4 ignores ``level``, as in Java."""
    if codec is Codec.ZLIB:
        return zlib.compress(body, level)
    return _compress_lz4(body) if codec is Codec.LZ4 else _compress_zstd(body, level)


def decompress(body: bytes, sys_flag: int, max_bytes: int) -> bytes:
    """The body as it was before compression; `BadBody` if it is broken or larger than ``max_bytes``."""
    codec = codec_of(sys_flag)
    if codec is Codec.ZLIB:
        return _decompress_zlib(body, max_bytes)
    return _decompress_lz4(body, max_bytes) if codec is Codec.LZ4 else _decompress_zstd(body, max_bytes)


def _decompress_zlib(body: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, max_bytes + 1)
    except zlib.error as wrong:
        raise BadBody(f"the zlib stream is broken: {wrong}") from wrong
    return _whole(plain, max_bytes, ended=stream.eof)


def _compress_lz4(body: bytes) -> bytes:
    try:
        import lz4.frame
    except ImportError as wrong:
        raise _missing("lz4") from wrong
    # Java's reader refuses linked blocks.
    compressed: bytes = lz4.frame.compress(body, block_linked=False, store_size=False)
    return compressed


def _decompress_lz4(body: bytes, max_bytes: int) -> bytes:
    try:
        import lz4.frame
    except ImportError as wrong:
        raise _missing("lz4") from wrong
    stream = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = stream.decompress(body, max_bytes + 1)
    except RuntimeError as wrong:
        raise BadBody(f"the LZ4 frame is broken: {wrong}") from wrong
    return _whole(plain, max_bytes, ended=stream.eof)


def _compress_zstd(body: bytes, level: int) -> bytes:
    try:
        import zstandard
    except ImportError as wrong:
        raise _missing("zstandard") from wrong
    return zstandard.ZstdCompressor(level=level).compress(body)


def _decompress_zstd(body: bytes, max_bytes: int) -> bytes:
    try:
        import zstandard
    except ImportError as wrong:
        raise _missing("zstandard") from wrong
    try:
        promised = zstandard.get_frame_parameters(body).content_size
        # The library allocates the size that the frame's header states, so that size is checked first.
        if promised != zstandard.CONTENTSIZE_UNKNOWN and promised > max_bytes:
            raise _too_large(max_bytes)
        plain = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW).decompress(body, max_bytes + 1)
    except zstandard.ZstdError as wrong:
        raise BadBody(f"the Zstandard frame is broken, or inflates past {max_bytes} bytes: {wrong}") from wrong
    return _whole(plain, max_bytes, ended=True)


def _whole(plain: bytes, max_bytes: int, *, ended: bool) -> bytes:
    if len(plain) > max_bytes:
        raise _too_large(max_bytes)
    if not ended:
        raise BadBody("the compressed body ends too early")
    return plain


def _too_large(max_bytes: int) -> BadBody:
    return BadBody(f"the body inflates past the limit of {max_bytes} bytes")


def _missing(library: str) -> Unsupported:
    return Unsupported(f"a body needs the library {library}, which is not installed; install firearrow[compression]")
