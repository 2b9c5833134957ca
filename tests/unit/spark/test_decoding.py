"""Answers of brokers as rows: what they cover and do not hold, and what is said of a message that cannot be read."""

import pytest

pytest.importorskip("pyarrow")

from firearrow.errors import BadRecord
from firearrow.model import EpochMs, Host, MessageQueue, PhysicalOffset, QueueOffset
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import StoredProperties
from firearrow.spark.options import DecodingOptions
from firearrow.spark.source.fetch import Records
from firearrow.spark.source.plan import Span
from firearrow.spark.source.row_decoder import gaps, heads_of, joined, rows_of

HOST = host_bytes(Host("10.0.0.1", 10911))
QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]


def record(queue: int, offset: int, *, body: bytes = b"hello", sys_flag: int = 0) -> bytes:
    draft = Draft("orders", queue, body, StoredProperties(b""), EpochMs(1), HOST, HOST, 0, sys_flag, 0)
    return encode(draft, QueueOffset(offset), PhysicalOffset(offset), EpochMs(2))


def answer(queue: int, begin: int, end: int, missing: tuple[int, ...] = (), *, span_end: int = 0) -> Records:
    body = b"".join(record(queue, offset) for offset in range(begin, end) if offset not in missing)
    span = Span(QUEUES[queue], begin, span_end or end)
    return Records(span, begin, min(end, span.end), body, goes_over=end > span.end)


def found(*some: Records) -> list[tuple[int, int, int]]:
    return [(loss.queue.queue_id, loss.begin, loss.end) for loss in gaps(some, heads_of(some))]


def test_answers_that_hold_what_they_cover_have_no_gaps() -> None:
    assert found(answer(0, 0, 10), answer(0, 10, 13), answer(1, 70, 75)) == []
    assert found(answer(0, 5, 20, span_end=12)) == [], "what lies behind the end was not asked for"


@pytest.mark.parametrize(
    ("missing", "losses"),
    [
        ((4,), [(1, 4, 5)]),
        ((0,), [(1, 0, 1)]),
        ((9,), [(1, 9, 10)]),
        ((2, 3, 7), [(1, 2, 4), (1, 7, 8)]),
    ],
)
def test_gaps_inside_an_answer_are_told_exactly(missing: tuple[int, ...], losses: list[tuple[int, int, int]]) -> None:
    assert found(answer(0, 0, 10), answer(1, 0, 10, missing), answer(0, 10, 20)) == losses


def test_a_gap_says_what_may_be_behind_it() -> None:
    some = [answer(0, 0, 10, (5,))]
    (loss,) = gaps(some, heads_of(some))
    assert str(loss).startswith("1 messages of orders on broker-a, queue 0, offsets 5 to 5: the broker hands out")


def test_a_body_that_does_not_inflate_is_named_with_a_way_out() -> None:
    poison = record(1, 7, body=b"no zlib", sys_flag=1)
    some = [Records(Span(QUEUES[1], 6, 9), 6, 9, record(1, 6) + poison + record(1, 8))]
    heads = heads_of(some)
    with pytest.raises(BadRecord, match=r"offset 7 of orders on broker-a, queue 1: .* option badBodies to keep"):
        list(rows_of(heads, ["body"], {}, "broker-a", DecodingOptions()))
    (batch,) = rows_of(heads, ["body", "sys_flag"], {}, "broker-a", DecodingOptions(keep_bad_bodies=True))
    assert batch.to_pydict() == {"body": [b"hello", b"no zlib", b"hello"], "sys_flag": [0, 1, 0]}


def test_answers_are_put_together_up_to_a_size_and_by_broker() -> None:
    one = answer(0, 0, 10)
    assert [len(some) for some in joined([one] * 5, 2 * len(one.body))] == [2, 2, 1]
    assert [len(some) for some in joined([one] * 3, 1)] == [1, 1, 1]
    over = answer(0, 0, 10, span_end=5)
    assert [len(some) for some in joined([one, over, one], 1 << 20)] == [1, 2]
    assert list(joined([Records(one.span, 0, 10)], 1 << 20)) == []
