"""A question by key holds nobody up, reads what it may hand out alone, and comes to an end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firearrow.store.index import key_index as index_module
from firearrow.store.index.files import IndexFiles
from firearrow.store.index.key_index import Index, IndexConfig
from firearrow.store.read.lookup import RECORD_WORK, Lookups
from firearrow.store.views.views import ViewsConfig
from tests.property.store.shop import SMALL_QUEUES, Shop, open_shop
from tests.simulation.store.kit import draft, fresh_image

ONE_FILE = IndexConfig(max_hash_slot_num=1, max_index_num=100_000)
MANY_FILES = IndexConfig(max_hash_slot_num=1, max_index_num=12)
KEYED = "KEYS\x01order\x02"
HOUR_MS = 3_600_000


def _run(scenario: Callable[[Shop], Awaitable[None]], config: IndexConfig = ONE_FILE) -> None:
    async def main() -> None:
        views = ViewsConfig(queues=SMALL_QUEUES, index=config)
        await scenario(await open_shop(fresh_image(), segment=8 << 20, sync=False, views_config=views))

    asyncio.run(main())


def _put(shop: Shop, count: int) -> None:
    for _ in range(count):
        shop.append(draft(properties=KEYED))


def _counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[None]:
    """Grows by one at each call of a method."""
    calls: list[None] = []
    real = getattr(owner, name)

    def counting(self: object, *given: object) -> object:
        calls.append(None)
        return real(self, *given)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_others_have_their_turn_while_a_long_chain_is_walked() -> None:
    async def scenario(shop: Shop) -> None:
        _put(shop, 3000)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(count())
        found = await shop.lookups.by_key("T", "another", 32, 0, 1 << 60)
        counting.cancel()
        assert not found.records
        assert turns >= 3000 // index_module.WORK_AT_ONCE

    _run(scenario)


def test_records_of_another_time_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(shop: Shop) -> None:
        begin_ms = shop.clock.at_ms
        for _ in range(3):
            _put(shop, 50)
            shop.clock.at_ms += HOUR_MS
        read = _counted(monkeypatch, Lookups, "_named_by")
        middle_ms = begin_ms + HOUR_MS
        found = await shop.lookups.by_key("T", "order", 64, middle_ms - 1000, middle_ms + 1000)
        assert len(found.records) == 50
        assert len(read) == 50

    _run(scenario)


def test_a_chain_is_left_where_it_becomes_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(shop: Shop) -> None:
        _put(shop, 500)
        shop.clock.at_ms += HOUR_MS
        _put(shop, 5)
        looked_at = _counted(monkeypatch, IndexFiles, "entry")
        found = await shop.lookups.by_key("T", "order", 64, shop.clock.at_ms - 1000, shop.clock.at_ms)
        assert len(found.records) == 5
        assert len(looked_at) <= 6

    _run(scenario)


def test_one_bound_holds_for_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(shop: Shop) -> None:
        _put(shop, 300)
        await shop.flush_all()
        monkeypatch.setattr(index_module, "MOST_WORK", 50)
        looked_at = _counted(monkeypatch, IndexFiles, "entry")
        await shop.lookups.by_key("T", "another", 64, 0, 1 << 60)
        await shop.lookups.by_key("T", "order", 64, 0, 1 << 60)
        assert 0 < len(looked_at) <= 2 * 50

    _run(scenario, MANY_FILES)


def test_messages_that_are_not_wanted_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(shop: Shop) -> None:
        first = shop.append(draft(properties=KEYED)).physical_offset
        _put(shop, 200)

        async def looked_up() -> int:
            found = await shop.lookups.by_key(
                "T", "order", 1, 0, 1 << 60, lambda _, head: head.physical_offset == first
            )
            return len(found.records)

        assert await looked_up() == 1
        monkeypatch.setattr(index_module, "MOST_WORK", 50 * RECORD_WORK)
        assert await looked_up() == 0, "the work of a lookup is bounded"

    _run(scenario)


def test_keys_that_wait_are_entered_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(shop: Shop) -> None:
        index = shop.views.index
        assert index is not None
        index._held_back = True
        _put(shop, 3000)
        monkeypatch.setattr(index_module, "ROWS_TAKEN", 100)
        entered = _counted(monkeypatch, Index, "absorb")
        found = await shop.lookups.by_key("T", "order", 64, 0, 1 << 60)
        assert len(found.records) == 64
        assert len(entered) == 30

    _run(scenario)


def test_an_index_that_is_gone_is_made_again_from_messages_with_unique_keys() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await open_shop(image, segment=1 << 20)
        for number in range(20):
            for topic in ("Kept", "Gone"):
                shop.append(draft(topic=topic, properties=f"UNIQ_KEY\x01{number:032X}\x02"))
        await shop.flush_all()
        await shop.views.delete_topics(["Gone"], lambda _topic: None)
        await shop.flush()
        for name in await shop.disk.list("index"):
            await shop.disk.unlink(f"index/{name}")
        image.process_died()
        again = await open_shop(image, segment=1 << 20)
        found = await again.lookups.by_key("Kept", f"{7:032X}", 32, 0, 1 << 60)
        assert len(found.records) == 1
        assert again.views.queues.find("Gone", 0) is None

    asyncio.run(main())
