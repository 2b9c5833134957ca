"""Values that are found in the bytes of a half message are those of its decoded properties, whatever the bytes are."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.broker.transaction.half import final_message, half_of
from firearrow.broker.transaction.half_record import NOT_FINAL, HalfRecord
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset, keys
from firearrow.model.names import HALF_TOPIC
from firearrow.model.numbers import whole_number
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes
from firearrow.record.properties import StoredProperties, decode_properties
from firearrow.store.timer.config import TimerConfig

HOST = HostBytes(b"\x7f\0\0\1\0\0\0\1")
KEYS = [
    *NOT_FINAL, keys.PGROUP, keys.UNIQ_KEY, keys.CHECK_IMMUNITY_TIME, keys.TRANSACTION_CHECK_TIMES, keys.TRANSACTION_ID,
    "TAGS", "xREAL_TOPIC", "xTRAN_MSG", "PGROUPx", "#", "",
]  # fmt: skip
texts = st.sampled_from(["T", "3", "true", "", "P", "REAL_TOPIC", "REAL_QID\x013", "\xe4", "__CRC32#", "x\x01y"])
entries = st.tuples(st.sampled_from(KEYS), texts).map(lambda pair: f"{pair[0]}\x01{pair[1]}".encode())
odd = st.sampled_from([b"no value", b"", b"\xff\x01\xfe", b"__CRC32#\x010123456789"])
raws = st.lists(entries | odd, max_size=10).map(lambda parts: b"".join(part + b"\x02" for part in parts))
USUAL = b"TRAN_MSG\x01true\x02UNIQ_KEY\x01K\x02PGROUP\x01P\x02TAGS\x01a\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02"


def record_of(raw: bytes, offset: int = 7) -> HalfRecord:
    draft = Draft(HALF_TOPIC, 0, b"body", StoredProperties(raw), EpochMs(5), HOST, HOST, 3)
    return HalfRecord.read(encode(draft, QueueOffset(offset), PhysicalOffset(0), EpochMs(9)))


@settings(max_examples=500, deadline=None)
@given(st.one_of(raws, raws.map(lambda raw: USUAL + raw), raws.map(lambda raw: raw + USUAL)), st.booleans())
def test_values_are_those_of_the_properties(raw: bytes, is_closed: bool) -> None:
    record = record_of(raw if is_closed else raw[:-1])
    properties = decode_properties(record.head.properties(record.data))
    assert record.properties == properties
    assert record.group == properties.get(keys.PGROUP, "")
    assert record.unique_key == properties.get(keys.UNIQ_KEY, "")
    assert record.immunity == properties.get(keys.CHECK_IMMUNITY_TIME, "")
    topic, queue_id = properties.get(keys.REAL_TOPIC), whole_number(properties.get(keys.REAL_QID), 2**31 - 1)
    assert record.place == ((topic, queue_id) if topic and queue_id is not None else None)
    final = record.plain_final_properties()
    if final is not None:
        assert decode_properties(final) == {key: properties[key] for key in properties if key not in NOT_FINAL}
    half = half_of(record)
    assert half.checks == (whole_number(properties.get(keys.TRANSACTION_CHECK_TIMES)) or 0)
    assert half.immunity_s == whole_number(properties.get(keys.CHECK_IMMUNITY_TIME))
    replaced = [whole_number(properties.get(key)) for key in (keys.PREVIOUS_HALF, keys.TRAN_PREPARED_QUEUE_OFFSET)]
    first = next((number for number in replaced if number is not None), None)
    assert half.replaces == (first if first is not None and first < 7 else -1)


def test_the_properties_of_a_usual_half_message_are_not_decoded() -> None:
    record = record_of(USUAL)
    draft = final_message(record, 18, TimerConfig(), 10)
    assert draft is not None
    assert (draft.topic, draft.queue_id, draft.properties) == ("T", 2, b"UNIQ_KEY\x01K\x02PGROUP\x01P\x02TAGS\x01a\x02")
    assert (draft.body, draft.sys_flag, draft.flag) == (b"body", 8, 3)
    assert half_of(record).group == "P"
    assert record._properties is None


def test_a_delay_begins_with_the_commit() -> None:
    draft = final_message(record_of(USUAL + b"DELAY\x013\x02"), 18, TimerConfig(), 10)
    assert draft is not None
    assert (draft.topic, draft.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
