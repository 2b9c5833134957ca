"""Old parts of the log are read again, and what rotted is found."""

import asyncio

from firearrow.store.scrub import Scrub, ScrubConfig
from tests.property.store.shop import open_shop
from tests.simulation.store.kit import draft, fresh_image


def test_rot_is_found_kept_and_passed_over() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await open_shop(image)
        places = [shop.append(draft(b"x" * 100)) for _ in range(100)]
        await shop.flush_all()
        bad = places[20]
        scrub = Scrub(shop.running.log, shop.opened, ScrubConfig())
        image.file(f"commitlog/{0:020d}").rot(bad.physical_offset + 50, 3)
        while scrub.passes == 0:
            await scrub.step()
        assert scrub.bad_ranges == 1
        assert scrub.scrubbed_bytes == shop.running.log.flushed
        found = shop.opened.damage.covers(bad.physical_offset)
        assert found is not None
        assert (found.start, found.end) == (bad.physical_offset, bad.end)
        assert len(await shop.disk.list("quarantine")) == 1
        assert await scrub.step() > 0, "and round again"

    asyncio.run(main())
