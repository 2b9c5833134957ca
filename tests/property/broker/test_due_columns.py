"""Due messages that are made many at once are those that are made one by one."""

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from firearrow.broker.timer.due_columns import FEWEST, due_columns
from firearrow.broker.timer.records import ReadSpan, delivered, drafts_of
from firearrow.model import EpochMs, Host, PhysicalOffset, QueueOffset, keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import StoredProperties

HOSTS = [host_bytes(Host("10.0.0.1", 1)), host_bytes(Host("10.0.0.2", 2)), host_bytes(Host("::1", 3))]
NOW_MS = 1_700_000_009_000
few = settings(max_examples=200, deadline=None)


def properties(number: int, topic: str = "T", queue_id: str = "0", before: str = "", behind: str = "") -> bytes:
    """The properties of a message that a send has parked."""
    unique = f"{keys.UNIQ_KEY}\x01{number:032d}\x02{before}{keys.TIMER_OUT_MS}\x011700000008000\x02"
    return f"{unique}{keys.REAL_TOPIC}\x01{topic}\x02{keys.REAL_QID}\x01{queue_id}\x02{behind}".encode()


def draft(number: int, raw: bytes, topic: str = TIMER_TOPIC, host: int = 0, body: bytes = b"") -> Draft:
    born = EpochMs(1_700_000_000_000 + number)
    body = body or b"%09d" % number
    return Draft(topic, 0, body, StoredProperties(raw), born, HOSTS[host], HOSTS[0], number % 2, 0, 0)


def span_of(drafts: Sequence[Draft], *, stamped: bool = True, gap: int = 0) -> ReadSpan:
    """The records of messages as they are read from the log."""
    data, places, sizes = b"", [], []
    for number, one in enumerate(drafts):
        place = PhysicalOffset(1000 + len(data))
        record = encode(one, QueueOffset(number), place, EpochMs(1_700_000_000_500), stamped=stamped)
        places.append(place)
        sizes.append(len(record))
        data += record + bytes(gap)
    return ReadSpan(0, len(drafts), data, [place - 1000 for place in places], places, sizes)


def one_by_one(span: ReadSpan, added: list[int]) -> list[Draft]:
    return [
        found
        for record, added_ms in zip(span.records(), added, strict=True)
        if record is not None and (found := delivered(record, added_ms, NOW_MS)) is not None
    ]


def together(span: ReadSpan, added: list[int]) -> list[Draft] | None:
    found = due_columns(span, added, NOW_MS)
    return None if found is None else [one for envelope, columns in found for one in drafts_of(envelope, columns)]


@given(st.lists(st.tuples(st.sampled_from("0123"), st.sampled_from([0, 0, 0, 1])), min_size=FEWEST), st.integers(0, 9))
@few
def test_messages_of_producers_for_a_topic_are_made_together(rows: list[tuple[str, int]], gap: int) -> None:
    drafts = [draft(n, properties(n, queue_id=queue), host=host) for n, (queue, host) in enumerate(rows)]
    span, added = span_of(drafts, gap=gap), [1_700_000_001_000 + n // 5 * 1000 for n in range(len(rows))]
    assert together(span, added) == one_by_one(span, added)


odd = st.sampled_from(
    [
        draft(99, properties(99, topic="U")),
        draft(99, properties(99, topic=TIMER_TOPIC)),
        draft(99, properties(99, queue_id="x")),
        draft(99, properties(99, queue_id="9")),
        draft(99, properties(99, before="REAL_TOPIC\x01V\x02")),
        draft(99, properties(99, behind="REAL_TOPIC\x01V\x02")),
        draft(99, properties(99, behind="xREAL_TOPIC\x01V\x02")),
        draft(99, properties(99, before="TIMER_ENQUEUE_MS\x015\x02TIMER_DEQUEUE_MS\x016\x02")),
        draft(99, properties(99, before="__CRC32#\x011234567890\x02")),
        draft(99, properties(99, before="a\x01" + "b" * 32_500 + "\x02")),
        draft(99, properties(99)[:-1]),
        draft(99, b""),
        draft(99, properties(99), topic="X"),
        draft(99, properties(99), topic="X" * len(TIMER_TOPIC)),
        draft(99, properties(99), host=2),
        draft(99, properties(99), body=b"another length"),
    ]
)


@given(st.integers(FEWEST, 12), st.lists(st.tuples(st.integers(0, 11), odd), min_size=1, max_size=3), st.booleans())
@few
def test_odd_ones_are_seen(count: int, odd_ones: list[tuple[int, Draft]], all_odd: bool) -> None:
    drafts = [draft(n, properties(n)) for n in range(count)]
    for at, one in odd_ones:
        drafts[at % count] = one
    if all_odd:
        drafts = [odd_ones[0][1]] * count
    span, added = span_of(drafts), [1_700_000_001_000] * count
    assert together(span, added) in (None, one_by_one(span, added))


@given(st.integers(0, 4000), st.integers(0, 255))
@example(8, 1)
@few
def test_damage_is_seen(at: int, value: int) -> None:
    """A changed byte makes the same messages as one by one: none for a record that is not whole."""
    span = span_of([draft(n, properties(n)) for n in range(10)])
    data = bytearray(span.data)
    data[at % len(data)] = value
    span, added = span._replace(data=bytes(data)), [1_700_000_001_000] * 10
    assert together(span, added) in (None, one_by_one(span, added))


def test_records_without_a_stamp_and_few_are_left_to_the_others() -> None:
    drafts = [draft(n, properties(n)) for n in range(FEWEST)]
    assert due_columns(span_of(drafts, stamped=False), [0] * FEWEST, NOW_MS) is None
    assert due_columns(span_of(drafts[:-1]), [0] * (FEWEST - 1), NOW_MS) is None
    cut = span_of(drafts)
    assert due_columns(cut._replace(data=cut.data[:-1]), [0] * FEWEST, NOW_MS) is None
    assert due_columns(cut._replace(data=b""), [0] * FEWEST, NOW_MS) is None
