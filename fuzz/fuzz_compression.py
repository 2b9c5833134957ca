"""Compressed bodies: the first byte picks the codec, and nothing inflates past the limit."""

import zlib

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.record.compression import Codec, compress, decompress

LIMIT = 1 << 20
CODECS = (0x000, 0x100, 0x200, 0x300, 0x400)


def target(data: bytes) -> None:
    if data:
        assert len(decompress(data[1:], CODECS[data[0] % len(CODECS)], LIMIT)) <= LIMIT


def seeds() -> list[bytes]:
    """Streams, truncated streams and bombs of each codec."""
    bodies = [b"", b"hello, hello, hello" * 10, bytes(range(256)), bytes(4 << 20)]
    made = [bytes((codec >> 8,)) + compress(body, codec) for codec in Codec for body in bodies]
    return [*made, *(stream[:-3] for stream in made), b"\x00" + zlib.compress(b"old producers"), b"\x04"]


if __name__ == "__main__":
    run(target, seeds=seeds())
