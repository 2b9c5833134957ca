"""A client's batch is cut as its sizes say, or refused, by whichever parser."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.errors import BadBody
from firearrow.model import Message
from firearrow.record.batch import columns_of, decode_batch, encode_batch
from firearrow.record.properties import decode_properties, stored_properties
from firearrow.testing import strategies as our
from tests.unit.record.one_by_one import entries_of

few = settings(max_examples=150, deadline=None)
messages = st.lists(our.messages(st.just("T")), min_size=1, max_size=8)
same_lengths = st.builds(
    lambda bodies, first: [Message("T", body, {"k": str(first + at)}, at) for at, body in enumerate(bodies)],
    st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=8),
    st.integers(100, 900),
)

Outcome = tuple[list[tuple[int, bytes, bytes]], str]


def by_columns(batch: bytes, most: int) -> Outcome:
    """The result of `columns_of`, or the reason of its refusal."""
    try:
        columns = columns_of(batch, 2, 5, max_messages=most)
    except BadBody as refusal:
        return [], str(refusal)
    count = len(columns.bodies)
    assert (list(columns.queue_ids), list(columns.births)) == ([2] * count, [5] * count)
    return list(zip(columns.flags, columns.bodies, columns.properties, strict=True)), ""


def one_by_one(batch: bytes, most: int) -> Outcome:
    try:
        return [(flag, body, stored_properties(given)) for flag, body, given in entries_of(batch, most)], ""
    except BadBody as refusal:
        return [], str(refusal)


@few
@given(messages | same_lengths, st.data())
def test_whatever_is_changed_a_batch_is_cut_or_refused(given: list[Message], data: st.DataObject) -> None:
    altered = bytearray(encode_batch(given))
    most = data.draw(st.sampled_from([2, 100]))
    for _ in range(data.draw(st.integers(0, 2))):
        altered[data.draw(st.integers(0, min(len(altered) - 1, 30)))] = data.draw(st.integers(0, 255))
    cut = bytes(altered[: data.draw(st.integers(0, len(altered)) | st.just(len(altered)))])
    found, refusal = one_by_one(cut, most)
    assert by_columns(cut, most) == (found, refusal)
    if not refusal:
        expected = [Message("T", body, decode_properties(properties), flag) for flag, body, properties in found]
        assert decode_batch(cut, "T", max_messages=most) == expected
