"""The quick count of the members of a JSON header: never too low, whatever is escaped."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.protocol.header_json import MEMBERS_MAX, _count_quotes_before_colons, _has_too_many

SIGNS = ["\\\\", '\\"', "\\n", "\\/", "\\u0022", "\\u005c", "\\u003a", ":", ",", "{", "}", "'", "a", "é", " ", "1"]
"""Texts are made of these: all that the count looks at, plain and escaped."""

texts = st.lists(st.sampled_from(SIGNS), max_size=6).map(lambda signs: f'"{"".join(signs)}"')
blanks = st.sampled_from(["", "", " ", "\n\t"])
Counted = tuple[str, int]
"""The text of a value and the number of members in it."""


def member(parts: tuple[str, str, str, Counted]) -> Counted:
    name, before, after, (value, count) = parts
    return f"{name}{before}:{after}{value}", count + 1


def make_object(members: list[Counted]) -> Counted:
    return f"{{{','.join(text for text, _ in members)}}}", sum(count for _, count in members)


def objects_of(values: st.SearchStrategy[Counted]) -> st.SearchStrategy[Counted]:
    return st.lists(st.tuples(texts, blanks, blanks, values).map(member), max_size=5).map(make_object)


plain = st.one_of(texts, st.sampled_from(["1", "-2.5e3", "null", "true"])).map(lambda text: (text, 0))
objects = objects_of(st.recursive(plain, objects_of, max_leaves=10))


@given(objects)
@settings(deadline=None, max_examples=500)
def test_a_member_is_counted_one_to_three_times(header: Counted) -> None:
    text, members = header
    msgspec.json.decode(text)
    assert members <= _count_quotes_before_colons(text.encode()) <= 3 * members


@given(texts, texts, st.integers(1, 3 * MEMBERS_MAX + 100))
@settings(deadline=None, max_examples=200)
def test_no_escape_hides_that_there_are_too_many(name: str, value: str, members: int) -> None:
    header = f"{{{','.join([f'{name}:{value}'] * members)}}}".encode()
    assert _has_too_many(header) or members <= 3 * MEMBERS_MAX, "members are hidden"
    assert members > MEMBERS_MAX or not _has_too_many(header), "members are counted that do not exist"
