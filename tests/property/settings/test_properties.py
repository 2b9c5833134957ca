"""Java properties text that we write is read as it was."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.settings import format_properties, parse_properties

plain = st.text(st.characters(categories=("L", "N"), include_characters="._-"), min_size=1)


@given(st.dictionaries(plain, plain))
def test_plain_pairs_survive_the_trip(pairs: dict[str, str]) -> None:
    assert parse_properties(format_properties(pairs)) == pairs
