"""A store looked at from outside: while it runs, after it closed, and as Apache would have left it."""

import asyncio

import pytest

from firearrow.errors import OffsetNotStored
from firearrow.record.decode import peek
from firearrow.record.layout import Buffer
from firearrow.store.inspection.directory import StoreView
from firearrow.store.inspection.inspect import StoreVerification, overview, verify
from firearrow.store.queue.consume_queue import ENTRY, FILLER
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import Shop, open_shop
from tests.simulation.store.kit import FrozenClock, InstantDisk, draft, fresh_image


async def _filled(image: DiskImage, count: int = 60) -> Shop:
    shop = await open_shop(image)
    for number in range(count):
        shop.append(draft(b"x" * 300, "T", number % 2, f"KEYS\x01k{number}\x02"))
    await shop.flush_all()
    return shop


async def _verified(image: DiskImage) -> StoreVerification:
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


def test_entries_come_as_one_buffer_through_several_files() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        view = await StoreView.open(InstantDisk(image))
        queue = (await view.queues("T"))[1]
        tail = shop.views.queues.tail_of("T", 1)
        wanted = [shop.views.queues.entry(tail, offset) for offset in range(3, 30)]
        assert list(ENTRY.iter_unpack(view.entry_bytes(queue, 3, 1000))) == wanted
        assert view.entry_bytes(queue, 30, 5) == b""
        physical, size, _ = wanted[7]
        assert peek(view.log_bytes(physical, size)).queue_offset == 10
        assert len(view.log_bytes(8000, 1000)) == 192, "up to the end of a file"

    asyncio.run(main())


def test_offsets_are_found_by_place_and_time() -> None:
    async def main() -> None:
        image = fresh_image()
        clock = FrozenClock()
        shop = await open_shop(image, clock=clock)
        places = []
        for number in range(40):
            clock.at_ms = 1_700_000_000_000 + 10 * number
            places.append(shop.append(draft(b"x" * 300, "T", 0)).physical_offset)
        await shop.flush_all()
        view = await StoreView.open(InstantDisk(image))
        (queue,) = await view.queues("T")
        for number in range(40):
            at_ms = 1_700_000_000_000 + 10 * number
            assert view.offset_by_time(queue, at_ms) == number
            assert view.offset_by_time(queue, at_ms + 1) == number + 1
            assert view.first_at(queue, places[number]) == number
            assert view.first_at(queue, places[number] + 1) == number + 1
        assert view.offset_by_time(queue, 0) == view.first_kept(queue) == 0

    asyncio.run(main())


def test_files_deleted_under_ones_hands_are_said_and_passed_over() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image)
        disk = InstantDisk(image)
        view = await StoreView.open(disk)
        queue = (await view.queues("T"))[0]
        await disk.unlink("commitlog/00000000000000000000")
        await disk.unlink("consumequeue/T/0/00000000000000000000")
        with pytest.raises(OffsetNotStored, match="begin at a later offset"):
            view.entry_bytes(queue, 0, 8)
        await view.refresh()
        with pytest.raises(OffsetNotStored, match="the log begins at 8192"):
            view.log_bytes(10, 10)
        queue = (await view.queues("T"))[0]
        first = view.first_kept(queue)
        assert 5 <= first == view.offset_by_time(queue, 0)
        assert shop.views.queues.entry(shop.views.queues.tail_of("T", 0), first)[0] >= 8192

    asyncio.run(main())


def test_files_of_the_log_that_came_since_are_seen_after_a_refresh() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image, 10)
        view = await StoreView.open(InstantDisk(image))
        before = len(await view.log_files())
        last = shop.append(draft(b"x" * 6000))
        for _ in range(3):
            last = shop.append(draft(b"x" * 6000))
        await shop.flush_all()
        with pytest.raises(OffsetNotStored):
            view.log_bytes(last.physical_offset, 100)
        await view.refresh()
        assert len(await view.log_files()) > before
        assert peek(view.log_bytes(last.physical_offset, 8192)).queue_offset == last.queue_offset

    asyncio.run(main())


def test_entries_that_lead_nowhere_do_not_mislead_a_look_up_by_time() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _filled(image, 20)
        queues = shop.views.queues
        tail = queues.tail_of("T", 0)
        for offset in (0, 4, 5, 9):
            queues.writer.rewrite(tail, offset, FILLER if offset != 9 else ENTRY.pack(1 << 40, 91, 0))
        view = await StoreView.open(InstantDisk(image))
        queue = (await view.queues("T"))[0]
        assert (view.first_kept(queue), view.offset_by_time(queue, 0)) == (1, 1)
        assert view.offset_by_time(queue, shop.clock.at_ms + 1) in (9, queue.end)

    asyncio.run(main())
