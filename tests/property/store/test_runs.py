"""Rows of a batch that come as a run leave queues, index and log as the same rows one by one do."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.model import Message
from firearrow.record.alike import Alike, alike_of
from firearrow.record.batch import drafts_of, encode_batch
from firearrow.store.placement import PlacedRun
from tests.property.store.shop import Shop, open_shop
from tests.simulation.store.kit import draft, files_below, fresh_image, now

KEY = "7F00000118B4AAC20001000"
few = settings(max_examples=100, deadline=None)


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, list[str], dict[str, str], bytes]:
    """A topic, the ends of some keys, what else is in the properties, and a body."""
    topic = draw(st.sampled_from(["T", "U", "SCHEDULE_TOPIC_XXXX"]))
    ends = draw(st.lists(st.text("0123456789ABCDEF", min_size=9, max_size=9), min_size=2, max_size=6))
    more = draw(st.sampled_from([{}, {"TAGS": "a"}, {"TAGS": "b", "WAIT": "true"}, {"KEYS": "x y"}, {"DELAY": "2"}]))
    return topic, ends, more, draw(st.binary(min_size=1, max_size=60))


def _alike(ends: list[str], more: dict[str, str], body: bytes) -> Alike | None:
    return alike_of(encode_batch([Message("T", body, {"UNIQ_KEY": KEY + end} | more) for end in ends]))


def _append(shop: Shop, topic: str, alike: Alike, *, by_columns: bool) -> None:
    shared = draft(topic=topic, queue_id=1)
    tail = shop.views.queues.tail_of(topic, 1)
    if by_columns:
        place = shop.running.log.append_pieces(tail, shared, alike)
    else:
        place = shop.running.log.append_batch(tail, drafts_of(alike.pieces(), shared))
    assert len(place.physical_offsets) == len(alike)


async def _held(given_steps: list[tuple[str, list[str], dict[str, str], bytes]], *, by_columns: bool) -> object:
    shop = await open_shop(fresh_image())
    for number, (topic, ends, more, body) in enumerate(given_steps):
        alike = _alike(ends, more, body)
        if alike is None:
            continue
        if number % 3 == 1:
            shop.running.log.append(
                shop.views.queues.tail_of("T", 1), draft(b"alone", queue_id=1, properties="TAGS\x01a\x02")
            )
        _append(shop, topic, alike, by_columns=by_columns)
        if number % 2:
            shop.running.log.write_pending()
    await shop.flush_all()
    return await files_below(shop.disk, "commitlog", "index", "consumequeue")


@few
@given(st.lists(steps(), min_size=1, max_size=6))
def test_files_are_the_same(given_steps: list[tuple[str, list[str], dict[str, str], bytes]]) -> None:
    assert asyncio.run(_held(given_steps, by_columns=True)) == asyncio.run(_held(given_steps, by_columns=False))


def test_a_run_reads_as_its_rows() -> None:
    alike = _alike(["000000001", "000000002", "000000003"], {"TAGS": "a"}, b"body")
    assert alike is not None
    tail = now(open_shop(fresh_image())).views.queues.tail_of("T", 1)
    run = PlacedRun(tail, 1000, 300, 7, 5, 0, alike.properties)
    assert [row[1] for row in run] == list(run.places) == [1000, 1300, 1600]
    assert run[-1] == (tail, 1600, 300, 9, 5, 0, alike.properties.of(2))
    assert run[1:] == [run[1], run[2]]
    assert [row[3] for row in reversed(run)] == [9, 8, 7]
