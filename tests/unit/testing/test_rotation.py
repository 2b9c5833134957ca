"""The slices of a matrix: every cell comes round, whatever the sizes."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.testing.rotation import in_turn, this_turn, turn


@given(size=st.integers(1, 60), count=st.integers(1, 60), first=st.integers(0, 10_000))
def test_consecutive_turns_cover_every_cell(size: int, count: int, first: int) -> None:
    cells = list(range(size))
    seen = {cell for step in range(ceil(size / count)) for cell in in_turn(cells, count, first + step)}
    assert seen == set(cells)


@given(size=st.integers(0, 60), count=st.integers(1, 60), number=st.integers(0, 10_000))
def test_a_slice_has_the_size_asked_for_and_no_cell_twice(size: int, count: int, number: int) -> None:
    chosen = in_turn(range(size), count, number)
    assert len(chosen) == len(set(chosen)) == min(size, count)


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    turn.cache_clear()
    monkeypatch.setenv("FIREARROW_TURN", "1")
    assert this_turn("abcd", 2) == ["c", "d"]
    turn.cache_clear()
    monkeypatch.setenv("FIREARROW_TURN", "all")
    assert this_turn("abcd", 2) == ["a", "b", "c", "d"]
    turn.cache_clear()
