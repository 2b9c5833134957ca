"""Options by which ``firearrow produce`` puts messages into requests: in batches, after a while, compressed."""

from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import typer

from firearrow.cli.messages.lanes import BATCH
from firearrow.cli.times import wait_ms
from firearrow.errors import SettingsError
from firearrow.record.compression import Codec

COMPRESS_OVER: Final = 4096
NO_LIMIT: Final = 1 << 62


class Compression(StrEnum):
    """The compression of bodies."""

    NONE = "none"
    ZLIB = "zlib"
    LZ4 = "lz4"
    ZSTD = "zstd"


Batch = Annotated[
    int,
    typer.Option(min=1, max=BATCH, help="Send so many messages without a sharding key in one request, none delayed."),
]
Linger = Annotated[
    str, typer.Option(help="Messages wait so long for others to share a request with: 5ms. [not at all]")
]
CompressBy = Annotated[
    Compression, typer.Option("--compression", "-z", help="How bodies over --compress-over are compressed.")
]
CompressOver = Annotated[int, typer.Option(min=0, help="Bodies of more bytes are compressed.")]


class Packing(NamedTuple):
    """The settings by which messages are put into requests."""

    linger_ms: int
    compress_over: int
    codec: Codec


def packing(batch: int, linger: str, compression: Compression, compress_over: int, *, is_delayed: bool) -> Packing:
    """Return how messages are packed; raise ``SettingsError`` for options that do not go together."""
    if batch > 1 and linger:
        raise SettingsError(
            "--batch waits until so many messages are there, --linger for a time; give one of them, not both"
        )
    if batch > 1 and is_delayed:
        raise SettingsError("brokers take no delayed messages in a batch; leave out --batch or the delay")
    linger_ms = wait_ms(linger) if linger else 0
    if compression is Compression.NONE:
        return Packing(linger_ms, NO_LIMIT, Codec.ZLIB)
    return Packing(linger_ms, compress_over, Codec[compression.name])
