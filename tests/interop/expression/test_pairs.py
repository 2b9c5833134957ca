"""A few hundred pairs of expression and message, other ones at every commit, judged by Apache's filter and by ours."""

import pytest

from campaigns.rotation import turn
from campaigns.sql_pairs import Generator, differences, known

PAIRS = 600


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_apache_and_we_say_the_same(version: str) -> None:
    generator = Generator(1_000_000 + (turn() or 0), searches=not version.startswith("4."))
    pairs = known(generator.pairs(PAIRS), version)
    found, counted = differences(pairs, version)
    assert found == []
    assert set(counted) == {"TRUE", "FALSE", "NULL", "ERROR", "REFUSED"}
