"""Messages of a batch taken by columns make the records that they make one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.model import EpochMs, Message, PhysicalOffset, QueueOffset
from firearrow.record.alike import KEY_END, alike_of, encode_alike
from firearrow.record.batch import encode_batch, encode_each, messages_of, pieces_of, split_batch
from firearrow.record.encode import Draft
from firearrow.testing import strategies as our

few = settings(max_examples=150, deadline=None)
ALPHABET = "0123456789ABCDEF"
ends = st.text(ALPHABET, min_size=KEY_END, max_size=KEY_END)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch whose messages are alike."""
    length = draw(st.integers(0, 40))
    bodies = draw(st.lists(st.binary(min_size=length, max_size=length), min_size=2, max_size=8))
    head = draw(st.text(ALPHABET, max_size=48))
    flag = draw(st.integers(-(1 << 31), (1 << 31) - 1))
    more = draw(st.dictionaries(st.sampled_from(["TAGS", "KEYS", "WAIT", "a"]), st.text("abc ", min_size=1)))
    first = draw(st.booleans())
    messages = []
    for body in bodies:
        key = {"UNIQ_KEY": head + draw(ends)}
        messages.append(Message("T", body, key | more if first else more | key, flag))
    return encode_batch(messages)


@few
@given(batches(), our.drafts(), st.tuples(our.queue_offsets, our.physical_offsets, our.timestamps))
def test_records_are_those_of_each_message(batch: bytes, template: Draft, place: tuple[int, int, int]) -> None:
    alike = alike_of(batch)
    assert alike is not None
    assert alike.pieces() == pieces_of(batch)
    queue_offset, physical, store_ms = place[0] >> 1, place[1] >> 1, EpochMs(place[2])
    drafts = split_batch(batch, template)
    expected = encode_each(drafts, QueueOffset(queue_offset), PhysicalOffset(physical), store_ms)
    records, size = encode_alike(alike, template, queue_offset, physical, store_ms)
    assert records == b"".join(expected)
    assert {len(record) for record in expected} == {size}
    assert [alike.properties.of(number) for number in range(len(alike))] == [one.properties for one in drafts]


@few
@given(batches(), st.data())
def test_whatever_is_changed_the_messages_are_those_of_each(batch: bytes, data: st.DataObject) -> None:
    altered = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, len(batch) - 1))] = data.draw(
            st.sampled_from(b"\x00\x01\x02#A\xff") | st.integers(0, 255)
        )
    alike = alike_of(bytes(altered))
    if alike is not None:
        assert alike.pieces() == pieces_of(bytes(altered))
        assert messages_of(bytes(altered)) == alike
