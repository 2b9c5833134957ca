"""Good bytes in the place of bad ones: crash-safe, checked, and seen by queues again."""

import asyncio
from contextlib import suppress

import pytest

from firearrow.errors import BadRecord
from firearrow.store.mend import Mend
from firearrow.store.queue.consume_queue import FILLER
from firearrow.store.recovery.scrub import Scrub, ScrubConfig
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import DELAYS, Shop, entries_of, open_shop
from tests.simulation.store.kit import Died, InstantDisk, draft, fresh_image

LOG = f"commitlog/{0:020d}"


async def scrubbed(shop: Shop) -> None:
    scrub = Scrub(shop.running.log, shop.opened, ScrubConfig(), shop.sums)
    while scrub.passes == 0:
        await scrub.step()


def mend_of(shop: Shop) -> Mend:
    return Mend(shop.running.log, shop.opened, shop.views.queues, DELAYS)


async def rotten(image: DiskImage) -> tuple[Shop, bytes, int, int]:
    """A store with a rotten record: its good bytes, and where they lie."""
    shop = await open_shop(image)
    places = [shop.append(draft(b"%d" % number * 100)) for number in range(20)]
    await shop.flush_all()
    await shop.opened.slot.sync()
    start, end = places[7].physical_offset, places[8].end
    good = shop.disk.open(LOG).read_at(start, end - start)
    for place in places[7:9]:
        image.file(LOG).rot(place.physical_offset + 95, 1)
    await scrubbed(shop)
    return shop, good, start, end


def test_every_crash_leaves_the_range_bad_or_mended() -> None:
    async def main() -> None:
        mended = 0
        for power in (False, True):
            for dies_at in range(60):
                image = fresh_image(dies_at)
                shop, good, start, end = await rotten(image)
                (bad,) = mend_of(shop).bad()
                assert (bad.start, bad.end) == (start, end)
                shop.disk._dies_at = shop.disk.calls + dies_at
                with suppress(Died):
                    await mend_of(shop).put_back(bad, good)
                    mended += 1
                image.process_died()
                if power:
                    image.lose_power()
                shop = await open_shop(image, "boot-2" if power else "boot-1", disk=InstantDisk(image))
                if mend_of(shop).bad():
                    await mend_of(shop).put_back(bad, good)
                assert not mend_of(shop).bad()
                assert shop.disk.open(LOG).read_at(start, end - start) == good
                await scrubbed(shop)
                assert not mend_of(shop).bad()
        assert 0 < mended < 120

    asyncio.run(main())


def test_wrong_bytes_are_refused() -> None:
    async def main() -> None:
        image = fresh_image()
        shop, good, start, end = await rotten(image)
        (bad,) = mend_of(shop).bad()
        middle = len(good) // 2
        for wrong in (b"", good[:-1], good[:middle], good[middle:] + good[:middle], good + good[:middle]):
            with pytest.raises(BadRecord):
                await mend_of(shop).put_back(bad, wrong)
        assert mend_of(shop).bad() == [bad]
        assert shop.disk.open(LOG).read_at(start, end - start) != good

    asyncio.run(main())


def test_a_filler_leads_to_its_record_again() -> None:
    async def main() -> None:
        shop, good, _, _ = await rotten(fresh_image())
        before = entries_of(shop)
        queue = shop.views.queues.find("T", 0)
        assert queue is not None
        for offset in (7, 8):
            shop.views.queues.writer.rewrite(queue, offset, FILLER)
        await mend_of(shop).put_back(mend_of(shop).bad()[0], good)
        assert entries_of(shop) == before

    asyncio.run(main())
