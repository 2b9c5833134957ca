"""Records that were judged once after a restart are read like those that this process wrote; others are not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firearrow.store.queue.judged import SPANS_KEPT, JudgedSpans
from firearrow.store.queue.table import QueueConfig
from firearrow.store.read.queue_reader import ReadRequest, ReadResult
from firearrow.store.views.views import ViewsConfig
from firearrow.testing.sim.disk_image import DiskImage
from tests.property.store.shop import SMALL_INDEX, Shop, open_shop
from tests.simulation.store.kit import InstantFile, draft, fresh_image

SEGMENT = 1 << 20
MESSAGES = 60
LONG_QUEUES = ViewsConfig(queues=QueueConfig(mapped_file_size_consume_queue=20_000), index=SMALL_INDEX)
LOG = "commitlog/00000000000000000000"
QUEUE = "consumequeue/T/0/00000000000000000000"


async def _open(image: DiskImage) -> Shop:
    return await open_shop(image, segment=SEGMENT, sync=False, views_config=LONG_QUEUES)


def _after_a_restart(scenario: Callable[[Shop], Awaitable[None]], prepare: Callable[[DiskImage], None]) -> None:
    """Fill a queue, end in order, change something on the disk, start again."""

    async def main() -> None:
        image = fresh_image()
        shop = await _open(image)
        for number in range(MESSAGES):
            shop.append(draft(b"%d" % number * 50, properties="TAGS\x01a\x02"))
        await shop.close()
        prepare(image)
        await scenario(await _open(image))

    asyncio.run(main())


def _untouched(image: DiskImage) -> None:
    del image


def _hot(shop: Shop, pull: ReadRequest) -> ReadResult | None:
    return shop.reader.read_hot("T", 0, pull)


PULL = ReadRequest(0, 32, 1 << 20)


def test_a_second_read_is_hot() -> None:
    async def scenario(shop: Shop) -> None:
        assert _hot(shop, PULL) is None
        first = await shop.reader.read("T", 0, PULL)
        second = _hot(shop, PULL)
        assert second is not None
        assert b"".join(second.buffers) == b"".join(first.buffers)
        assert second[:4] == first[:4]

    _after_a_restart(scenario, _untouched)


def test_a_read_with_a_filter_judges_what_it_passes_over() -> None:
    async def scenario(shop: Shop) -> None:
        none = ReadRequest(0, 32, 1 << 20, frozenset({12345}))
        passed = await shop.reader.read("T", 0, none)
        assert passed.messages == 0
        again = _hot(shop, PULL)
        assert again is not None
        assert again.messages == 32

    _after_a_restart(scenario, _untouched)


def test_a_hot_answer_ends_where_judgement_ends() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.reader.read("T", 0, ReadRequest(0, 10, 1 << 20))
        pulled = _hot(shop, PULL)
        assert pulled is not None
        assert (pulled.messages, pulled.next_offset) == (10, 10)
        assert _hot(shop, ReadRequest(10, 32, 1 << 20)) is None

    _after_a_restart(scenario, _untouched)


def test_old_and_new_messages_come_in_one_answer_once_the_old_are_judged() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.reader.read("T", 0, ReadRequest(MESSAGES - 5, 32, 1 << 20))
        for _ in range(5):
            shop.append(draft(b"new"))
        await shop.flush_all()
        pulled = _hot(shop, ReadRequest(MESSAGES - 5, 32, 1 << 20))
        assert pulled is not None
        assert pulled.messages == 10

    _after_a_restart(scenario, _untouched)


def test_a_rotten_record_beside_judged_ones_is_found() -> None:
    def rot(image: DiskImage) -> None:
        record = image.file(LOG).read(0, 4)
        image.file(LOG).rot(
            int.from_bytes(record, "big") * 10 + 90, 3
        )  # in a body: the records before are equally long

    async def scenario(shop: Shop) -> None:
        offsets: list[int] = []
        at = 0
        while at < MESSAGES:
            request = ReadRequest(at, 32, 1 << 20)
            pulled = _hot(shop, request) or await shop.reader.read("T", 0, request)
            offsets.append(pulled.messages)
            at = pulled.next_offset
        assert sum(offsets) == MESSAGES - 1
        assert len(shop.opened.damage) == 1

    _after_a_restart(scenario, rot)


def test_a_rotten_tag_code_is_found_by_the_first_read() -> None:
    def rot(image: DiskImage) -> None:
        image.file(QUEUE).rot(5 * 20 + 19, 0)

    async def scenario(shop: Shop) -> None:
        wanted = ReadRequest(0, 32, 1 << 20, frozenset({97}))
        got, at = 0, 0
        while at < MESSAGES:
            pulled = await shop.reader.read("T", 0, wanted._replace(offset=at))
            got += pulled.messages
            at = pulled.next_offset
        assert got == MESSAGES

    _after_a_restart(scenario, rot)


def test_what_left_the_memory_is_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(shop: Shop) -> None:
        assert (await shop.reader.read("T", 0, PULL)).messages == 32
        shop.disk.image.file(LOG).rot(90, 3)
        monkeypatch.setattr(InstantFile, "read_hot", lambda *_: None)
        monkeypatch.setattr(InstantFile, "gather_hot", lambda *_: None)
        assert _hot(shop, PULL) is None
        assert (await shop.reader.read("T", 0, PULL)).next_offset > 1
        assert len(shop.opened.damage) == 1

    _after_a_restart(scenario, _untouched)


def test_what_the_start_read_again_from_the_log_is_hot() -> None:
    async def main() -> None:
        image = fresh_image()
        shop = await _open(image)
        shop.append(draft(b"flushed"))
        await shop.flush_all()
        for _ in range(5):
            shop.append(draft(b"in the log alone"))
        await shop.flush_log()
        image.process_died()
        shop = await _open(image)
        assert _hot(shop, PULL) is None
        pulled = _hot(shop, ReadRequest(1, 32, 1 << 20))
        assert pulled is not None
        assert pulled.messages == 5

    asyncio.run(main())


def test_spans_grow_together_and_the_one_that_rests_longest_goes() -> None:
    judged = JudgedSpans()
    judged.add(0, 10)
    judged.add(20, 30)
    assert (judged.until(0), judged.until(10), judged.until(25)) == (10, 10, 30)
    judged.add(10, 20)
    assert judged.until(0) == 30
    for number in range(1, SPANS_KEPT + 1):
        judged.add(number * 100, number * 100 + 10)
    assert judged.until(0) == 0
    assert judged.until(105) == 110
