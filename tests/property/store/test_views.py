"""Queues and index are what the log says, after any appends, flushes and crashes."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.errors import StoreFenced
from firearrow.model.flags import PREPARED, ROLLBACK
from firearrow.store.queue.consume_queue import ENTRY_BYTES, SCHEDULE_TOPIC
from tests.property.store.shop import Shop, entries_of, keys_of_index, open_shop, truth_of
from tests.simulation.store.kit import Died, FrozenClock, clone, draft, fresh_image

TOPICS = ("T", "Ünïcode", SCHEDULE_TOPIC, "%RETRY%g")
Step = Callable[[Shop, random.Random], Any]


def some_draft(rng: random.Random, topic: str | None = None, queue_id: int | None = None) -> Any:
    """A message of any kind."""
    properties = ""
    if rng.random() < 0.8:
        properties += f"UNIQ_KEY\x01{rng.getrandbits(128):032X}\x02"
    if rng.random() < 0.5:
        words = rng.choice(["k1", "k1 k2", "k\u4e2d k1  k3", "a" * 40, "\x01"])
        properties += f"KEYS\x01{words}\x02"
    if rng.random() < 0.6:
        tag = rng.choice(["a", "b", "\u4e2d", ""])
        properties += f"TAGS\x01{tag}\x02"
    if rng.random() < 0.3:
        properties += f"DELAY\x01{rng.choice([0, 1, 3, 18, 99])}\x02"
    if rng.random() < 0.1:
        properties += "xTAGS\x01no\x02TAGS\x01last\x02"
    flag = rng.choice([0, 0, 0, 0, 0, 0, PREPARED, ROLLBACK])
    return draft(
        bytes(rng.randrange(60)),
        topic or rng.choice(TOPICS),
        rng.randrange(3) if queue_id is None else queue_id,
        properties,
        sys_flag=flag if topic is None else 0,
    )


async def play(shop: Shop, rng: random.Random, steps: int) -> None:
    """Do something to a store."""
    for _ in range(steps):
        shop.clock.at_ms += rng.choice([0, 0, 1, 500, 3000])
        luck = rng.random()
        if luck < 0.7:
            shop.append(some_draft(rng))
        elif luck < 0.8:
            topic, queue_id = rng.choice(TOPICS), rng.randrange(3)
            shop.append_batch([some_draft(rng, topic, queue_id) for _ in range(rng.randrange(1, 8))])
        elif luck < 0.9:
            await shop.flush_log()
        else:
            await shop.flush()


async def agrees(shop: Shop) -> None:
    """Queues and index hold exactly what the log says."""
    await shop.flush_log()
    truth = await truth_of(shop)
    assert entries_of(shop) == dict(truth.entries)
    assert await keys_of_index(shop, truth) == dict(truth.keys)
    for queue in shop.views.queues:
        offsets = truth.entries.get((queue.topic, queue.queue_id), {})
        assert queue.next_offset == queue.max_offset == (max(offsets) + 1 if offsets else 0)


def files_end_with_zeros(shop: Shop) -> None:
    """After a flush nothing lies behind the last entry of a queue, and every file has its full length."""
    per_file = shop.views.queues.files.per_file
    for queue in shop.views.queues:
        for first in range(queue.start, queue.max_offset, per_file):
            path = f"consumequeue/{queue.topic}/{queue.queue_id}/{first * ENTRY_BYTES:020d}"
            data = shop.disk.open(path).read_at(0, 1 << 20)
            assert len(data) == per_file * ENTRY_BYTES
            used = min(queue.max_offset - first, per_file) * ENTRY_BYTES
            assert data[used:] == bytes(len(data) - used)


async def die_inside(shop: Shop, rng: random.Random) -> None:
    """Flush or close, and die at some call on the way."""
    shop.disk._dies_at = shop.disk.calls + rng.randrange(80)
    with suppress(Died, StoreFenced):
        await (shop.close() if rng.random() < 0.3 else shop.flush_all())


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32), runs=st.integers(1, 4), sync=st.booleans())
def test_views_agree_with_the_log_after_any_run_and_crash(seed: int, runs: int, sync: bool) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        image = fresh_image(seed)
        clock = FrozenClock()
        boot = 1
        for _ in range(runs):
            shop = await open_shop(image, f"boot-{boot}", sync=sync, clock=clock)
            await agrees(shop)
            shop.views.queues.writer.synced_each = rng.choice([0, 2, 100])
            await play(shop, rng, rng.randrange(40))
            ending = rng.choice(["close", "die", "power", "power", "inside"])
            if ending == "close":
                await agrees(shop)
                await shop.close()
                files_end_with_zeros(shop)
            else:
                if ending == "inside":
                    await die_inside(shop, rng)
                image = clone(image, rng.getrandbits(32))
                image.process_died()
                if ending != "die":
                    image.lose_power()
                    boot += 1
        shop = await open_shop(image, f"boot-{boot}", sync=sync, clock=clock)
        await agrees(shop)
        await shop.flush()
        files_end_with_zeros(shop)

    asyncio.run(main())
