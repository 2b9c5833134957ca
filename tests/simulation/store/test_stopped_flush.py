"""A flush of the views is stopped or fails at any place: an orderly end leaves everything in order all the same."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from firearrow.errors import DiskFull
from firearrow.store.index import files as index_module
from firearrow.store.index.active_file import ActiveIndex
from firearrow.store.index.checksums import PageSums
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.placement import FLUSHED
from firearrow.store.queue.table import QueueConfig
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.store import Store, StoreConfig
from firearrow.store.views.views import Views, ViewsConfig
from firearrow.testing.sim.world import Node, World
from tests.simulation.store.kit import config, draft

SETTINGS = StoreConfig(
    log=config(segment=1 << 20),
    views=ViewsConfig(
        queues=QueueConfig(mapped_file_size_consume_queue=4000, dispatch_flush_interval=600_000),
        index=IndexConfig(max_hash_slot_num=5000, max_index_num=10_000),
    ),
)
KEYS = 300
MOMENTS = range(64)

Disturb = Callable[[Store, Node], Awaitable[None]]


async def append(store: Store, numbers: range) -> None:
    end = 0
    for number in numbers:
        end = store.append(draft(b"%d" % number, properties=f"KEYS\x01k{number}\x02")).end
    await store.reached(end, FLUSHED)


async def flush(store: Store) -> None:
    await store.views.flush(lambda offset: store.reached(offset, FLUSHED))


def read_again(disturb: Disturb, patch: pytest.MonkeyPatch, seed: int = 1) -> int:
    """Bytes of the log that a start reads again after a disturbed flush and an end in order."""
    read: list[int] = []
    catch_up = Views.catch_up

    async def seen(self: Views, opened: OpenedLog) -> None:
        read.append(opened.recovered.end - self.durable)
        await catch_up(self, opened)

    async def first(node: Node) -> None:
        store = await Store.open(node.disk, node.clock, SETTINGS, "boot")
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run())
            await append(store, range(KEYS))
            await flush(store)
            await append(store, range(KEYS, 2 * KEYS))
            await disturb(store, node)
            await store.close()

    async def second(node: Node) -> None:
        store = await Store.open(node.disk, node.clock, SETTINGS, "boot")
        async with asyncio.TaskGroup() as group:
            group.create_task(store.run())
            for number in range(0, 2 * KEYS, 7):
                assert len((await store.lookups.by_key("T", f"k{number}", 10, 0, 1 << 50)).records) == 1
            await store.close()

    async def scenario(world: World) -> None:
        node = world.node("disk")
        node.start(first)
        await node.finished()
        node.start(second)
        await node.finished()

    with patch.context() as patched:
        patched.setattr(Views, "catch_up", seen)
        World(seed).run(scenario)
    return read[-1]


def stopped_after(quarters: int) -> Disturb:
    """A flush that is stopped after so many quarters of a millisecond, as the end of a broker stops it."""

    async def disturb(store: Store, _node: Node) -> None:
        flushing = asyncio.create_task(flush(store))
        await asyncio.sleep(quarters / 4000)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    return disturb


def without_space_at(operation: str, after: int) -> Disturb:
    """A flush that finds no space at one of its calls."""

    async def disturb(store: Store, node: Node) -> None:
        node.image.fail(operation, number=errno.ENOSPC, after=after)
        with suppress(DiskFull):
            await flush(store)
        node.image.mend()

    return disturb


def test_a_flush_that_is_stopped_costs_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [number for number in MOMENTS if read_again(stopped_after(number), monkeypatch)]


@pytest.mark.parametrize("number", range(16))
def test_a_flush_that_finds_no_space_costs_no_index(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_again(without_space_at("write", number), monkeypatch) == 0


def loses_the_changed_ranges(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: what a flush wrote is forgotten when it is stopped before the checksums are written."""

    async def write_durably(active: ActiveIndex, sums: PageSums) -> None:
        await active.write_out()
        changed = list(active.unsummed)
        active.unsummed.clear()
        await active.file.sync()
        await sums.renew(active.file, changed)

    patch.setattr(index_module, "_write_durably", write_durably)


def test_ranges_that_are_forgotten_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    loses_the_changed_ranges(monkeypatch)
    assert [number for number in MOMENTS if read_again(stopped_after(number), monkeypatch)]
