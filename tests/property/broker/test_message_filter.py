"""A filter over the bytes of a record says what its program says about the decoded properties, also from memory."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.pull.message_filter import PropertyFilter
from firearrow.expression.sql import compile_sql
from firearrow.record.properties import decode_properties

FILTERS = [
    PropertyFilter.of(compile_sql(text))
    for text in ("a > 5", "a = 'x' OR b IS NULL", "a <> b", "a = 1 AND b = 2 AND c = 3 AND d = 4 AND e IS NULL")
]
PARTS = st.sampled_from(["a", "b", "c", "ab", "x", "5", "6", "1", "", "\x01", "\x02", "a\x01", "中", "\x02a\x016\x02"])
RAW = st.one_of(st.lists(PARTS, max_size=12).map(lambda parts: "".join(parts).encode()), st.binary(max_size=40))


@given(st.lists(RAW, min_size=1, max_size=6))
def test_bytes_and_decoded_properties_agree(several: list[bytes]) -> None:
    for judge in FILTERS:
        expected = [judge.program.matches(decode_properties(raw)) for raw in several]
        assert [judge.passes(raw) for raw in several] == expected
        assert [judge.passes(raw) for raw in several] == expected
