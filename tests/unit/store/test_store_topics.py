"""A topic is deleted for good: neither a restart nor a crash brings its queues back."""

import asyncio

import pytest

from firearrow.errors import DiskError
from firearrow.store.config import LogConfig
from firearrow.store.placement import FLUSHED
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.queue.files import QueueFiles
from firearrow.store.read.lookup import Boundary
from firearrow.store.read.queue_reader import ReadRequest, ReadStatus
from firearrow.store.store import Store, StoreConfig
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import VIEWS
from tests.simulation.store.kit import FrozenClock, InstantDisk, clone, draft, fresh_image

CONFIG = StoreConfig(
    log=LogConfig(mapped_file_size_commit_log=8192, flush_disk_type="SYNC_FLUSH", zero_fill_ahead=False), views=VIEWS
)


async def _open(image: DiskImage, boot: str = "boot") -> tuple[Store, "asyncio.Task[None]"]:
    store = await Store.open(InstantDisk(image), FrozenClock(), CONFIG, boot)
    return store, asyncio.create_task(store.run())


@pytest.mark.parametrize("power", [True, False])
def test_a_life_that_failed_to_end_at_first_has_ended_for_good_at_the_next_try(
    monkeypatch: pytest.MonkeyPatch, *, power: bool
) -> None:
    right, failures = QueueFiles.remove_queue, [DiskError("the disk has an error")]

    async def remove(self: QueueFiles, queue: ConsumeQueue) -> None:
        if failures:
            raise failures.pop()
        await right(self, queue)

    async def main() -> None:
        image = fresh_image()
        store, running = await _open(image)
        place = [store.append(draft(topic="T")) for _ in range(3)][-1]
        await store.reached(place.end, FLUSHED)
        await store.views.flush(store._log_flushed)
        monkeypatch.setattr(QueueFiles, "remove_queue", remove)
        with pytest.raises(DiskError):
            await store.end_lives({"T": place.end})
        await store.end_lives({"T": place.end})
        crashed = clone(image, 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if power:
            crashed.lose_power()
        else:
            crashed.process_died()
        again, running = await _open(crashed, "another" if power else "boot")
        assert again.max_offset("T", 0) == 0
        await again.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize("power", [True, False])
def test_a_deleted_topic_stays_deleted(power: bool) -> None:
    async def main() -> None:
        image = fresh_image()
        store, running = await _open(image)
        places = [store.append(draft(topic=("T", "Kept")[number % 2])) for number in range(6)]
        await store.reached(places[-1].end, FLUSHED)
        assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 3)
        assert await store.delete_topics(["T"]) == 1
        assert await store.delete_topics(["T"]) == 0
        assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 0)
        crashed = clone(image, 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        crashed.process_died()
        if power:
            crashed.lose_power()
        again, running = await _open(crashed, "another" if power else "boot")
        assert again.queues.find("T", 0) is None
        assert again.max_offset("Kept", 0) == 3
        fresh = again.append(draft(topic="T"))
        await again.reached(fresh.end, FLUSHED)
        assert fresh.queue_offset == 0
        assert (await again.read("T", 0, ReadRequest(0, 9, 9000))).status is ReadStatus.FOUND
        assert await again.lookups.offset_by_time(again.queues.tail_of("T", 0), 1, Boundary.UPPER) == 0
        await again.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_what_is_in_no_queue_yet_when_its_topic_is_deleted_stays_out_of_it() -> None:
    async def main() -> None:
        image = fresh_image()
        store, running = await _open(image)
        store.append(draft(topic="T"))
        deleting = asyncio.create_task(store.delete_topics(["T"]))
        await deleting
        crashed = clone(image, 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        crashed.process_died()
        again, running = await _open(crashed)
        assert again.queues.find("T", 0) is None
        await again.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_a_deletion_that_was_cut_short_brings_no_other_topic_and_no_earlier_life_back() -> None:
    async def main() -> None:
        image = fresh_image()
        store, running = await _open(image)
        for topic in ("Gone", "Half"):
            for _ in range(3):
                store.append(draft(topic=topic))
            await store.delete_topics([topic])
        places = [store.append(draft(topic="Half")) for _ in range(2)]
        await store.reached(places[-1].end, FLUSHED)
        await store.views.flush(store._log_flushed)
        await store.queues.delete_topic("Half")  # the files go, and no snapshot says so yet
        crashed = clone(image, 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        crashed.process_died()
        again, running = await _open(crashed)
        assert again.queues.find("Gone", 0) is None
        half = again.queues.find("Half", 0)
        assert half is not None
        found = [again.queues.entry(half, number)[0] for number in range(half.max_offset)]
        assert found == [place.physical_offset for place in places]
        await again.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
