"""Stretches of a queue: in order, whole, without overlap, whatever brokers hand out at once."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.client.consumer.broker_queries import PulledBytes, PullStatus
from firearrow.client.consumer.range_reader import read_range
from firearrow.errors import RequestTimedOut


class FakeQueue:
    """Messages from ``first`` to ``end``, at most ``most`` an answer; the body tells the offsets that it stands for."""

    def __init__(
        self, first: int, end: int, most: int, seed: int = 0, *, is_moody: bool = True, file: int = 1 << 60
    ) -> None:
        self._is_moody = is_moody
        self._file = file
        """Messages in one file of the log: no answer goes beyond the end of one."""
        self.first, self.end, self.most = first, end, most
        self.under_way = self.most_under_way = self.asked = 0
        self._chance = random.Random(seed)

    async def ask(self, offset: int, limit: int) -> PulledBytes:
        self.asked += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            for _ in range(self._chance.randrange(4)):
                await asyncio.sleep(0)
        finally:
            self.under_way -= 1
        if offset < self.first:
            return PulledBytes(PullStatus.OFFSET_MOVED, b"", self.first, self.first, self.end)
        if offset >= self.end:
            return PulledBytes(PullStatus.NOTHING_NEW, b"", offset, self.first, self.end)
        fit = min(limit, self.most, self.end - offset, self._file - offset % self._file)
        count = self._chance.randint(1, fit) if self._is_moody else fit
        body = ",".join(map(str, range(offset, offset + count))).encode()
        return PulledBytes(PullStatus.FOUND, body, offset + count, self.first, self.end)


async def read(queue: FakeQueue, begin: int, end: int, most: int, in_flight: int) -> list[int]:
    found: list[int] = []
    async for pulled in read_range(queue.ask, begin, end, most, in_flight):
        found += [int(part) for part in pulled.body.split(b",") if part]
    return found


@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 30), st.integers(0, 120), st.integers(1, 40), st.integers(0, 60), st.integers(1, 60),
    st.integers(1, 50), st.integers(1, 6), st.integers(0, 1000),
)  # fmt: skip
def test_a_stretch_comes_whole_and_in_order(
    first: int, length: int, given_out: int, begin: int, span: int, most: int, in_flight: int, seed: int
) -> None:
    queue = FakeQueue(first, first + length, given_out, seed)
    found = asyncio.run(read(queue, begin, begin + span, most, in_flight))
    assert found == list(range(max(begin, first), min(begin + span, first + length)))
    assert queue.under_way == 0
    assert queue.most_under_way <= in_flight + 1


def test_questions_are_put_ahead_once_the_size_of_an_answer_is_known() -> None:
    queue = FakeQueue(0, 3200, 32, is_moody=False)
    assert asyncio.run(read(queue, 0, 3200, 65_536, 8)) == list(range(3200))
    assert queue.asked <= 106, "a longer stride is tried now and then"
    assert queue.most_under_way == 8


@pytest.mark.parametrize("begin", [0, 9_970])
def test_a_short_answer_where_a_file_ends_does_not_make_all_others_short(begin: int) -> None:
    queue = FakeQueue(0, 400_000, 4000, is_moody=False, file=10_007)
    assert asyncio.run(read(queue, begin, 400_000, 65_536, 8)) == list(range(begin, 400_000))
    assert queue.asked < 3 * 400_000 / 4000


def test_strides_follow_what_brokers_give() -> None:
    async def story() -> None:
        queue = FakeQueue(0, 100_000, 1000, is_moody=False)
        async for pulled in read_range(queue.ask, 0, 100_000, 65_536, 4):
            if pulled.next_offset >= 50_000 and queue.most == 1000:
                queue.most, queue.asked = 100, 0  # messages are larger from here on
        assert queue.asked < 560

    asyncio.run(story())


def test_an_error_ends_it_and_leaves_nothing_under_way() -> None:
    queue = FakeQueue(0, 1000, 10)

    async def ask(offset: int, limit: int) -> PulledBytes:
        if offset > 300:
            raise RequestTimedOut("no answer")
        return await queue.ask(offset, limit)

    async def story() -> None:
        with pytest.raises(RequestTimedOut):
            async for _ in read_range(ask, 0, 1000, 10, 4):
                pass
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(story())


def test_whoever_stops_early_leaves_nothing_under_way() -> None:
    queue = FakeQueue(0, 1000, 10)

    async def story() -> None:
        answers = read_range(queue.ask, 0, 1000, 10, 4)
        async for _ in answers:
            if queue.asked > 5:
                break
        await answers.aclose()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(story())
