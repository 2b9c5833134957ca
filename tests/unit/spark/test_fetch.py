"""The part of a span that is handed over at once: a good part of a batch, wherever in the span it lies."""

import asyncio
from typing import cast

from firearrow.client import MessageQueue, PulledBytes, PullStatus
from firearrow.spark.link import Link
from firearrow.spark.options import FetchOptions
from firearrow.spark.source.fetch import ENOUGH, Fetch, Records
from firearrow.spark.source.plan import Span

QUEUE = MessageQueue("orders", "a", 0)
ROWS = 1000


class Broker:
    """Hands out a few messages at a time, as Apache's brokers do; a record is one byte."""

    def __init__(self, end: int, at_once: int) -> None:
        self._end = end
        self._at_once = at_once

    async def pull(self, _queue: MessageQueue, offset: int, most: int, *_: object, **__: object) -> PulledBytes:
        """One answer, after a turn of the loop."""
        await asyncio.sleep(0)
        count = min(self._at_once, most, self._end - offset)
        status = PullStatus.FOUND if count > 0 else PullStatus.NOTHING_NEW
        return PulledBytes(status, b"r" * count, offset + count, 0, self._end)


def fetched(spans: list[Span], broker: Broker) -> list[list[Records]]:
    """All that is handed over, each time as one list."""

    async def read() -> list[list[Records]]:
        fetch, found = Fetch(cast("Link", broker), spans, FetchOptions()), []
        while some := await fetch.next(ROWS, 1 << 30):
            found.append(some)
        await fetch.close()
        return found

    return asyncio.run(read())


def test_small_answers_are_gathered_all_along_a_span() -> None:
    """Rows of 32 messages each cost many times as much as rows of a good part of a batch."""
    handed = fetched([Span(QUEUE, 7, 20_007)], Broker(20_007, at_once=32))

    sizes = [sum(len(each.body) for each in some) for some in handed]
    assert sum(sizes) == 20_000
    assert min(sizes[:-1]) >= ROWS // ENOUGH
    assert max(sizes) < ROWS + 32


def test_each_answer_says_which_offsets_it_covers() -> None:
    """One after the other, without a gap."""
    handed = fetched([Span(QUEUE, 0, 500), Span(QUEUE, 900, 1000)], Broker(2000, at_once=32))

    covered = [(each.begin, each.next_offset) for some in handed for each in some]
    assert covered[0][0] == 0
    assert covered[-1][1] == 1000
    ends = [end for _, end in covered[:-1]]
    assert all(begin in (end, 900) for end, (begin, _) in zip(ends, covered[1:], strict=True))


def test_many_short_queues_share_a_batch() -> None:
    """Queues with less than a batch are handed over together."""
    spans = [Span(MessageQueue("orders", "a", number), 0, 100) for number in range(20)]

    handed = fetched(spans, Broker(100, at_once=32))

    assert sum(len(each.body) for some in handed for each in some) == 2000
    assert len(handed) <= 1 + 2000 * ENOUGH // ROWS
