"""The journal of queues: a flush costs what changed, in turns with others, and no torn or rotten byte is believed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.queue.table import QueueConfig, Queues
from firearrow.store.views.snapshot import COPIES, QUEUES_A_LINE, ViewsJournal, ViewsState, _framed, read_journal
from firearrow.store.views.views import ViewsConfig
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import SMALL_INDEX, Shop, open_shop
from tests.simulation.store.kit import InstantDisk, clone, draft, fresh_image

TOPICS = 300
VIEWS_OF_ONE_FILE = ViewsConfig(queues=QueueConfig(mapped_file_size_consume_queue=20_000), index=SMALL_INDEX)


def _standing(durable: int = 0) -> ViewsState:
    return ViewsState(
        durable=durable,
        store_ms=1,
        closed=False,
        checkpoint_crc=2,
        queue_file_bytes=100,
        index_slots=0,
        index_entries=0,
        index=None,
    )


def _empty() -> InstantDisk:
    disk = InstantDisk(fresh_image())
    disk.make_directory("firearrow")
    return disk


def _many(count: int) -> Queues:
    queues = Queues(InstantDisk(fresh_image()), QueueConfig(mapped_file_size_consume_queue=100))
    for number in range(count):
        queues.add(ConsumeQueue(f"topic-{number}", 0, 0, 3))
    return queues


async def _turns_beside(work: Awaitable[object]) -> int:
    """The number of turns of others while a coroutine ran."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    before = turns
    await work
    counted = turns - before
    counting.cancel()
    return counted


async def _fill(shop: Shop) -> None:
    for number in range(TOPICS):
        shop.append(draft(topic=f"T{number}"))
    await shop.flush_all()


def _of_journal(image: DiskImage) -> int:
    return image.file(COPIES[0]).size


def test_a_flush_writes_what_changed() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await open_shop(image, segment=1 << 20)
        await _fill(shop)
        before = _of_journal(image)
        shop.append(draft(topic="T7"))
        await shop.flush_all()
        assert 0 < _of_journal(image) - before < 1000

    asyncio.run(main())


def test_what_changed_is_found_after_a_crash() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await open_shop(image, segment=1 << 20)
        await _fill(shop)
        for number in range(5):
            shop.append(draft(topic=f"T{number}"))
            await shop.flush_all()
        await shop.views.delete_topics(["T9"], lambda _topic: None)
        await shop.flush()
        _, snapshot = await read_journal(shop.disk)
        assert snapshot is not None
        expected = {f"T{number}": {0: (0, 0, 2 if number < 5 else 1)} for number in range(TOPICS) if number != 9}
        assert snapshot.topics == expected
        image.process_died()
        again = await open_shop(image, segment=1 << 20)
        assert [again.views.queues.tail_of(f"T{number}", 0).max_offset for number in (4, 5)] == [2, 1]
        assert again.views.queues.find("T9", 0) is None

    asyncio.run(main())


@pytest.mark.parametrize("path", COPIES)
def test_a_rotten_byte_of_one_copy_changes_nothing(path: str) -> None:
    async def main() -> None:
        disk = _empty()
        journal = ViewsJournal(disk, 0)
        queues = [ConsumeQueue("T", number, 0, number + 1) for number in range(3)]
        await journal.write(_standing(1), [], queues)
        await journal.write(_standing(2), ["gone"], queues[:1])
        _, whole = await read_journal(disk)
        assert whole is not None
        assert whole.standing.durable == 2
        for at in range(disk.image.file(path).size):
            rotten = clone(disk.image, 1)
            rotten.file(path).rot(at, at % 8)
            assert (await read_journal(InstantDisk(rotten)))[1] == whole, f"byte {at}"

    asyncio.run(main())


@pytest.mark.parametrize("body", [b'{"x":' + b"[" * 5_000, b'{"\xff":1}', b'"\xff"'])
def test_a_frame_that_is_none_is_not_believed(body: bytes) -> None:
    """Whole by its checksum, and yet nothing that we write."""

    async def main() -> None:
        disk = _empty()
        await ViewsJournal(disk, 0).write(_standing(1), [], [])
        for path in COPIES:
            await disk.replace(path, await disk.read_whole(path) + _framed(2, body))
        _, snapshot = await read_journal(disk)
        assert snapshot is not None
        assert snapshot.standing.durable == 1

    asyncio.run(main())


def test_a_torn_frame_is_not_believed_and_nothing_follows_it() -> None:
    async def main() -> None:
        disk = _empty()
        image = disk.image
        journal = ViewsJournal(disk, 0)
        queue = ConsumeQueue("T", 0, 0, 1)
        await journal.write(_standing(1), [], [queue])
        first = image.file(COPIES[0]).size
        await journal.write(_standing(2), [], [queue])
        for path in COPIES:
            image.file(path).truncate(first + 30)
        journal, snapshot = await read_journal(disk)
        assert snapshot is not None
        assert snapshot.standing.durable == 1
        assert journal.wants_all
        await journal.write(_standing(3), [], [queue])
        _, snapshot = await read_journal(disk)
        assert snapshot is not None
        assert snapshot.standing.durable == 3

    asyncio.run(main())


def test_a_write_that_was_stopped_is_followed_by_one_of_all_queues() -> None:
    async def main() -> None:
        journal = ViewsJournal(_empty(), 0)
        queues = _many(3 * QUEUES_A_LINE)
        await journal.write(_standing(1), [], queues)
        assert not journal.wants_all
        stopped = asyncio.create_task(journal.write(_standing(2), [], list(queues)))
        await asyncio.sleep(0)
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
        assert journal.wants_all

    asyncio.run(main())


def test_the_file_is_replaced_when_changes_outgrow_it() -> None:
    async def main() -> None:
        disk = _empty()
        journal = ViewsJournal(disk, 0)
        queues = list(_many(500))
        for durable in range(20):
            await journal.write(_standing(durable), [], queues)
        assert disk.image.file(COPIES[0]).size < 300_000
        _, snapshot = await read_journal(disk)
        assert snapshot is not None
        assert snapshot.standing.durable == 19
        assert len(snapshot.topics) == 500

    asyncio.run(main())


async def _journal_of(queues: Queues) -> None:
    await ViewsJournal(_empty(), 0).write(_standing(), [], queues.in_turns())


async def _expired_of(queues: Queues) -> None:
    await queues.drop_files_below(0, 10)


@pytest.mark.parametrize("work", [_journal_of, _expired_of])
def test_others_have_their_turn_while_all_queues_are_walked(work: Callable[[Queues], Awaitable[None]]) -> None:
    assert asyncio.run(_turns_beside(work(_many(10_000)))) >= 9


def test_queues_are_not_walked_for_files_that_cannot_have_expired() -> None:
    async def main() -> None:
        queues = _many(10_000)
        await queues.drop_files_below(0, 10)
        assert await _turns_beside(queues.drop_files_below(0, 10)) <= 1

    asyncio.run(main())


class CountingDisk(InstantDisk):
    """Remembers what was done to queue files."""

    def __init__(self, image: DiskImage) -> None:
        super().__init__(image)
        self.done: list[tuple[str, str]] = []

    def step(self, operation: str, path: str) -> None:
        """Count a call."""
        super().step(operation, path)
        if path.startswith("consumequeue"):
            self.done.append((operation, path))


def test_a_start_after_a_crash_touches_only_files_with_something_behind_their_end() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await open_shop(image, segment=1 << 20, views_config=VIEWS_OF_ONE_FILE)
        await _fill(shop)
        ahead = [shop.views.queues.tail_of(f"T{number}", 0) for number in range(3)]
        for queue in ahead:
            shop.append(draft(topic=queue.topic))
        await shop.flush_log()
        for queue in ahead:
            shop.views.queues.writer.write_out(queue)
        image.process_died()
        disk = CountingDisk(image)
        again = await open_shop(image, segment=1 << 20, views_config=VIEWS_OF_ONE_FILE, disk=disk)
        cut = {path for operation, path in disk.done if operation == "truncate"}
        assert cut == {f"consumequeue/T{number}/0/00000000000000000000" for number in range(3)}
        assert [again.views.queues.tail_of(f"T{number}", 0).max_offset for number in (2, 3)] == [2, 1]
        assert ("sync_below", "consumequeue") not in disk.done
        again.append(draft(topic="T9"))
        await again.flush_all()
        assert ("sync_below", "consumequeue") in disk.done

    asyncio.run(main())
