"""Decompression as libraries that had a CVE did it: everything is inflated, then its size is looked at."""

import zlib

import lz4.frame
import zstandard

from firearrow.errors import BadBody


def zlib_whole(body: bytes, limit: int) -> bytes:
    """Inflate zlib."""
    return _within(zlib.decompress(body), limit)


def lz4_whole(body: bytes, limit: int) -> bytes:
    """Inflate a frame of LZ4."""
    return _within(lz4.frame.decompress(body), limit)


def zstd_whole(body: bytes, limit: int) -> bytes:
    """Inflate Zstandard."""
    return _within(zstandard.ZstdDecompressor().decompressobj().decompress(body), limit)


def _within(plain: bytes, limit: int) -> bytes:
    if len(plain) > limit:
        raise BadBody(f"the body inflates past the limit of {limit} bytes")
    return plain
