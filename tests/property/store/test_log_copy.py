"""A copied log: whatever the pieces in which the bytes come, log, queues and index are those of the original."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firearrow.model import EpochMs, Host
from firearrow.record.encode import Draft
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import encode_properties
from firearrow.store.config import LogConfig
from firearrow.store.placement import WRITTEN
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.store import Store, StoreConfig
from firearrow.testing.sim.world import Node, World

HOST = host_bytes(Host("10.0.0.1", 10911))
SEGMENT = 4096
CONFIG = StoreConfig(log=LogConfig(mapped_file_size_commit_log=SEGMENT))
MESSAGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 900)), max_size=30)
PIECES = st.lists(st.integers(1, 3000), min_size=1, max_size=20)


async def original(world: World, messages: list[tuple[int, int]]) -> Store:
    node = world.node("master")
    store = await Store.open(node.disk, node.clock, CONFIG, node.boot_id)
    for number, (queue_id, size) in enumerate(messages):
        properties = encode_properties({"KEYS": f"k{number}", "TAGS": "a"})
        store.append(Draft("T", queue_id, b"x" * size, properties, EpochMs(1_700_000_000_000), HOST, HOST))
    await store.reached(store.log.tail, WRITTEN)
    return store


async def copy_of(node: Node, master: Store, sizes: list[int], first: int) -> Store:
    slave = await Store.open(node.disk, node.clock, CONFIG, node.boot_id, is_copy=True)
    at, turn = first, 0
    while at < master.log.written:
        data = master.read_from(at, sizes[turn % len(sizes)])
        await slave.copy.take(at, data)
        at, turn = at + len(data), turn + 1
        if turn % 7 == 6:  # a lost connection: the stream goes on behind the last whole record
            slave.copy.interrupted()
            at = slave.copy.end
            sizes = [max(sizes) + 1500, *sizes]  # so that every record comes whole at some time
    return slave


async def queues_of(store: Store) -> list[Any]:
    found = []
    for queue_id in range(3):
        read = await store.read("T", queue_id, ReadRequest(store.min_offset("T", queue_id), 100, 1 << 20))
        found.append((store.max_offset("T", queue_id), b"".join(map(bytes, read.buffers))))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(messages=MESSAGES, sizes=PIECES, from_newest=st.booleans())
def test_a_copy_is_equal(messages: list[tuple[int, int]], sizes: list[int], from_newest: bool) -> None:
    async def scenario(world: World) -> None:
        master = await original(world, messages)
        end = master.log.written
        first = end - end % SEGMENT if from_newest else 0
        node = world.node("slave")
        slave = await copy_of(node, master, sizes, first)
        assert slave.copy.end == slave.log.written == end or (end == first and not slave.copy.end)
        for at in range(first, end, 512):
            size = min(512, end - at, SEGMENT - at % SEGMENT)
            assert slave.read_from(at, size) == master.read_from(at, size)
        tasks = [asyncio.create_task(store.run()) for store in (master, slave)]
        await asyncio.sleep(1)  # of the simulation: the queues follow the log
        if first == 0:
            assert await queues_of(slave) == await queues_of(master)
            for number in range(len(messages)):
                found = await slave.lookups.by_key("T", f"k{number}", 10, 0, 1 << 62)
                assert len(found.records) == 1
        await slave.close()
        await master.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        again = await Store.open(node.disk, node.clock, CONFIG, node.boot_id, is_copy=True)
        assert again.log.written == slave.copy.end
        assert len(again.opened.damage) == 0

    World(1).run(scenario)
