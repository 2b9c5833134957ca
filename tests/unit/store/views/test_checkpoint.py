"""Apache's checkpoint file, byte for byte."""

import asyncio
from zlib import crc32

from firearrow.store.views.checkpoint import Checkpoint, decode_checkpoint, read_checkpoint, write_checkpoint
from tests.simulation.store.kit import InstantDisk, fresh_image

POINT = Checkpoint(log_ms=1, queues_ms=0x0102030405060708, index_ms=3, master_flushed=4, confirmed=5)


def test_the_bytes_of_the_file() -> None:
    data = POINT.encode()
    assert len(data) == 4096
    assert data[:40].hex() == "00000000000000010102030405060708000000000000000300000000000000040000000000000005"
    assert data[40:] == bytes(4056)
    assert decode_checkpoint(data) == POINT
    assert decode_checkpoint(b"short") == Checkpoint()


def test_three_seconds_before_the_smaller_time_everything_is_on_disk() -> None:
    assert Checkpoint(log_ms=10_000, queues_ms=8_000).safe_ms == 5_000
    assert Checkpoint(log_ms=10_000).safe_ms == 0


def test_it_is_replaced_as_a_whole() -> None:
    async def main() -> None:
        disk = InstantDisk(fresh_image())
        assert await read_checkpoint(disk) == (Checkpoint(), 0)
        written = await write_checkpoint(disk, POINT)
        assert await read_checkpoint(disk) == (POINT, written)
        assert written == crc32(POINT.encode())

    asyncio.run(main())
