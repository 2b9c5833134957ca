"""Options by which ``firearrow produce`` puts messages into requests: in batches, after a while, compressed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import typer

from firearrow.cli.messages.lanes import BATCH
from firearrow.cli.option_groups import OptionGroup
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


class PackingSettings(NamedTuple):
    """The settings by which messages are put into requests."""

    linger_ms: int
    compress_over: int
    codec: Codec


@dataclass(frozen=True)
class PackOptions(OptionGroup):
    """The settings by which messages are put into requests."""

    batch: Annotated[
        int,
        typer.Option(
            min=1, max=BATCH, help="Send so many messages without a sharding key in one request, none delayed."
        ),
    ] = 1
    linger: Annotated[
        str, typer.Option(help="Messages wait so long for others to share a request with: 5ms. [not at all]")
    ] = ""
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How bodies over --compress-over are compressed.")
    ] = Compression.ZLIB
    compress_over: Annotated[int, typer.Option(min=0, help="Bodies of more bytes are compressed.")] = COMPRESS_OVER

    def packing(self, *, is_delayed: bool) -> PackingSettings:
        """Return how messages are packed; raise ``SettingsError`` for options that do not go together."""
        if self.batch > 1 and self.linger:
            raise SettingsError(
                "--batch waits until so many messages are there, --linger for a time; give one of them, not both"
            )
        if self.batch > 1 and is_delayed:
            raise SettingsError("brokers take no delayed messages in a batch; leave out --batch or the delay")
        linger_ms = wait_ms(self.linger) if self.linger else 0
        if self.compression is Compression.NONE:
            return PackingSettings(linger_ms, NO_LIMIT, Codec.ZLIB)
        return PackingSettings(linger_ms, self.compress_over, Codec[self.compression.name])
