"""Windows of rows against a model that forgets nothing: what must be found is found, and what is found is right."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.dedup.row_identity import LONGEST_KEY, hold_rows, key_in_queue, key_of, keys_of
from firearrow.broker.dedup.window import GENERATIONS, FirstCopies, FirstCopy, IdentityWindow, WindowBounds, Windows
from firearrow.model import Message, keys
from firearrow.record.batch import columns_of, encode_batch
from firearrow.record.columns import UniformProperties
from firearrow.record.properties import encode_properties

steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # the queue
        st.integers(0, 6),  # the row
        st.integers(0, 2),  # its body
        st.integers(0, 4),  # messages without an identity before it
        st.integers(0, 12),  # milliseconds since the last one
        st.booleans(),  # whether its write fails
    ),
    max_size=120,
)


@given(steps, st.integers(1, 20), st.integers(1, 60), st.integers(1, 40))
def test_what_must_be_remembered_is_found(
    given_steps: list[tuple[int, int, int, int, int, bool]], count: int, age_ms: int, most: int
) -> None:
    windows, queues = Windows(WindowBounds(count, age_ms), most), [IdentityWindow() for _ in range(3)]
    stored: list[list[tuple[bytes, FirstCopy, int]]] = [[] for _ in queues]
    offsets, now_ms, physical = [0] * len(queues), 1_000, 0
    for queue, number, body, others, waited_ms, fails in given_steps:
        now_ms += waited_ms
        offsets[queue] += others
        key, window = b"row %d" % number, queues[queue]
        windows.forget_old(window, offsets[queue], now_ms)
        found = window.find(key, body)
        known = [copy for name, copy, _ in stored[queue] if name == key]
        assert found is None or found in known
        has_body = found is not None and found.body_crc == body
        assert window.knows(key, body) == has_body
        due = [
            copy
            for name, copy, ms in stored[queue]
            if name == key
            and copy.body_crc == body
            and copy.queue_offset >= offsets[queue] - count
            and ms >= now_ms - age_ms
        ]
        if due and sum(map(len, stored)) <= most // 2:
            assert found == due[0]
        if not has_body:
            physical += 100
            copy = FirstCopy(physical, offsets[queue], body)
            windows.add(window, key, copy, offsets[queue], now_ms)
            if fails:
                windows.take_back(window, key, copy)
                assert not window.knows(key, body)
            else:
                stored[queue].append((key, copy, now_ms))
                offsets[queue] += 1
        assert windows.size == sum(map(len, queues)) <= most
        assert len(window) <= count + -(-count // GENERATIONS)


@given(st.lists(st.integers(0, 50), unique=True, max_size=50), st.integers(1, 60), st.integers(0, 50))
def test_a_rebuilt_window_knows_what_the_first_knew(numbers: list[int], count: int, forgotten: int) -> None:
    """The rows at the end of the queue, added again, give a window that finds what must be found."""
    bounds = WindowBounds(count, 1_000)
    first, rebuilt, again = Windows(bounds, 1_000), Windows(bounds, 1_000), IdentityWindow()
    window = IdentityWindow()
    for offset, number in enumerate(numbers):
        first.add(window, b"%d" % number, FirstCopy(offset * 10, offset, offset), offset, offset)
    for offset in range(max(0, len(numbers) - count), len(numbers)):
        rebuilt.add(again, b"%d" % numbers[offset], FirstCopy(offset * 10, offset, offset), offset, offset)
    first.forget_old(window, len(numbers), len(numbers))
    for offset in range(max(0, len(numbers) - count), len(numbers)):
        key = b"%d" % numbers[offset]
        assert window.find(key, offset) == again.find(key, offset) == FirstCopy(offset * 10, offset, offset)
    rebuilt.drop(again)
    assert (rebuilt.size, len(again), again.find(b"%d" % forgotten, 0)) == (0, 0, None)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00\x01\x02"), max_size=120)


@given(
    st.lists(
        st.dictionaries(st.sampled_from([keys.ROW_ID, keys.TAGS, keys.ROW_REPEATS, "a"]), texts), min_size=1, max_size=5
    )
)
def test_a_key_is_that_of_the_identity_alone(given_properties: list[dict[str, str]]) -> None:
    encoded = [encode_properties(each) for each in given_properties]
    found = list(map(key_of, encoded))
    assert not any(found) or hold_rows(encoded)
    names = [
        each.get(keys.ROW_ID, "") if keys.ROW_REPEATS not in each or not each[keys.ROW_REPEATS] else ""
        for each in given_properties
    ]
    for key, name, each in zip(found, names, given_properties, strict=True):
        if keys.ROW_REPEATS in each and name:
            continue  # an empty value may or may not count as given
        assert bool(key) == bool(name)
        assert len(key) <= LONGEST_KEY
    pairs = {name: key for name, key in zip(names, found, strict=True) if key}
    assert all(count == 1 for count in Counter(pairs.values()).values())


@given(texts, st.integers(0, 9), st.integers(0, 9), texts, st.integers(0, 9), st.integers(0, 9))
def test_keys_of_two_queues_or_lives_differ(
    topic: str, queue: int, life: int, other: str, other_queue: int, other_life: int
) -> None:
    same = (topic, queue, life) == (other, other_queue, other_life)
    assert (key_in_queue(b"k", topic, queue, life) == key_in_queue(b"k", other, other_queue, other_life)) == same


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 12)), max_size=12),
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_rows_added_at_once_are_remembered_as_one_by_one(
    batches: list[tuple[int, int]], count: int, age_ms: int, most: int
) -> None:
    at_once, single = Windows(WindowBounds(count, age_ms), most), Windows(WindowBounds(count, age_ms), most)
    window, other = IdentityWindow(), IdentityWindow()
    offset, now_ms = 0, 1_000
    for rows, waited_ms in batches:
        now_ms += waited_ms
        names = [b"row %d" % number for number in range(offset, offset + rows)]
        copies = FirstCopies(range(100 * offset, 100 * (offset + rows), 100), offset, range(rows))
        assert not window.knows_any(names)
        at_once.add_new(window, names, copies, now_ms)
        for name, copy in zip(names, copies.each(), strict=True):
            single.add(other, name, copy, copy.queue_offset, now_ms)
        assert at_once.size == single.size
        assert [(each.copies, each.first, each.last, each.first_ms, each.last_ms) for each in window.generations] == [
            (each.copies, each.first, each.last, each.first_ms, each.last_ms) for each in other.generations
        ]
        newest = names[-1]
        assert window.knows_any([b"another", newest]) == (window.find(newest, rows - 1) is not None)
        offset += rows


names_of_properties = st.sampled_from(
    [
        "a",
        keys.ROW_ID,
        keys.ROW_REPEATS,
        keys.ORIGIN_MESSAGE_ID,
        "DLQ_ORIGIN_MESSAGE_ID",
        keys.RECONSUME_TIME,
        "x" + keys.ROW_ID,
    ]
)


@given(
    st.dictionaries(names_of_properties, st.integers(1, LONGEST_KEY + 9), max_size=4), st.integers(2, 5), st.randoms()
)
def test_keys_of_a_batch_are_those_of_its_rows(lengths: dict[str, int], rows: int, chance: random.Random) -> None:
    sent = [
        Message("T", b"", {name: "".join(chance.choices("abc", k=length)) for name, length in lengths.items()})
        for _ in range(rows)
    ]
    properties = columns_of(encode_batch(sent), 0, 0).properties
    assert not lengths or type(properties) is UniformProperties
    assert list(keys_of(properties)) == [key_of(each) for each in properties]
    assert hold_rows(properties) or not any(keys_of(properties))
