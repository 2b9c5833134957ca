"""Messages that came together make the records that they make one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.record.encode import Draft, encode
from firearrow.record.properties import StoredProperties
from firearrow.record.together import Together, encode_together
from firearrow.testing import strategies as our

messages = st.tuples(
    st.integers(0, 2**31 - 1), st.integers(0, 2**62), st.binary(max_size=40), our.stored_properties(), our.queue_offsets
)


@settings(max_examples=150, deadline=None)
@given(our.drafts(), st.lists(messages, min_size=1, max_size=6), st.integers(0, 2**62), our.timestamps)
def test_records_are_those_of_each_message(
    shared: Draft, sent: list[tuple[int, int, bytes, StoredProperties, QueueOffset]], start: int, store_ms: EpochMs
) -> None:
    expected, places = [], [start]
    for queue_id, born, body, properties, queue_offset in sent:
        draft = replace(shared, queue_id=queue_id, body=body, properties=properties, born_timestamp=EpochMs(born))
        expected.append(encode(draft, queue_offset, PhysicalOffset(places[-1]), store_ms))
        places.append(places[-1] + len(expected[-1]))
    queue_ids, born_at, bodies, texts, offsets = map(list, zip(*sent, strict=True))
    together = Together(queue_ids, born_at, bodies, texts)
    records, sizes = encode_together(shared, together, offsets, start, store_ms)
    assert records == b"".join(expected)
    assert sizes == [len(record) for record in expected]
