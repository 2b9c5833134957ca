"""The runs of one queue: what is noted, forgotten and made coarser. Groups that move: test_moving_groups.py."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from firearrow.mirror.offset_map import Loops, OffsetMap, translate


class Step(NamedTuple):
    """The next event: a batch is copied, copied again, others write, or messages are left out."""

    kind: str
    size: int


steps = st.lists(
    st.builds(Step, st.sampled_from(["copy", "again", "others", "skip"]), st.integers(1, 5)), min_size=1, max_size=60
)


@given(steps, st.integers(4, 12))
def test_nothing_is_passed_but_copies_from_before_an_offset(story: list[Step], most: int) -> None:
    copied: dict[int, int] = {}
    source = target = 0
    coarse, exact = OffsetMap(most=most), OffsetMap()
    for step in story:
        if step.kind == "others":
            target += step.size
        elif step.kind == "skip":
            source += step.size
        else:
            begin = max(0, source - step.size) if step.kind == "again" else source
            for number in range(step.size):
                copied[target + number] = begin + number
            assert coarse.note(begin, target, step.size) == exact.note(begin, target, step.size) == 0
            source, target = max(source, begin + step.size), target + step.size
    for offset in range(source + 2):
        for begin in range(target + 2):
            true = begin
            while copied.get(true, offset) < offset:
                true += 1
            assert exact.first_new(offset, begin) == true
            assert begin <= coarse.first_new(offset, begin) <= true
    assert len(coarse.runs) <= most


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), st.integers(0, 3), st.integers(0, 3))
def test_a_queue_that_only_the_mirror_writes_to_is_one_run(batches: list[int], source: int, target: int) -> None:
    copies, first = OffsetMap(most=4), (source, target)
    for count in batches:
        assert copies.note(source, target, count) == 0
        source += count
        target += count
    assert len(copies.runs) == 1
    for offset in range(first[0], source + 1):
        assert copies.first_new(offset, first[1]) == first[1] + offset - first[0]
        assert copies.first_new(offset, 0) == (0 if first[1] else offset - first[0])


@given(st.integers(1, 30), st.integers(0, 29), st.integers(1, 5))
def test_a_target_that_lost_its_end_is_noted_anew(copied: int, kept: int, count: int) -> None:
    kept = min(kept, copied)
    copies = OffsetMap()
    copies.note(0, 0, copied)
    assert copies.note(copied, kept, count) == copied - kept
    assert copies.first_new(copied, 0) == kept
    assert copies.first_new(copied + count, 0) == kept + count


def test_loops_that_are_brought_twice_change_nothing_and_a_queue_made_anew_is_noted_anew() -> None:
    loops = Loops()
    for number in range(5):
        loops.note(10 + number, 3 + number, 100 + number)
    loops.note(15, 3, 100)
    assert loops.had_before(10) == range(0)
    assert loops.had_before(12) == range(3, 5)
    assert loops.had_before(99) == range(3, 8)
    loops.note(16, 0, 200)
    assert loops.had_before(99) == range(1)
    assert loops.had_before(16) == range(0)


def test_loops_say_nothing_of_what_lay_before_the_first_of_them() -> None:
    loops = Loops()
    loops.note(0, 5, 100)  # a mirror back that began at the end of the target queue, --start last
    assert translate(1, 0, OffsetMap(), loops) == 0
    assert translate(1, 5, OffsetMap(), loops) == 6
