"""Copies: what they keep, where batches are cut, and that nothing goes back to a cluster where it has been."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.client.producer.encoded import EncodedBatch, EncodedMessage
from firearrow.mirror.copies import DROPPED, MessageCopy, Names, copy_of, parcels
from firearrow.model import EpochMs, Host, Message, MessageQueue, PhysicalOffset, QueueOffset, StoredMessage, keys
from firearrow.record.batch import decode_batch
from firearrow.record.properties import parse_properties

NAMES = Names("east", "west")
QUEUE = MessageQueue("orders", "broker-a", 3)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00\x01\x02"), min_size=1, max_size=8)
properties = st.dictionaries(texts | st.sampled_from([*sorted(DROPPED), keys.ROW_ID, keys.TAGS, keys.WAIT]), texts)


def stored(offset: int, body: bytes, given: dict[str, str], born: int = 7, sys_flag: int = 0) -> StoredMessage:
    return StoredMessage(
        "orders",
        body,
        given,
        5,
        sys_flag,
        3,
        QueueOffset(offset),
        PhysicalOffset(0),
        EpochMs(born),
        Host("127.0.0.1", 1),
        EpochMs(99),
        Host("127.0.0.1", 2),
        0,
        PhysicalOffset(0),
        0,
        100,
    )


@given(properties, st.binary(min_size=1, max_size=20))
def test_a_copy_keeps_what_belongs_to_the_message(given: dict[str, str], body: bytes) -> None:
    copy = copy_of(stored(11, body, given), QUEUE, NAMES)
    assert copy is not None
    kept = {name: value for name, value in given.items() if name not in DROPPED}
    row = kept.pop(keys.ROW_ID, None)
    expected = {**kept, keys.MIRROR_PATH: "east", keys.ROW_ID: "east/broker-a/3/11/99"}
    assert copy.message.properties == ({**expected, keys.MIRROR_ROW_ID: row} if row is not None else expected)
    assert (copy.message.body, copy.message.flag, copy.born_timestamp) == (body, 5, 7)


@given(st.lists(st.sampled_from(["east", "west", "north", "south"]), unique=True, max_size=4))
def test_a_message_is_never_copied_to_where_it_has_been(path: list[str]) -> None:
    copy = copy_of(stored(0, b"x", {keys.MIRROR_PATH: ",".join(path)} if path else {}), QUEUE, NAMES)
    if "west" in path:
        assert copy is None
    else:
        assert copy is not None
        been = copy.message.properties[keys.MIRROR_PATH].split(",")
        assert been == [*path, *(["east"] if "east" not in path else [])]
        # The way back is closed.
        back = copy_of(stored(0, b"x", dict(copy.message.properties)), QUEUE, Names("west", "east"))
        assert back is None


messages = st.lists(
    st.tuples(st.binary(min_size=1, max_size=10), st.integers(0, 3000), st.sampled_from([0, 0x301])), max_size=30
)


@given(messages, st.sampled_from([0, 1000]))
def test_batches_hold_all_messages_in_order(given: list[tuple[bytes, int, int]], spread: int) -> None:
    copies = [
        copy
        for offset, (body, born, flags) in enumerate(given)
        if (copy := copy_of(stored(offset, body, {"a": str(offset)}, born, flags), QUEUE, NAMES)) is not None
    ]
    found: list[tuple[int, bytes, dict[str, str], int]] = []
    for parcel in parcels(copies, spread):
        found += _sent(parcel.content)
        for offset in parcel.source_offsets:
            assert abs(copies[offset].born_timestamp - parcel.content.born_timestamp) <= spread
    assert found == [
        (copy.sys_flag, copy.message.body, dict(copy.message.properties), copy.message.flag) for copy in copies
    ]


def _sent(content: EncodedBatch | EncodedMessage) -> list[tuple[int, bytes, dict[str, str], int]]:
    if isinstance(content, EncodedMessage):
        return [(content.sys_flag, content.body, parse_properties(content.properties), content.flag)]
    inner = decode_batch(content.body, content.topic)
    assert len(inner) > 1
    return [(content.sys_flag, each.body, dict(each.properties), each.flag) for each in inner]


def test_a_large_message_is_sent_alone() -> None:
    small, large = (MessageCopy(n, _message(size), 0, 0) for n, size in enumerate((10, 600_000)))
    assert [parcel.source_offsets for parcel in parcels([small, large, small], 0)] == [(0,), (1,), (0,)]


def _message(size: int) -> Message:
    copy = copy_of(stored(0, b"x" * size, {}), QUEUE, NAMES)
    assert copy is not None
    return copy.message
