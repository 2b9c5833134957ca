"""A batch of a client is cut as its sizes say, or refused, however that is done."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.errors import BadBody
from firearrow.model import EpochMs, Message, PhysicalOffset, QueueOffset
from firearrow.record.batch import decode_batch, drafts_of, encode_batch, encode_each, encode_pieces, pieces_of
from firearrow.record.encode import Draft
from firearrow.record.properties import decode_properties
from firearrow.testing import strategies as our

few = settings(max_examples=150, deadline=None)
messages = st.lists(our.messages(st.just("T")), min_size=1, max_size=8)


def outcome(batch: bytes, most: int) -> tuple[list[Message], str]:
    """What `pieces_of` finds, or why it refuses."""
    try:
        pieces = pieces_of(batch, max_messages=most)
    except BadBody as refusal:
        return [], str(refusal)
    return [Message("T", body, decode_properties(properties), flag) for flag, body, properties in pieces], ""


def one_by_one(batch: bytes, most: int) -> tuple[list[Message], str]:
    try:
        return decode_batch(batch, "T", max_messages=most), ""
    except BadBody as refusal:
        return [], str(refusal)


@few
@given(messages, st.data())
def test_whatever_is_changed_a_batch_is_cut_or_refused_alike(given: list[Message], data: st.DataObject) -> None:
    altered = bytearray(encode_batch(given))
    most = data.draw(st.sampled_from([2, 100]))
    for _ in range(data.draw(st.integers(0, 2))):
        altered[data.draw(st.integers(0, min(len(altered) - 1, 30)))] = data.draw(st.integers(0, 255))
    cut = bytes(altered[: data.draw(st.integers(0, len(altered)) | st.just(len(altered)))])
    assert outcome(cut, most) == one_by_one(cut, most)


@few
@given(messages, our.drafts(), st.tuples(our.queue_offsets, our.physical_offsets, our.timestamps))
def test_records_are_those_of_each_message(given: list[Message], template: Draft, place: tuple[int, int, int]) -> None:
    pieces = pieces_of(encode_batch(given))
    queue_offset, physical, store_ms = place[0] >> 1, place[1] >> 1, EpochMs(place[2])
    expected = encode_each(drafts_of(pieces, template), QueueOffset(queue_offset), PhysicalOffset(physical), store_ms)
    records, sizes = encode_pieces(pieces, template, queue_offset, physical, store_ms)
    assert records == b"".join(expected)
    assert sizes == [len(record) for record in expected]
