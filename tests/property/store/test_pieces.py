"""Batches of unlike messages leave log, queues and index as the same messages one by one do."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.model import Message
from firearrow.record.batch import Piece, drafts_of, encode_batch, pieces_of
from tests.property.store.shop import open_shop
from tests.simulation.store.kit import draft, files_below, fresh_image

KEY = "7F00000118B4AAC200010000"
few = settings(max_examples=60, deadline=None)


@st.composite
def batches(draw: st.DrawFn) -> list[Piece]:
    """As a producer writes them that knows the keys of its messages: so many that several fill a file of the log."""
    messages = []
    for number in range(draw(st.integers(1, 20))):
        word = draw(st.text("abc", min_size=1, max_size=5))
        more = draw(st.sampled_from([{}, {"TAGS": "a"}]))
        properties = {"KEYS": word, **more, "row": str(number), "UNIQ_KEY": f"{KEY}{number:08X}"}
        messages.append(Message("T", draw(st.binary(min_size=1, max_size=40)), properties))
    return pieces_of(encode_batch(messages))


async def _held(given_batches: list[list[Piece]], *, in_pieces: bool) -> object:
    shop = await open_shop(fresh_image())
    log = shop.running.log
    for number, pieces in enumerate(given_batches):
        shared, tail = draft(queue_id=number % 2), shop.views.queues.tail_of("T", number % 2)
        place = (
            log.append_pieces(tail, shared, pieces) if in_pieces else log.append_batch(tail, drafts_of(pieces, shared))
        )
        assert len(place.physical_offsets) == len(pieces)
        if number % 4 == 3:
            log.write_pending()
    await shop.flush_all()
    return await files_below(shop.disk, "commitlog", "index", "consumequeue")


@few
@given(st.lists(batches(), min_size=1, max_size=8))
def test_files_are_the_same(given_batches: list[list[Piece]]) -> None:
    in_pieces = asyncio.run(_held(given_batches, in_pieces=True))
    assert in_pieces == asyncio.run(_held(given_batches, in_pieces=False))
