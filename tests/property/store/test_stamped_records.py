"""The check by columns calls right only records that the check record by record calls right; and rot never passes."""

from hypothesis import example, given
from hypothesis import strategies as st

from firearrow.errors import BadRecord
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.model.java_hash import tag_code
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes
from firearrow.record.properties import StoredProperties
from firearrow.store.dispatch import code_of, may_have_code
from firearrow.store.queue.consume_queue import SCHEDULE_TOPIC
from firearrow.store.read.stamped_records import are_right
from firearrow.store.recovery.verify import judge

TOPIC = "orders"
HOST = HostBytes(bytes(8))
PIECES = [b"TAGS\x01a\x02", b"TAGS\x01b\x02", b"TAGS\x01\x02", b"TAGS\x01a", b"xTAGS\x01a\x02", b"TAGS\x01a\x01b\x02"]
properties = st.lists(st.sampled_from([*PIECES, b"KEYS\x01k\x02", b"UNIQ_KEY\x01u\x02"]), max_size=4).map(b"".join)
drafts = st.builds(
    Draft,
    topic=st.sampled_from([TOPIC] * 8 + ["others", "o" * 200]),
    queue_id=st.just(3),
    body=st.sampled_from([b"", b"body", b"TAGS\x01a\x02", bytes(300)]),
    properties=properties,
    born_timestamp=st.just(1),
    born_host=st.sampled_from([HOST] * 8 + [bytes(20)]),
    store_host=st.just(HOST),
)


def tagged(text: bytes) -> Draft:
    return Draft(TOPIC, 3, b"", StoredProperties(text), EpochMs(1), HOST, HOST)


def laid(many: list[Draft]) -> tuple[bytes, list[int]]:
    data, sizes = b"", []
    for number, draft in enumerate(many):
        record = encode(draft, QueueOffset(number), PhysicalOffset(len(data)), EpochMs(2))
        data += record
        sizes.append(len(record))
    return data, sizes


def right_one_by_one(data: bytes, sizes: list[int], codes: list[int]) -> bool:
    """As the reader checks cold records that are not all alike."""
    place = 0
    for number, (size, code) in enumerate(zip(sizes, codes, strict=True)):
        try:
            head, _ = judge(data, place, place, ours=True)
        except BadRecord:
            return False
        if (head.size, head.queue_id, head.queue_offset, head.topic) != (size, 3, number, TOPIC):
            return False
        if not may_have_code(code, head.topic, head.properties(data), head.store_timestamp, ()):
            return False
        place += size
    return True


@given(
    many=st.lists(drafts, min_size=1, max_size=5),
    codes=st.lists(st.sampled_from([None, None, None, None, 0, tag_code("a"), tag_code("b")]), min_size=5, max_size=5),
    rot=st.none() | st.tuples(st.integers(0, 10**6), st.integers(1, 255)),
)
@example([tagged(b"TAGS\x01a\x02")], [tag_code("b")] * 5, None)
@example([tagged(b"TAGS\x01a")], [None] * 5, (0, 1))
def test_nothing_passes_that_would_not_pass_alone(
    many: list[Draft], codes: list[int | None], rot: tuple[int, int] | None
) -> None:
    data, sizes = laid(many)
    begins = [sum(sizes[:number]) for number in range(len(sizes))]
    heads = [judge(data, begin, begin, ours=True)[0] for begin in begins]
    own = [code_of(TOPIC, head.properties(data), 2, ()) for head in heads]
    said = [mine if code is None else code for mine, code in zip(own, codes, strict=False)]
    if rot is not None:
        at = rot[0] % len(data)
        data = data[:at] + bytes([data[at] ^ rot[1]]) + data[at + 1 :]
        assert not are_right(data, TOPIC, sizes, said), "a flipped bit passes"
        return
    found = are_right(data, TOPIC, sizes, said)
    alone = right_one_by_one(data, sizes, said)
    usual = all(draft.topic == TOPIC and draft.born_host == HOST for draft in many)
    assert found == alone if usual else not found or alone
    assert not are_right(data, SCHEDULE_TOPIC, sizes, said)
