"""Whatever can be written can be read back, in every form of a record."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.errors import BadRecord
from firearrow.model import EpochMs, Message, PhysicalOffset, QueueOffset
from firearrow.record.batch import columns_of, decode_batch, encode_batch
from firearrow.record.columns import Envelope
from firearrow.record.compression import Codec, decompress
from firearrow.record.decode import decode, decode_all, heads, peek
from firearrow.record.encode import Draft, encode
from firearrow.record.encode_columns import encode_columns
from firearrow.record.hosts import host_address, host_bytes
from firearrow.record.message_id import offset_message_id, parse_offset_message_id
from firearrow.record.properties import decode_properties, encode_properties, format_properties, parse_properties
from firearrow.testing import strategies as our
from tests.property.record.envelopes import envelopes
from tests.unit.record.stamps import check_stamp

few = settings(max_examples=150, deadline=None)
places = st.tuples(our.queue_offsets, our.physical_offsets, our.timestamps)


@few
@given(our.drafts(), places, st.booleans())
def test_records(draft: Draft, place: tuple[QueueOffset, PhysicalOffset, EpochMs], stamped: bool) -> None:
    record = encode(draft, *place, stamped=stamped)
    head = peek(record)
    assert check_stamp(record, head, required=stamped) is stamped
    message = decode(record)
    assert (message.queue_offset, message.physical_offset, message.store_timestamp) == place
    assert message.topic == draft.topic == head.topic
    assert message.body == draft.body
    assert message.properties == decode_properties(draft.properties)
    assert message.born_host == host_address(draft.born_host)
    assert message.store_host == host_address(draft.store_host)
    assert message.sys_flag & ~0x30 == draft.sys_flag & ~0x30
    for name in ("queue_id", "born_timestamp", "flag", "reconsume_times", "prepared_transaction_offset"):
        assert getattr(message, name) == getattr(draft, name)


@few
@given(our.drafts(), our.compressed_bodies())
def test_compressed_records(draft: Draft, body: tuple[bytes, bytes, int]) -> None:
    plain, compressed, sys_flag = body
    form = Draft(draft.topic, 0, compressed, draft.properties, EpochMs(0), draft.born_host, draft.store_host,
                 sys_flag=sys_flag)  # fmt: skip
    record = encode(form, QueueOffset(0), PhysicalOffset(0), EpochMs(0))
    assert decode(record).body == plain
    assert decompress(compressed, sys_flag, len(plain)) == plain
    assert Codec(decode(record).sys_flag & 0x700) is Codec(sys_flag & 0x700)


@few
@given(our.drafts(), st.data())
def test_a_flip_in_a_stamped_record_always_shows(draft: Draft, data: st.DataObject) -> None:
    record = bytearray(encode(draft, QueueOffset(1), PhysicalOffset(2), EpochMs(3)))
    position = data.draw(st.integers(0, len(record) - 1))
    record[position] ^= data.draw(st.integers(1, 255))
    try:
        check_stamp(record, peek(record), required=True)
    except BadRecord:
        return
    raise AssertionError(f"the flip at byte {position} went unseen")


@few
@given(st.binary(max_size=300))
def test_junk_raises_bad_record_and_nothing_else(junk: bytes) -> None:
    offset = 0
    try:
        offset = sum(head.size for head in heads(junk))
        list(decode_all(junk))
    except BadRecord as refusal:
        offset = refusal.offset
    assert 0 <= offset <= len(junk)


@few
@given(st.lists(our.messages(st.just("T")), max_size=8), envelopes(our.topics), places)
def test_batches(
    messages: list[Message], envelope: Envelope, place: tuple[QueueOffset, PhysicalOffset, EpochMs]
) -> None:
    batch = encode_batch(messages)
    assert decode_batch(batch, "T") == messages
    queue_offset, physical_offset = QueueOffset(place[0] >> 1), PhysicalOffset(place[1] >> 1)
    offsets = range(queue_offset, queue_offset + len(messages))
    records, sizes = encode_columns(envelope, columns_of(batch, 3, 7), offsets, physical_offset, place[2])
    stored = list(decode_all(records))
    assert [m.store_size for m in stored] == sizes
    assert {(m.queue_id, m.born_timestamp) for m in stored} <= {(3, 7)}
    assert [(m.body, m.properties, m.flag) for m in stored] == [(m.body, m.properties, m.flag) for m in messages]
    assert [m.queue_offset for m in stored] == list(offsets)
    ends = [m.physical_offset + m.store_size for m in stored]
    assert [m.physical_offset for m in stored] == [physical_offset, *ends][: len(stored)]


@few
@given(our.properties())
def test_properties(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties
    stored = encode_properties(properties)
    assert decode_properties(stored) == properties
    assert decode_properties(stored[:-1]) == properties


@few
@given(our.hosts(), our.physical_offsets)
def test_hosts_and_ids(host: bytes, offset: PhysicalOffset) -> None:
    address = host_address(host)
    assert host_bytes(address) == host
    assert parse_offset_message_id(offset_message_id(host_bytes(address), offset)) == (address, offset)
