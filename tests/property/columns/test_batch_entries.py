"""Messages encoded by columns are those that are encoded one by one, and refused alike."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.columns.batch_entries import MapFields, as_binary, entries_of, fields, offsets_of
from firearrow.errors import IllegalMessage
from firearrow.model import Message
from firearrow.record.batch import encode_batch

few = settings(max_examples=150, deadline=None)
bodies = st.binary(max_size=40)
texts = st.none() | st.text(st.characters(codec="utf-8", min_codepoint=3), max_size=12)
hostile = st.none() | st.text("\x00\x01\x02ab", max_size=4)
names = st.sampled_from(["TAGS", "a", "ä", "colour", "left out"])
STRINGS = pa.map_(pa.string(), pa.string())
Row = tuple[bytes, str | None, str | None, dict[str, str | None] | None]


def rows(values: st.SearchStrategy[str | None]) -> st.SearchStrategy[list[Row]]:
    maps = st.none() | st.dictionaries(names, values, max_size=4)
    return st.lists(st.tuples(bodies, values, values, maps), max_size=12)


def message(row: Row) -> Message:
    """As a row is made into a message one by one: a column goes before the map, null and empty are none."""
    body, tags, keys, given = row
    found = {name: value for name, value in (given or {}).items() if value and name != "left out"}
    if tags:
        found.pop("TAGS", None)
    named: Mapping[str, str | None] = {"TAGS": tags, "KEYS": keys}
    return Message("t", body, found | {name: value for name, value in named.items() if value})


def columns(given: list[Row], first: int) -> tuple[pa.Array, list[pa.Array]]:
    """The same rows as columns, which begin somewhere inside larger ones."""
    padded = [(b"before", "x\x01", "y", {"a": "z\x02"})] * first + given
    body = pa.array([row[0] for row in padded], pa.binary())[first:]
    tags = pa.array([row[1] for row in padded], pa.string())[first:]
    keys = pa.array([row[2] for row in padded], pa.large_string())[first:]
    maps = pa.array([None if row[3] is None else list(row[3].items()) for row in padded], STRINGS)[first:]
    mapped = MapFields(maps)
    mapped.leave_out(["left out"])
    mapped.leave_out(["TAGS"], np.array([bool(row[1]) for row in given], np.bool_))
    return as_binary(body), [mapped.fields(), fields("TAGS", tags), fields("KEYS", keys)]


@few
@given(rows(texts), st.integers(0, 2))
def test_entries_are_those_of_each_message(given: list[Row], first: int) -> None:
    entries = entries_of(*columns(given, first))
    expected = [encode_batch([message(row)]) for row in given]
    assert entries.to_pylist() == expected
    if given:
        ends = offsets_of(entries)
        assert entries.buffers()[2].to_pybytes()[ends[0] : ends[-1]] == b"".join(expected)


@few
@given(rows(hostile), st.integers(0, 1))
def test_what_one_by_one_refuses_is_refused(given: list[Row], first: int) -> None:
    try:
        expected = [encode_batch([message(row)]) for row in given]
    except IllegalMessage:
        expected = None
    try:
        found = entries_of(*columns(given, first)).to_pylist()
    except IllegalMessage:
        found = None
    assert found == expected


@few
@given(rows(texts), names)
def test_a_property_of_maps_is_found(given: list[Row], name: str) -> None:
    maps = [row[3] for row in given]
    column = pa.array([None if each is None else list(each.items()) for each in maps], STRINGS)
    found = MapFields(column).values_of(name)
    expected = [(each or {}).get(name) or None for each in maps]
    assert (found is None) == (not any(expected))
    if found is not None:
        assert found.cast(pa.string()).to_pylist() == expected
