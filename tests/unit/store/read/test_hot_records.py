"""Records in memory, read many at once: whichever way they lie, the bytes are theirs, and a wrong entry is seen."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firearrow.store.queue.consume_queue import ENTRY
from firearrow.store.queue.table import QueueConfig
from firearrow.store.read import hot_records as hotreads
from firearrow.store.read import queue_reader
from firearrow.store.read.log_bytes import LogBytes
from firearrow.store.read.queue_reader import ReadRequest, ReadResult
from firearrow.store.views.views import ViewsConfig
from tests.property.store.shop import SMALL_INDEX, Shop, open_shop
from tests.simulation.store.kit import draft, fresh_image

SEGMENT = 1 << 20
EVERYTHING = 1 << 30
LONG_QUEUES = ViewsConfig(queues=QueueConfig(mapped_file_size_consume_queue=20_000), index=SMALL_INDEX)


@pytest.fixture(params=["recent", "older"], autouse=True)
def age(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "older":
        monkeypatch.setattr(queue_reader, "RECENT_BYTES", 0)


def _run(scenario: Callable[[Shop], Awaitable[None]], segment: int = SEGMENT) -> None:
    async def main() -> None:
        await scenario(await open_shop(fresh_image(), segment=segment, sync=False, views_config=LONG_QUEUES))

    asyncio.run(main())


def _fill(shop: Shop, count: int, between: int) -> list[bytes]:
    """Messages of one queue with bytes of another between them; the bodies in order."""
    bodies = [b"%d" % number * 50 for number in range(count)]
    for body in bodies:
        shop.append(draft(body, "T", 0))
        if between:
            shop.append(draft(b"x" * between, "T", 1))
    return bodies


def _expected(shop: Shop, first: int, count: int) -> bytes:
    queues = shop.views.queues
    places = [queues.entry(queues.tail_of("T", 0), offset)[:2] for offset in range(first, first + count)]
    log_bytes = LogBytes(shop.running.log, shop.running.opened.segments)
    return b"".join(log_bytes.read_from(physical, size) for physical, size in places)


def _hot(shop: Shop, offset: int = 0, most: int = 32, max_bytes: int = EVERYTHING) -> ReadResult:
    pulled = shop.reader.read_hot("T", 0, ReadRequest(offset, most, max_bytes))
    assert pulled is not None
    return pulled


@pytest.mark.parametrize(("between", "buffers"), [(0, 1), (100, 20), (30_000, 20)])
def test_records_that_touch_lie_near_or_far_apart(between: int, buffers: int) -> None:
    async def scenario(shop: Shop) -> None:
        _fill(shop, 20, between)
        pulled = _hot(shop)
        assert (pulled.messages, pulled.next_offset, len(pulled.buffers)) == (20, 20, buffers)
        assert b"".join(pulled.buffers) == _expected(shop, 0, 20)
        assert pulled.size == sum(map(len, pulled.buffers))

    _run(scenario)


def test_a_pull_of_hundreds() -> None:
    async def scenario(shop: Shop) -> None:
        _fill(shop, 300, 0)
        pulled = _hot(shop, most=1000)
        assert (pulled.messages, pulled.next_offset) == (300, 300)
        assert b"".join(pulled.buffers) == _expected(shop, 0, 300)

    _run(scenario)


def test_runs_far_apart_are_read_with_a_call_each() -> None:
    async def scenario(shop: Shop) -> None:
        for _ in range(3):
            _fill(shop, 4, 0)
            shop.append(draft(b"x" * 60_000, "T", 1))
        pulled = _hot(shop)
        assert (pulled.messages, len(pulled.buffers)) == (12, 3)
        assert b"".join(pulled.buffers) == _expected(shop, 0, 12)

    _run(scenario)


def test_records_of_several_files() -> None:
    async def scenario(shop: Shop) -> None:
        _fill(shop, 32, 1000)
        pulled = _hot(shop)
        assert (pulled.messages, pulled.next_offset) == (32, 32)
        assert b"".join(pulled.buffers) == _expected(shop, 0, 32)

    _run(scenario, segment=8192)


def test_as_many_as_the_bytes_allow_and_at_least_one() -> None:
    async def scenario(shop: Shop) -> None:
        _fill(shop, 20, 0)
        two = len(_expected(shop, 3, 2))
        for max_bytes, count in ((0, 1), (two - 1, 1), (two, 2), (two + 1, 2)):
            pulled = _hot(shop, 3, max_bytes=max_bytes)
            assert (pulled.messages, pulled.next_offset) == (count, 3 + count)
            assert b"".join(pulled.buffers) == _expected(shop, 3, count)
        assert _hot(shop, 5, most=4).messages == 4

    _run(scenario)


@pytest.mark.parametrize("between", [0, 100, 30_000])
@pytest.mark.parametrize("wrong", [3, 0, 9])
def test_an_entry_that_leads_elsewhere_is_seen_and_made_again(between: int, wrong: int) -> None:
    async def scenario(shop: Shop) -> None:
        _fill(shop, 10, between)
        expected = _expected(shop, 0, 10)
        queues = shop.views.queues
        tail = queues.tail_of("T", 0)
        physical, size, code = queues.entry(tail, wrong)
        places = [(physical + 1, size), (physical, size - 1), (physical ^ 1 << 62, size), (1 << 40, size), (0, size)]
        for place in [*places, (physical, 1), queues.entry(tail, (wrong + 1) % 10)[:2]]:
            queues.writer.rewrite(tail, wrong, ENTRY.pack(*place, code))
            got = b""
            offset = 0
            while offset < 10:
                pulled = await shop.reader.read("T", 0, ReadRequest(offset, 32, EVERYTHING))
                got += b"".join(pulled.buffers)
                offset = pulled.next_offset
            assert got == expected, place

    _run(scenario)


def test_what_lies_far_apart_is_not_read_for_nothing() -> None:
    async def scenario(shop: Shop) -> None:
        _fill(shop, 2, hotreads.SPAN_BYTES)
        assert b"".join(_hot(shop).buffers) == _expected(shop, 0, 2)

    _run(scenario, segment=4 << 20)
