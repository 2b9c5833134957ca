"""Messages appended by columns leave log, queues and index as the same messages one by one do."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.errors import IllegalMessage
from firearrow.model import Message
from firearrow.record.batch import columns_of, encode_batch
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.placement import QueueTail
from tests.property.store.shop import open_shop
from tests.simulation.store.kit import HOST, files_below, fresh_image
from tests.unit.record.one_by_one import drafts_of, encode_each

ENVELOPE = Envelope("T", HOST, HOST)
KEY = "7F00000118B4AAC200010000"
few = settings(max_examples=60, deadline=None)


@st.composite
def batches(draw: st.DrawFn) -> MessageColumns:
    """As a producer writes them that knows the keys of its messages: so many that several fill a file of the log."""
    messages = []
    for number in range(draw(st.integers(1, 20))):
        word = draw(st.text("abc", min_size=1, max_size=5))
        more = draw(st.sampled_from([{}, {"TAGS": "a"}]))
        properties = {"KEYS": word, **more, "row": str(number), "UNIQ_KEY": f"{KEY}{number:08X}"}
        messages.append(Message("T", draw(st.binary(min_size=1, max_size=40)), properties))
    return columns_of(encode_batch(messages), draw(st.integers(0, 1)), 5)


@st.composite
def bulks(draw: st.DrawFn) -> MessageColumns:
    """As sends that came in one read: any queues."""
    columns = draw(batches())
    queue_ids = [draw(st.integers(0, 2)) for _ in columns.bodies]
    return columns._replace(queue_ids=queue_ids, properties=list(columns.properties))


def _append_each(log: CommitLog, tails: list[QueueTail], columns: MessageColumns) -> None:
    """One message after the other, in one segment."""
    drafts = drafts_of(ENVELOPE, columns)
    size = sum(map(len, encode_each(drafts, [0] * len(drafts), 0, 0)))
    rolls = log.tail + size > log._limit
    if rolls:
        log._make_room(size, max(map(len, columns.bodies)))
    for tail, draft in zip(tails, drafts, strict=True):
        log.append(tail, draft)
    if rolls:
        log._limit_pending()


async def _held(given_batches: list[MessageColumns], *, by_columns: bool) -> object:
    shop = await open_shop(fresh_image())
    log = shop.running.log
    for number, columns in enumerate(given_batches):
        tails: list[QueueTail] = [shop.views.queues.tail_of("T", queue_id) for queue_id in columns.queue_ids]
        before = [tail.next_offset for tail in tails]
        if not by_columns:
            _append_each(log, tails, columns)
        elif (place := log.append_columns_if_room(ENVELOPE, tails, columns)) is None:
            assert [tail.next_offset for tail in tails] == before
            place = log.append_columns(ENVELOPE, tails, columns)
            assert len(place.physical_offsets) == len(place.queue_offsets) == len(tails)
        if number % 4 == 3:
            log.write_pending()
    await shop.flush_all()
    return await files_below(shop.disk, "commitlog", "index", "consumequeue")


@few
@given(st.lists(batches() | bulks(), min_size=1, max_size=8))
def test_files_are_the_same(given_batches: list[MessageColumns]) -> None:
    by_columns = asyncio.run(_held(given_batches, by_columns=True))
    assert by_columns == asyncio.run(_held(given_batches, by_columns=False))


@few
@given(bulks())
def test_messages_that_are_refused_leave_nothing(columns: MessageColumns) -> None:
    async def main() -> None:
        shop = await open_shop(fresh_image())
        tails = [shop.views.queues.tail_of("T", queue_id) for queue_id in columns.queue_ids]
        wrong = columns._replace(flags=[*columns.flags[:-1], 1 << 31])
        for append in (shop.running.log.append_columns, shop.running.log.append_columns_if_room):
            try:
                append(ENVELOPE, tails, wrong)
            except IllegalMessage:
                assert {tail.next_offset for tail in tails} == {0}
            else:
                raise AssertionError("a flag of 33 bits was stored")
        assert shop.running.log.tail == 0

    asyncio.run(main())
