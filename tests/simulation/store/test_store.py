"""The whole store in a simulated world: what is appended is found, after an end in order and after a crash."""

import asyncio

import pytest

from campaigns.drafts import append_batch
from firearrow.errors import DiskError
from firearrow.record.decode import decode_all
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.placement import FLUSHED
from firearrow.store.queue.table import QueueConfig
from firearrow.store.read.queue_reader import ReadRequest, ReadStatus
from firearrow.store.store import Store, StoreConfig
from firearrow.store.views.views import ViewsConfig
from firearrow.testing.sim.world import Node, World
from tests.simulation.store.kit import config, draft

QUEUES = 3
SETTINGS = StoreConfig(
    log=config(segment=8192),
    views=ViewsConfig(
        queues=QueueConfig(mapped_file_size_consume_queue=400, dispatch_flush_interval=50),
        index=IndexConfig(max_hash_slot_num=50, max_index_num=100),
    ),
)


async def _opened(node: Node, boot: str) -> Store:
    return await Store.open(node.disk, node.clock, SETTINGS, boot)


async def _append(store: Store, numbers: range) -> None:
    for number in numbers:
        properties = f"KEYS\x01k{number}\x02TAGS\x01t{number % 2}\x02"
        place = store.append(draft(b"%d" % number, queue_id=number % QUEUES, properties=properties))
        if number % 5 == 0:
            await store.reached(place.end, FLUSHED)
    batch = append_batch(store, [draft(b"batch", queue_id=QUEUES) for _ in range(4)])
    await store.reached(batch.end, FLUSHED)


async def _check(store: Store, numbers: range, batches: int) -> None:
    """Everything is where it should be, by queue and by key."""
    for queue_id in range(QUEUES):
        bodies: list[bytes] = []
        offset = 0
        while True:
            pulled = await store.read("T", queue_id, ReadRequest(offset, 8, 1 << 20))
            if pulled.status is not ReadStatus.FOUND:
                break
            bodies += [message.body for buffer in pulled.buffers for message in decode_all(buffer)]
            offset = pulled.next_offset
        assert bodies == [b"%d" % number for number in numbers if number % QUEUES == queue_id]
    for number in numbers:
        (record,) = (await store.lookups.by_key("T", f"k{number}", 10, 0, 1 << 50)).records
        assert next(decode_all(record)).body == b"%d" % number
    queue = store.queues.find("T", QUEUES)
    assert queue is not None
    assert queue.max_offset == 4 * batches


@pytest.mark.parametrize("how", ["close", "crash", "power"])
@pytest.mark.parametrize("seed", range(4))
def test_everything_is_found_again(seed: int, how: str) -> None:
    boot = "boot-1"

    async def first(node: Node) -> None:
        store = await _opened(node, boot)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(store.run())
            await _append(store, range(60))
            await asyncio.sleep(world.rng.random() * 0.2)
            if how == "close":
                await store.close()
            task.cancel()

    async def second(node: Node) -> None:
        store = await _opened(node, boot)
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run())
            await _check(store, range(60), batches=1)
            await _append(store, range(60, 90))
            await _check(store, range(90), batches=2)
            await store.close()

    async def scenario(world: World) -> None:
        nonlocal boot
        node = world.node("disk")
        node.start(first)
        await node.finished()
        if how == "power":
            boot = "boot-2"
            await node.power_loss()
        else:
            await node.crash()
        node.start(second)
        await node.finished()

    world = World(seed)
    world.run(scenario)


def test_the_log_is_copied_by_its_tail() -> None:
    async def program(node: Node) -> None:
        store = await _opened(node, "b")
        copied = bytearray()
        grown = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run())
            sending = group.create_task(_append(store, range(40)))
            while not sending.done() or len(copied) < store.log.written:
                piece = store.read_from(len(copied), 1000)
                copied += piece
                if not piece and not sending.done():
                    grown.clear()
                    store.on_growth(grown.set)
                    await asyncio.wait([sending, group.create_task(grown.wait())], return_when="FIRST_COMPLETED")
                    grown.set()
            assert bytes(copied[:4096]) == store.bytes.read_hot(0, 4096)
            assert len(copied) == store.log.written
            await store.close()

    _run(program)


def test_a_second_store_is_kept_out_and_the_first_goes_on() -> None:
    async def program(node: Node) -> None:
        store = await _opened(node, "b")
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run())
            with pytest.raises(DiskError):
                await _opened(node, "b")
            await _append(store, range(5))
            await store.close()
        await (await _opened(node, "b")).close()

    _run(program)


def test_views_that_cannot_be_flushed_fence_the_store() -> None:
    async def program(node: Node) -> None:
        store = await _opened(node, "b")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(store.run())
            await _append(store, range(5))
            node.image.fail("sync", path="consumequeue/T/0/00000000000000000000")
            await asyncio.sleep(1)
            assert store.log.fenced is not None
            with pytest.raises(DiskError):
                store.append(draft(b"more"))
            task.cancel()

    _run(program)


def _run(program: object) -> None:
    async def scenario(world: World) -> None:
        node = world.node("disk")
        node.start(program)  # type: ignore[arg-type]
        await node.finished()

    World(1).run(scenario)
