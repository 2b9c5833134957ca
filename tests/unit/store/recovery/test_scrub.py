"""Old parts of the log are read again, and what rotted is found."""

import asyncio

import pytest

from firearrow.errors import DiskError
from firearrow.store.recovery.rescan import pieces_again
from firearrow.store.recovery.scrub import Scrub, ScrubConfig
from tests.property.store.shop import open_shop
from tests.simulation.store.kit import draft, fresh_image


def test_rot_is_found_kept_and_passed_over() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await open_shop(image)
        places = [shop.append(draft(b"x" * 100)) for _ in range(100)]
        await shop.flush_all()
        bad = places[20]
        scrub = Scrub(shop.running.log, shop.opened, ScrubConfig(), shop.sums)
        image.file(f"commitlog/{0:020d}").rot(bad.physical_offset + 50, 3)
        while scrub.passes == 0:
            await scrub.step()
        assert len(shop.opened.damage) == 1
        assert scrub.scrubbed_bytes == shop.running.log.flushed
        found = shop.opened.damage.covers(bad.physical_offset)
        assert found is not None
        assert (found.start, found.end) == (bad.physical_offset, bad.end)
        assert len(await shop.disk.list("quarantine")) == 1
        assert await scrub.step() > 0, "and round again"

    asyncio.run(main())


def test_stamps_alone_tell_what_is_untouched() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await open_shop(image)
        places = [shop.append(draft(b"x" * 100)) for _ in range(10)]
        await shop.flush_all()
        scanner, end = shop.opened.scanner, places[-1].end
        assert await scanner.untouched(0, end, 1 << 20) == end
        assert await scanner.untouched(0, end, places[3].end + 1) == places[3].end
        assert await scanner.untouched(0, end, 50) == 0, "not a whole record"
        assert await scanner.untouched(7, end, 1 << 20) == 7, "not the start of one"
        assert await scanner.untouched(end, end + 1000, 1 << 20) == end, "nothing is there"
        image.file(f"commitlog/{0:020d}").rot(places[5].physical_offset + 60, 1)
        assert await scanner.untouched(0, end, 1 << 20) == 0, "somebody must look closer"
        assert await scanner.untouched(places[6].physical_offset, end, 1 << 20) == end

    asyncio.run(main())


def test_a_disk_that_fails_a_read_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        for _ in range(100):
            shop.append(draft(b"x" * 100))
        await shop.flush_all()
        scrub = Scrub(shop.running.log, shop.opened, ScrubConfig(), shop.sums)
        honest = scrub.step

        async def step() -> int:
            monkeypatch.setattr(scrub, "step", honest)
            raise DiskError("cannot read commitlog: Input/output error", 5)

        monkeypatch.setattr(scrub, "step", step)
        monkeypatch.setattr(asyncio, "sleep", lambda _: yield_once())
        running = asyncio.ensure_future(scrub.run())
        while scrub.passes == 0 and not running.done():
            await yield_once()
        assert not running.done()
        assert scrub.scrubbed_bytes > 0
        running.cancel()

    asyncio.run(main())


async def yield_once() -> None:
    """Let others run."""
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, None)
    await future


def test_a_file_that_is_deleted_while_it_is_read_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        while shop.running.log.tail < 3 * shop.opened.segments.size:
            shop.append(draft(b"x" * 500))
        await shop.flush_all()
        oldest = next(iter(shop.opened.segments))
        honest = oldest.file.read

        async def read(position: int, length: int) -> bytes:
            data = await honest(position, length)
            monkeypatch.undo()
            await shop.opened.segments.remove(oldest)
            monkeypatch.setattr(oldest.file, "read", closed)
            return data

        async def closed(position: int, length: int) -> bytes:
            raise DiskError(f"closed, read at {position} for {length}", 9)

        monkeypatch.setattr(oldest.file, "read", read)
        found = [
            head.physical_offset
            async for _, heads in pieces_again(shop.opened.scanner, shop.opened.damage, 0, shop.running.log.flushed, 64)
            for head in heads
        ]
        assert found
        assert found[0] == shop.opened.segments.min_offset
        assert len(shop.opened.damage) == 0

    asyncio.run(main())
