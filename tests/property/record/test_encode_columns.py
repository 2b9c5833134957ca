"""Messages by columns make the records that `encode` makes of each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.errors import IllegalMessage
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.encode import encode
from firearrow.record.encode_columns import encode_columns
from firearrow.record.properties import StoredProperties
from firearrow.testing import strategies as our
from tests.property.record.envelopes import envelopes
from tests.unit.record.one_by_one import drafts_of, encode_each

messages = st.tuples(
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=40) | st.binary(min_size=8, max_size=8),
    our.stored_properties(),
    our.queue_offsets,
)
Sent = list[tuple[int, int, int, bytes, StoredProperties, QueueOffset]]


@settings(max_examples=150, deadline=None)
@given(envelopes(), st.lists(messages, max_size=6), st.integers(0, 2**62), our.timestamps)
def test_records_are_those_of_each_message(envelope: Envelope, sent: Sent, start: int, store_ms: EpochMs) -> None:
    queue_ids, births, flags, bodies, texts, offsets = map(list, zip(*sent, strict=True)) if sent else ([],) * 6
    columns = MessageColumns(queue_ids, births, flags, bodies, texts)
    expected = encode_each(drafts_of(envelope, columns), offsets, start, store_ms)
    records, sizes = encode_columns(envelope, columns, offsets, start, store_ms)
    assert records == b"".join(expected)
    assert sizes == [len(record) for record in expected]


def _columns(*properties: bytes, flag: int = 0) -> MessageColumns:
    count = len(properties)
    return MessageColumns([1] * count, [5] * count, [flag] * count, [b"body"] * count, properties)


@given(envelopes(), st.integers(32_740, 32_767))
def test_a_record_that_the_stamp_does_not_fit_goes_unstamped(envelope: Envelope, length: int) -> None:
    columns = _columns(b"a\x01b\x02", b"a\x01" + b"b" * (length - 3) + b"\x02", b"")
    records, sizes = encode_columns(envelope, columns, range(3), 1000, 9)
    expected = b""
    for number, draft in enumerate(drafts_of(envelope, columns)):
        place = QueueOffset(number), PhysicalOffset(1000 + len(expected)), EpochMs(9)
        expected += encode(draft, *place, stamped=len(draft.properties) <= 32_747)
    assert (records, sum(sizes)) == (expected, len(expected))


@given(envelopes())
def test_a_number_that_fits_no_field_is_refused(envelope: Envelope) -> None:
    with pytest.raises(IllegalMessage, match="does not fit its field"):
        encode_columns(envelope, _columns(b"", flag=2**31), [0], 0, 0)
