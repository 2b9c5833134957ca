"""Checksums of blocks vouch for bytes that have them, and for nothing else: rot is not handed out."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firearrow.errors import DiskError
from firearrow.store.log.block_sums import BLOCK_BYTES, BlockSums
from firearrow.store.queue.table import QueueConfig
from firearrow.store.read.queue_reader import ReadRequest, ReadStatus
from firearrow.store.recovery.scrub import Scrub, ScrubConfig
from firearrow.store.views.views import ViewsConfig
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import SMALL_INDEX, Shop, open_shop
from tests.simulation.store.kit import draft, fresh_image

SEGMENT = 1 << 20
MESSAGES = 2000
BLOCKS = 4
"""Whole blocks of 2,000 messages."""
LONG_QUEUES = ViewsConfig(queues=QueueConfig(mapped_file_size_consume_queue=60_000), index=SMALL_INDEX)
LOG = "commitlog/00000000000000000000"
SUMS = "firearrow/sums/00000000000000000000"
PULL = ReadRequest(0, 300, 1 << 20)


async def _open(image: DiskImage, segment: int = SEGMENT, boot: str = "boot-1") -> Shop:
    return await open_shop(image, boot, segment=segment, views_config=LONG_QUEUES)


async def _filled(image: DiskImage, messages: int = MESSAGES, segment: int = SEGMENT) -> Shop:
    shop = await _open(image, segment)
    for number in range(messages):
        shop.append(draft(b"%04d" % number * 10, properties="TAGS\x01a\x02"))
    await shop.flush_all()
    return shop


def _after_a_restart(
    scenario: Callable[[Shop], Awaitable[None]], prepare: Callable[[DiskImage], None] = lambda _: None
) -> None:
    """Fill a queue, make checksums, end in order, change something on the disk, start again."""

    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        await shop.sums.sum_up()
        await shop.close()
        prepare(image)
        await scenario(await _open(image))

    asyncio.run(main())


async def _bodies(shop: Shop) -> list[int]:
    """The queue offsets that reads hand out, from the first to the last."""
    found: list[int] = []
    offset = 0
    while True:
        result = await shop.reader.read("T", 0, PULL._replace(offset=offset))
        if result.status is not ReadStatus.FOUND:
            assert result.status is ReadStatus.OFFSET_OVERFLOW_ONE
            return found
        assert b"".join(result.buffers).count(b"TAGS\x01a\x02") == result.messages
        found += range(offset, offset + result.messages)
        offset = result.next_offset


def test_blocks_vouch_for_what_was_written() -> None:
    async def scenario(shop: Shop) -> None:
        assert len(await _bodies(shop)) == MESSAGES
        assert shop.sums.vouched == shop.running.log.flushed // BLOCK_BYTES >= BLOCKS

    _after_a_restart(scenario)


@pytest.mark.parametrize("at", [4, 90, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 77])
def test_rot_is_not_vouched_for(at: int) -> None:
    async def scenario(shop: Shop) -> None:
        assert not await shop.sums.vouch(at, at + 1)
        data = image_of(shop)
        assert b"".join((await shop.reader.read("T", 0, ReadRequest(MESSAGES - 100, 90, 1 << 20))).buffers) in data
        offset, lost = 0, 0
        while offset < MESSAGES:
            result = await shop.reader.read("T", 0, PULL._replace(offset=offset))
            lost += result.next_offset - offset - result.messages
            for buffer in result.buffers:
                assert bytes(buffer) in shop_truth
            offset = result.next_offset
        assert lost == 1, "the record that rotted, alone"

    shop_truth = b""

    def image_of(shop: Shop) -> bytes:
        return shop.opened.segments.at(0).file.read_at(0, SEGMENT)  # type: ignore[union-attr]

    async def truth() -> bytes:
        return image_of(await _filled(fresh_image()))

    shop_truth = asyncio.run(truth())
    _after_a_restart(scenario, lambda image: image.file(LOG).rot(at, 1))


@pytest.mark.parametrize("damage", ["rot", "short", "long", "gone", "other"])
def test_checksums_that_are_wrong_harm_nobody(damage: str) -> None:
    def prepare(image: DiskImage) -> None:
        file = image.file(SUMS)
        if damage == "rot":
            for at in range(0, 4 * BLOCKS, 4):
                file.rot(at, 1)
        elif damage == "short":
            file.truncate(3)
        elif damage == "long":
            file.truncate(1 << 20)
        elif damage == "gone":
            file.truncate(0)
        else:
            file.write(0, bytes(range(1, 1 + 4 * BLOCKS)))

    async def scenario(shop: Shop) -> None:
        assert len(await _bodies(shop)) == MESSAGES
        assert (shop.sums.vouched == 0) is (damage != "long")

    _after_a_restart(scenario, prepare)


def test_a_checksum_of_earlier_bytes_does_not_fit() -> None:
    """As after a power loss that took back a block: it is written again, with other records."""

    async def main() -> None:
        image, older = fresh_image(), fresh_image()
        for each, messages in ((image, 1000), (older, MESSAGES)):
            shop = await _filled(each, messages)
            await shop.sums.sum_up()
            await shop.close()
        shop = await _open(image)
        for number in range(1000):
            shop.append(draft(b"new %d" % number * 10, properties="TAGS\x01a\x02"))
        await shop.flush_all()
        await shop.close()
        image.file(SUMS).write(0, older.file(SUMS).read(0, 1 << 20))
        shop = await _open(image)
        assert len(await _bodies(shop)) == MESSAGES
        assert shop.sums.vouched < shop.running.log.flushed // BLOCK_BYTES

    asyncio.run(main())


def test_only_blocks_that_this_process_wrote_and_synced_are_summed() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image, 1000)
        await shop.close()
        shop = await _open(image)
        opened_at = shop.running.log.opened_at
        for number in range(1000):
            shop.append(draft(b"%04d" % number * 10))
        await shop.sums.sum_up()
        assert not shop.disk.exists(SUMS), "nothing is synced"
        await shop.flush_all()
        await shop.sums.sum_up()
        again = BlockSums(shop.disk, shop.opened.segments, shop.running.log)
        first, last = -(-opened_at // BLOCK_BYTES), shop.running.log.flushed // BLOCK_BYTES
        vouched = [await again.vouch(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES) for block in range(last + 1)]
        assert vouched == [False] * first + [True] * (last - first) + [False]

    asyncio.run(main())


@pytest.mark.parametrize("is_rotten", [False, True])
def test_the_scrub_sums_what_it_has_checked(is_rotten: bool) -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        await shop.close()
        if is_rotten:
            image.file(LOG).rot(3 * BLOCK_BYTES + 500, 1)
        shop = await _open(image)
        scrub = Scrub(shop.running.log, shop.opened, ScrubConfig(), shop.sums)
        while scrub.passes == 0:
            await scrub.step()
        again = BlockSums(shop.disk, shop.opened.segments, shop.running.log)
        vouched = [await again.vouch(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES) for block in range(BLOCKS)]
        assert vouched == ([True, False, False, False] if is_rotten else [True] * BLOCKS), "pieces without rot"

    asyncio.run(main())


def test_blocks_that_left_the_page_cache_are_checked_again() -> None:
    async def scenario(shop: Shop) -> None:
        assert await shop.sums.vouch(0, 1)
        segment = shop.opened.segments.at(0)
        assert segment is not None
        data = segment.file.read_at(100, 1)
        segment.file.write_at(100, [bytes([data[0] ^ 1])])
        assert await shop.sums.vouch(0, 1), "as good as it was when it was read"
        shop.sums.forget(0, 1)
        assert not await shop.sums.vouch(0, 1)

    _after_a_restart(scenario)


def test_checksums_of_deleted_files_are_deleted() -> None:
    async def main() -> None:
        shop = await _filled(fresh_image(), MESSAGES, 128 << 10)
        await shop.sums.sum_up()
        names = await shop.disk.list("firearrow/sums")
        assert names == [f"{start:020d}" for start in range(0, len(names) * (128 << 10), 128 << 10)]
        await shop.opened.segments.remove(next(iter(shop.opened.segments)))
        await shop.sums.sum_up()
        assert await shop.disk.list("firearrow/sums") == names[1:]

    asyncio.run(main())


@pytest.mark.parametrize("segment", [96 << 10, 8192])
def test_log_files_of_unusual_lengths(segment: int) -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image, 600, segment)
        await shop.sums.sum_up()
        await shop.close()
        shop = await _open(image, segment)
        assert len(await _bodies(shop)) == 600
        assert (shop.sums.vouched > 0) is (segment > BLOCK_BYTES)

    asyncio.run(main())


def test_a_disk_that_takes_no_checksums_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        shop = await _filled(fresh_image())

        def fail(path: str, *, create: bool = False) -> None:
            raise DiskError(f"no space for {path} ({create})", 28)

        monkeypatch.setattr(shop.disk, "open", fail)
        await shop.sums.were_checked(0, shop.running.log.flushed)
        assert len(await _bodies(shop)) == MESSAGES

    asyncio.run(main())
