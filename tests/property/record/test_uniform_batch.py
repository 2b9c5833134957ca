"""A uniform batch holds the messages, and makes the records, that it does message by message."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.errors import BadBody
from firearrow.model import Message
from firearrow.record.batch import columns_of, encode_batch
from firearrow.record.columns import Envelope, UniformProperties
from firearrow.record.encode_columns import encode_columns
from firearrow.record.properties import stored_properties
from firearrow.testing import strategies as our
from tests.property.record.envelopes import envelopes
from tests.unit.record.one_by_one import drafts_of, encode_each, entries_of

few = settings(max_examples=150, deadline=None)
ALPHABET = "0123456789ABCDEF"
ends = st.text(ALPHABET, min_size=8, max_size=8)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch whose messages differ in their bodies, often of one length, their KEYS and the end of their UNIQ_KEY."""
    length = draw(st.integers(0, 40))
    bodies = draw(
        st.lists(st.binary(min_size=length, max_size=length), min_size=2, max_size=8)
        | st.lists(st.binary(max_size=40), min_size=2, max_size=8)
    )
    head = draw(st.text(ALPHABET, max_size=48))
    flag = draw(st.integers(-(1 << 31), (1 << 31) - 1))
    more = draw(st.dictionaries(st.sampled_from(["TAGS", "KEYS", "WAIT", "a"]), st.text("abc ", min_size=1)))
    first = draw(st.booleans())
    messages = []
    for body in bodies:
        key = {"ROW": draw(ends), "UNIQ_KEY": head + draw(ends)}
        messages.append(Message("T", body, key | more if first else more | key, flag))
    return encode_batch(messages)


@few
@given(batches(), envelopes(), st.tuples(our.queue_offsets, our.physical_offsets, our.timestamps))
def test_records_are_those_of_each_message(batch: bytes, envelope: Envelope, place: tuple[int, int, int]) -> None:
    columns = columns_of(batch, 3, 7)
    assert type(columns.properties) is UniformProperties
    sent = [(flag, body, stored_properties(given)) for flag, body, given in entries_of(batch)]
    assert list(zip(columns.flags, columns.bodies, columns.properties, strict=True)) == sent
    queue_offset, physical, store_ms = place[0] >> 1, place[1] >> 1, place[2]
    offsets = range(queue_offset, queue_offset + len(sent))
    expected = encode_each(drafts_of(envelope, columns), offsets, physical, store_ms)
    records, sizes = encode_columns(envelope, columns, offsets, physical, store_ms)
    assert records == b"".join(expected)
    assert sizes == [len(record) for record in expected]


@few
@given(batches(), st.data())
def test_whatever_is_changed_the_messages_are_those_of_each(batch: bytes, data: st.DataObject) -> None:
    altered = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, len(batch) - 1))] = data.draw(
            st.sampled_from(b"\x00\x01\x02#A\xff") | st.integers(0, 255)
        )
    given = bytes(altered)
    try:
        sent = [(flag, body, stored_properties(text)) for flag, body, text in entries_of(given)]
    except BadBody:
        with pytest.raises(BadBody):
            columns_of(given, 0, 0)
        return
    columns = columns_of(given, 0, 0)
    assert list(zip(columns.flags, columns.bodies, columns.properties, strict=True)) == sent
