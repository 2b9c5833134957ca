"""Long work leaves turns to others: putting queue entries right, making an index again, flushing many queues."""

import asyncio
from collections.abc import Awaitable, Callable

from firearrow.store.dispatch import Dispatch
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.queue.table import QueueConfig, Queues
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.views.views import ViewsConfig
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import Shop, open_shop
from tests.simulation.store.kit import InstantDisk, draft, fresh_image

MESSAGES = 3000
VIEWS = ViewsConfig(
    queues=QueueConfig(mapped_file_size_consume_queue=100_000),
    index=IndexConfig(max_hash_slot_num=100, max_index_num=10_000),
)


async def _open(image: DiskImage) -> Shop:
    return await open_shop(image, segment=4 << 20, sync=False, views_config=VIEWS)


async def _closed(image: DiskImage) -> None:
    shop = await _open(image)
    for number in range(MESSAGES):
        shop.append(draft(b"x" * 100, properties=f"KEYS\x01k{number}\x02"))
    await shop.close()


async def _turns_beside(work: Awaitable[object]) -> int:
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
    counting.cancel()
    return turns - before


def _rotten(
    path: Callable[[DiskImage], str], position: int, data: bytes, look: Callable[[Shop], Awaitable[object]]
) -> int:
    """The number of turns of others while rotten entries were put right."""

    async def main() -> int:
        image = fresh_image()
        await _closed(image)
        image.file(path(image)).write(position, data)
        return await _turns_beside(look(await _open(image)))

    return asyncio.run(main())


def test_wrong_entries_are_made_again_in_turns() -> None:
    async def read(shop: Shop) -> None:
        pulled = await shop.reader.read("T", 0, ReadRequest(100, 32, 1 << 20))
        assert pulled.messages == 32

    turns = _rotten(lambda _: "consumequeue/T/0/00000000000000000000", 2000, bytes(2000 * 20), read)
    assert turns >= 2000 // 32


def test_an_index_file_is_made_again_in_turns() -> None:
    async def ask(shop: Shop) -> None:
        found = await shop.lookups.by_key("T", "k2000", 10, 0, 1 << 60)
        assert len(found.records) == 1

    def index_file(image: DiskImage) -> str:
        return f"index/{next(iter(image.directory('index').names))}"

    assert _rotten(index_file, 40_440, b"\xff" * 400, ask) >= 5


def test_many_queues_are_flushed_in_turns() -> None:
    async def main() -> None:
        shop = await _open(fresh_image())
        for number in range(MESSAGES):
            shop.append(draft(topic=f"T{number}"))
        await shop.flush_log()
        assert await _turns_beside(shop.flush()) >= MESSAGES // 32 + MESSAGES // 256

    asyncio.run(main())


class _ClockOfWork(asyncio.SelectorEventLoop):
    """A loop on which work takes as long as a test says."""

    worked_s = 0.0

    def time(self) -> float:
        """The time that has passed, and the time that was worked."""
        return super().time() + self.worked_s


class _SlowDisk(InstantDisk):
    """Making a file takes two milliseconds."""

    def step(self, operation: str, path: str) -> None:
        if operation == "create":
            loop = asyncio.get_running_loop()
            assert isinstance(loop, _ClockOfWork)
            loop.worked_s += 0.002
        super().step(operation, path)


def test_others_have_their_turn_after_every_file_that_takes_long_to_make() -> None:
    files = 20

    async def main() -> int:
        queues = Queues(_SlowDisk(fresh_image()), QueueConfig(mapped_file_size_consume_queue=100))
        dispatch = Dispatch(queues, None, (1000,))
        dispatch([(queues.tail_of(f"T{number}", 0), number * 100, 100, 0, 1, 0, b"") for number in range(files)])
        queues.writer.begin_flush(dispatch.position)
        return await _turns_beside(queues.writer.flush())

    with asyncio.Runner(loop_factory=_ClockOfWork) as runner:
        assert runner.run(main()) >= files
