"""The slices of a matrix: every cell comes round, whatever the sizes."""

from collections.abc import Callable, Iterator
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaigns.rotation import FILE_SLICES, commits, files_in_turn, in_turn, this_turn


@given(size=st.integers(1, 60), count=st.integers(1, 60), first=st.integers(0, 10_000))
def test_consecutive_turns_cover_every_cell(size: int, count: int, first: int) -> None:
    cells = list(range(size))
    seen = {cell for step in range(ceil(size / count)) for cell in in_turn(cells, count, first + step)}
    assert seen == set(cells)


@given(size=st.integers(0, 60), count=st.integers(1, 60), number=st.integers(0, 10_000))
def test_a_slice_has_the_size_asked_for_and_no_cell_twice(size: int, count: int, number: int) -> None:
    chosen = in_turn(range(size), count, number)
    assert len(chosen) == len(set(chosen)) == min(size, count)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Says which commit is checked out."""

    def tell(number: str) -> None:
        monkeypatch.setenv("TEST_TURN", number)
        commits.cache_clear()

    yield tell
    commits.cache_clear()


def test_the_environment_chooses(told: Callable[[str], None]) -> None:
    told(str(FILE_SLICES))
    assert this_turn("abcd", 2) == ["c", "d"]
    assert files_in_turn("abcde") == {"a", "e"}
    told("all")
    assert this_turn("abcd", 2) == ["a", "b", "c", "d"]
    assert files_in_turn("abcde") == set("abcde")


def test_consecutive_commits_cover_every_cell_of_every_file(told: Callable[[str], None]) -> None:
    seen = set()
    for commit in range(100, 100 + FILE_SLICES * len("123")):
        told(str(commit))
        seen |= {(file, cell) for file in files_in_turn("abcde") for cell in this_turn("123", 1)}
    assert seen == {(file, cell) for file in "abcde" for cell in "123"}
