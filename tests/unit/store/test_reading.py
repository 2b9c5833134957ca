"""A store looked at from outside: while it runs, after it closed, and as Apache would have left it."""

import asyncio

from firearrow.record.layout import Buffer
from firearrow.store.inspect import Verified, overview, verify
from firearrow.store.reading import StoreView
from firearrow.testing.sim.diskimage import DiskImage
from tests.property.store.shop import Shop, open_shop
from tests.simulation.store.kit import InstantDisk, draft, fresh_image


async def _filled(image: DiskImage, count: int = 60) -> Shop:
    shop = await open_shop(image)
    for number in range(count):
        shop.append(draft(b"x" * 300, "T", number % 2, f"KEYS\x01k{number}\x02"))
    await shop.flush_all()
    return shop


async def _verified(image: DiskImage) -> Verified:
    view = await StoreView.open(InstantDisk(image))
    seen = await overview(view)
    done: list[int] = []
    verified = await verify(view, seen, done.append)
    assert sum(done) == seen.log_end - seen.log_start
    return verified


def test_everything_is_seen_beside_a_running_writer() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        before = shop.disk.calls
        disk = InstantDisk(image)
        view = await StoreView.open(disk)
        seen = await overview(view)
        assert seen.log_end == shop.running.log.written
        assert seen.flushed == shop.running.log.flushed
        assert (seen.segment_bytes, seen.in_use, seen.ranges) == (8192, True, [(0, None)])
        assert [(queue.topic, queue.queue_id, queue.start, queue.end) for queue in seen.queues] == [
            ("T", 0, 0, 30),
            ("T", 1, 0, 30),
        ]
        assert sum(line.keys for line in seen.index_files) == 60
        assert seen.checkpoint.queues_ms == shop.clock.at_ms
        entries = await view.entries(seen.queues[1], 5, 100)
        assert len(entries) == 5, "up to the end of a file"
        assert entries[0][0] == shop.views.queues.entry(shop.views.queues.tail_of("T", 1), 5)[0]
        assert (disk.calls, shop.disk.calls) == (0, before), "nothing was written"
        view.close()

    asyncio.run(main())


def test_verifying_ours_finds_every_record_whole() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        await shop.close()
        verified = await _verified(image)
        assert (verified.records, verified.whole, verified.unprotected, verified.clean) == (60, 60, [], True)

    asyncio.run(main())


def test_verifying_without_our_sidecars_says_what_is_unprotected() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        await shop.close()
        disk = InstantDisk(image)
        for name in await disk.list("firearrow"):
            if name != "index":
                await disk.unlink(f"firearrow/{name}")
        verified = await _verified(image)
        assert (verified.records, verified.whole, verified.clean) == (60, 0, True)
        assert verified.unprotected[0][0] == 0
        assert len(verified.unprotected) == len(await disk.list("commitlog")), "a run for each file"

    asyncio.run(main())


def test_rot_is_reported_with_its_place() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        await shop.close()
        place = shop.views.queues.entry(shop.views.queues.tail_of("T", 0), 4)
        image.file(f"commitlog/{place[0] - place[0] % 8192:020d}").rot(place[0] % 8192 + 100, 1)
        verified = await _verified(image)
        assert [(bad.start, bad.end) for bad in verified.bad] == [(place[0], place[0] + place[1])]
        assert not verified.clean

    asyncio.run(main())


def test_a_queue_behind_the_log_is_reported() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        shop.append(draft(topic="New"))
        await shop.flush_log()
        verified = await _verified(image)
        assert [(one.topic, one.entries_end, one.records_end) for one in verified.queues] == [("New", 0, 1)]

    asyncio.run(main())


def test_an_empty_directory_is_an_empty_store() -> None:
    async def main() -> None:
        disk = InstantDisk(fresh_image())
        disk.make_directory("commitlog")
        seen = await overview(await StoreView.open(disk))
        assert (seen.log_start, seen.log_end, seen.queues, seen.in_use) == (0, 0, [], False)

    asyncio.run(main())


def test_records_come_in_pieces_with_their_bytes() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        view = await StoreView.open(InstantDisk(image))
        bodies: list[Buffer] = []
        async for piece in view.pieces(0, shop.running.log.written):
            bodies += [head.body(piece.data) for head in piece.heads]
            assert piece.bad == ""
        assert bodies == [b"x" * 300] * 60

    asyncio.run(main())
