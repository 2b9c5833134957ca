"""The keys of rows, hashed many at once, are those of each row."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.model.flags import ROLLBACK
from firearrow.model.java_hash import java_hash
from firearrow.store.dispatch import Row
from firearrow.store.index.key_columns import keys_by_columns
from firearrow.store.index.key_hash import MASK
from firearrow.store.index.row_keys import hashed_keys
from firearrow.store.property_fields import keys_of
from firearrow.store.queue.consume_queue import ConsumeQueue

few = settings(max_examples=150, deadline=None)
QUEUES = [ConsumeQueue("T", 0), ConsumeQueue("T", 1)]
OTHER = ConsumeQueue("U", 0)
uniques = st.text("0123456789ABCDEF", min_size=32, max_size=32)
words = st.text("abc-_äx", min_size=1, max_size=34)
Properties = list[tuple[str, str]]


def row(number: int, queue: ConsumeQueue, properties: Properties, sys_flag: int = 0) -> Row:
    raw = "".join(f"{name}\x01{value}\x02" for name, value in properties).encode()
    return queue, 1000 * number, 1000, number, 7 + number // 3, sys_flag, raw


@st.composite
def uniform(draw: st.DrawFn) -> list[Row]:
    """Rows of one topic that are written the same way."""
    has_keys = draw(st.booleans())
    behind = draw(st.sampled_from([[], [("TIMER_OUT_MS", "1700000000000"), ("REAL_QID", "0")]]))
    word = st.text("abc-", min_size=1, max_size=32)
    rows = []
    for number in range(draw(st.integers(16, 40))):
        properties = [("KEYS", draw(word))] if has_keys else []
        properties += [("row", str(number)), ("UNIQ_KEY", draw(uniques)), *behind]
        rows.append(row(number, draw(st.sampled_from(QUEUES)), properties))
    return rows


odd_properties = st.lists(
    st.sampled_from(
        [("TAGS", "a"), ("xKEYS", "b"), ("xUNIQ_KEY", "c"), ("KEYS", "two words"), ("KEYS", " "), ("a", "")]
    )
    | st.tuples(st.just("KEYS"), words)
    | st.tuples(st.just("UNIQ_KEY"), uniques | words | st.text("AB", min_size=56, max_size=56)),
    max_size=4,
)
odd_rows = st.tuples(odd_properties, st.sampled_from([*QUEUES, *QUEUES, OTHER]), st.sampled_from([0, 0, 0, ROLLBACK]))


def expected(rows: list[Row]) -> list[tuple[int, int, int]]:
    return [
        (java_hash(f"{queue.topic}#{key.decode()}") & MASK, physical, store_ms)
        for queue, physical, _, _, store_ms, sys_flag, properties in rows
        if sys_flag != ROLLBACK
        for key in keys_of(properties)
    ]


@few
@given(uniform())
def test_rows_that_are_written_the_same_way_are_hashed_by_columns(rows: list[Row]) -> None:
    assert keys_by_columns(rows) == expected(rows)
    assert hashed_keys(rows) == expected(rows)


@few
@given(uniform(), st.lists(st.tuples(st.integers(0, 40), odd_rows), min_size=1, max_size=3))
def test_odd_ones_among_them_are_seen(
    rows: list[Row], odd: list[tuple[int, tuple[Properties, ConsumeQueue, int]]]
) -> None:
    for at, (properties, queue, sys_flag) in odd:
        number = at % len(rows)
        rows[number] = row(number, queue, properties, sys_flag)
    assert hashed_keys(rows) == expected(rows)
