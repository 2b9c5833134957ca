"""The small files that are rewritten together: none twice, none too large, neighbours beside each other."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.spark.upkeep.work import FULL, bins


@given(
    sizes=st.lists(st.integers(0, 200), max_size=60),
    file_bytes=st.integers(1, 200),
    min_files=st.integers(2, 8),
)
def test_bins(sizes: list[int], file_bytes: int, min_files: int) -> None:
    made = bins(list(enumerate(sizes)), lambda file: file[1], file_bytes, min_files)
    chosen = [file for each in made for file in each]
    assert chosen == sorted(set(chosen)), "in their order, each once"
    for each in made:
        assert len(each) >= 2
        assert sum(size for _, size in each) <= file_bytes
    small = [file for file in enumerate(sizes) if file[1] < FULL * file_bytes]
    assert set(chosen) <= set(small)
    if sum(size for _, size in small) <= file_bytes and len(small) >= min_files:
        assert made == [small], "what fits into one file becomes one"
    if len(small) < min_files and sum(size for _, size in small) <= file_bytes:
        assert made == [], "a few files wait for more"
