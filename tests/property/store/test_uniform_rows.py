"""Rows of a uniform batch leave queues, index and log as the same rows one by one do."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.model import Message
from firearrow.record.batch import columns_of, encode_batch
from firearrow.record.columns import Envelope, MessageColumns, UniformProperties
from firearrow.store.placement import UniformRows
from tests.property.store.shop import Shop, open_shop
from tests.simulation.store.kit import HOST, draft, files_below, fresh_image, now

KEY = "7F00000118B4AAC200010000"
few = settings(max_examples=100, deadline=None)


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, list[str], dict[str, str], bytes]:
    """A topic, the ends of some keys, what else is in the properties, and a body."""
    topic = draw(st.sampled_from(["T", "U", "SCHEDULE_TOPIC_XXXX"]))
    ends = draw(st.lists(st.text("0123456789ABCDEF", min_size=8, max_size=8), min_size=2, max_size=6))
    more = draw(
        st.sampled_from(
            [
                {},
                {"TAGS": "*"},
                {"TAGS": "b", "WAIT": "true"},
                {"KEYS": "x y"},
                {"DELAY": "2"},
                {"KEYS": "*"},
                {"KEYS": "order-of-*-and-some"},
                {"KEYS": "\u00e9*"},
                {"KEYS": "long" * 9 + "*"},
            ]
        )
    )
    return topic, ends, more, draw(st.binary(min_size=1, max_size=60))


def _columns(ends: list[str], more: dict[str, str], body: bytes) -> MessageColumns:
    """A uniform batch: ``*`` stands for the end of a key; every second body is longer if the first byte is even."""
    messages = []
    for number, end in enumerate(ends):
        given = {name: value.replace("*", end) for name, value in more.items()}
        messages.append(Message("T", body + b"x" * (number % 2 * (1 - body[0] % 2)), {"UNIQ_KEY": KEY + end} | given))
    columns = columns_of(encode_batch(messages), 1, 5)
    assert type(columns.properties) is UniformProperties
    return columns


def _append(shop: Shop, topic: str, columns: MessageColumns, *, uniform: bool) -> None:
    tails = [shop.views.queues.tail_of(topic, 1)] * len(columns.bodies)
    if not uniform:
        columns = columns._replace(properties=list(columns.properties))
    place = shop.running.log.append_columns(Envelope(topic, HOST, HOST), tails, columns)
    assert len(place.physical_offsets) == len(place.queue_offsets) == len(columns.bodies)


async def _held(given_steps: list[tuple[str, list[str], dict[str, str], bytes]], *, uniform: bool) -> object:
    shop = await open_shop(fresh_image())
    for number, (topic, ends, more, body) in enumerate(given_steps):
        if number % 3 == 1:
            shop.running.log.append(
                shop.views.queues.tail_of("T", 1), draft(b"alone", queue_id=1, properties="TAGS\x01a\x02")
            )
        _append(shop, topic, _columns(ends, more, body), uniform=uniform)
        if number % 2:
            shop.running.log.write_pending()
    await shop.flush_all()
    return await files_below(shop.disk, "commitlog", "index", "consumequeue")


@few
@given(st.lists(steps(), min_size=1, max_size=6))
def test_files_are_the_same(given_steps: list[tuple[str, list[str], dict[str, str], bytes]]) -> None:
    assert asyncio.run(_held(given_steps, uniform=True)) == asyncio.run(_held(given_steps, uniform=False))


def test_uniform_rows_read_as_rows() -> None:
    properties = _columns(["00000001", "00000002", "00000003"], {"TAGS": "a"}, b"body").properties
    assert type(properties) is UniformProperties
    tail = now(open_shop(fresh_image())).views.queues.tail_of("T", 1)
    rows = UniformRows(tail, [1000, 1300, 1600], [300, 300, 320], 7, 5, 0, properties)
    assert [row[1] for row in rows] == list(rows.places) == [1000, 1300, 1600]
    assert rows[-1] == (tail, 1600, 320, 9, 5, 0, properties[2])
    assert rows[1:] == [rows[1], rows[2]]
    assert [row[3] for row in reversed(rows)] == [9, 8, 7]
