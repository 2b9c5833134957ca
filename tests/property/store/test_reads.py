"""Reads and look-ups give what a naive model gives, hot and cold; and rot of queues and index is put right."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.errors import OffsetNotStored
from firearrow.model.java_hash import java_hash
from firearrow.record.decode import heads
from firearrow.record.message_id import offset_message_id
from firearrow.record.properties import decode_properties
from firearrow.store.queue.consume_queue import ENTRY_BYTES, SCHEDULE_TOPIC
from firearrow.store.read.lookup import MAX_FOUND, Boundary
from firearrow.store.read.queue_reader import ReadRequest, ReadResult, ReadStatus
from tests.property.store.shop import Shop, Truth, open_shop, truth_of
from tests.property.store.test_views import agrees, play
from tests.simulation.store.kit import FrozenClock, clone, draft, fresh_image


def offsets_in(pulled: ReadResult) -> list[int]:
    """The queue offsets of the records in an answer."""
    return [head.queue_offset for buffer in pulled.buffers for head in heads(bytes(buffer))]


async def read_through(shop: Shop, topic: str, queue_id: int, tags: frozenset[int] | None, rng: random.Random) -> bytes:
    """Everything in a queue, an answer at a time."""
    offset, data = 0, b""
    while True:
        pull = ReadRequest(offset, rng.randrange(1, 6), rng.choice([1, 300, 100_000]), tags)
        pulled = await shop.reader.read(topic, queue_id, pull)
        if pulled.status in (ReadStatus.OFFSET_OVERFLOW_ONE, ReadStatus.NO_MESSAGE_IN_QUEUE):
            return data
        assert pulled.status in (ReadStatus.FOUND, ReadStatus.NO_MATCHED_MESSAGE, ReadStatus.MESSAGE_WAS_REMOVING)
        assert pulled.next_offset > offset
        assert pulled.messages <= pull.max_messages
        assert pulled.size == sum(map(len, pulled.buffers))
        assert pulled.messages == 1 or pulled.size <= pull.max_bytes
        data += b"".join(pulled.buffers)
        offset = pulled.next_offset


def expected(truth: Truth, topic: str, queue_id: int, tag: str | None) -> bytes:
    """The same by the log alone."""
    found = b""
    for record, head in zip(truth.records.values(), truth.heads.values(), strict=True):
        if head.topic != topic or head.queue_id != queue_id or head.sys_flag & 4:
            continue
        properties = decode_properties(record[-(head.end - head.properties_start) :])
        if tag is None or properties.get("TAGS") == tag:
            found += record
    return found


async def reads_agree(shop: Shop, rng: random.Random) -> None:
    """Every queue reads as the log says, with and without a filter."""
    await shop.flush_log()
    truth = await truth_of(shop)
    for queue in list(shop.views.queues):
        for tag in (None, "a", "last") if queue.topic != SCHEDULE_TOPIC else (None,):
            tags = None if tag is None else frozenset({java_hash(tag)})
            found = await read_through(shop, queue.topic, queue.queue_id, tags, rng)
            assert found == expected(truth, queue.topic, queue.queue_id, tag)


async def lookups_agree(shop: Shop, rng: random.Random) -> None:
    """Places, ids, keys and times lead where the log says."""
    truth = await truth_of(shop)
    for physical, head in truth.heads.items():
        assert await shop.lookups.by_physical(physical) == truth.records[physical]
        assert await shop.lookups.by_message_id(offset_message_id(head.store_host, head.physical_offset)) is not None
        with pytest.raises(OffsetNotStored):
            await shop.lookups.by_physical(physical + 1)
    for (topic, key), places in truth.keys.items():
        begin = rng.choice([0, *(truth.heads[place].store_timestamp for place in places)])
        end = rng.choice([1 << 60, *(truth.heads[place].store_timestamp for place in places)])
        found = await shop.lookups.by_key(topic, key, 1000, begin, end)
        right = [truth.records[p] for p in places if begin <= truth.heads[p].store_timestamp <= end]
        assert found.records == right[:MAX_FOUND]
    await times_agree(shop, truth)


async def times_agree(shop: Shop, truth: Truth) -> None:
    """Both boundaries of every time there is, and of those around it."""
    for queue in shop.views.queues:
        stored = [
            head.store_timestamp
            for head in truth.heads.values()
            if (head.topic, head.queue_id) == (queue.topic, queue.queue_id) and not head.sys_flag & 4
        ]
        for time in {t + d for t in stored for d in (-1, 0, 1)}:
            lower = await shop.lookups.offset_by_time(queue, time)
            assert lower == next((n for n, t in enumerate(stored) if t >= time), len(stored))
            upper = await shop.lookups.offset_by_time(queue, time, Boundary.UPPER)
            assert upper == max((n for n, t in enumerate(stored) if t <= time), default=0)
        assert await shop.lookups.earliest_ms(queue) == (stored[0] if stored else -1)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), sync=st.booleans())
def test_reads_and_lookups_agree_with_the_log(seed: int, sync: bool) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        image, clock = fresh_image(seed), FrozenClock()
        shop = await open_shop(image, sync=sync, clock=clock)
        await play(shop, rng, 40)
        await reads_agree(shop, rng)
        await lookups_agree(shop, rng)
        await shop.close()
        shop = await open_shop(image, sync=sync, clock=clock)
        await reads_agree(shop, rng)
        await play(shop, rng, 10)
        await reads_agree(shop, rng)
        await lookups_agree(shop, rng)

    asyncio.run(main())


def test_every_bit_of_queue_and_index_may_rot() -> None:
    async def main() -> None:
        rng = random.Random(5)
        image, clock = fresh_image(3), FrozenClock()
        shop = await open_shop(image, clock=clock)
        for number in range(9):
            properties = f"UNIQ_KEY\x01{number:032X}\x02KEYS\x01k{number % 2}\x02TAGS\x01a\x02"
            shop.append(draft(b"body", "T", number % 2, properties))
        await shop.close()
        names = [f"consumequeue/T/{queue_id}/{0:020d}" for queue_id in (0, 1)]
        names += [f"index/{name}" for name in await shop.disk.list("index")]
        tried = 0
        for name in names:
            for position in range(shop.disk.status(name).size):
                if name.startswith("consumequeue") and position >= 5 * ENTRY_BYTES:
                    continue
                rotten = clone(image, position)
                rotten.file(name).rot(position, rng.randrange(8))
                again = await open_shop(rotten, clock=clock)
                await reads_agree(again, rng)
                await lookups_agree(again, rng)
                await agrees(again)
                tried += 1
        assert tried > 500

    asyncio.run(main())


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (0, ReadStatus.FOUND, 3),
        (3, ReadStatus.OFFSET_OVERFLOW_ONE, 3),
        (9, ReadStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
def test_where_a_read_begins_decides_its_status(offset: int, status: ReadStatus, next_offset: int) -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        for _ in range(3):
            shop.append(draft(topic="T"))
        await shop.flush_log()
        pulled = await shop.reader.read("T", 0, ReadRequest(offset, 32, 1 << 20))
        assert (pulled.status, pulled.next_offset, pulled.min_offset, pulled.max_offset) == (status, next_offset, 0, 3)
        assert (await shop.reader.read("T", 9, ReadRequest(0, 1, 1))).status is ReadStatus.NO_MATCHED_LOGIC_QUEUE
        shop.views.queues.tail_of("T", 5)
        assert (await shop.reader.read("T", 5, ReadRequest(0, 1, 1))).status is ReadStatus.NO_MESSAGE_IN_QUEUE

    asyncio.run(main())
