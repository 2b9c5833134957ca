"""A group that goes on at a translated offset misses nothing, whatever else is written to the target queue."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from firearrow.mirror.offset_map import OffsetMap


class Step(NamedTuple):
    """What happens next: a batch is copied, others write, or messages are left out."""

    kind: str
    size: int


steps = st.lists(
    st.builds(Step, st.sampled_from(["copy", "others", "skip"]), st.integers(1, 5)), min_size=1, max_size=60
)


@given(steps, st.integers(2, 12))
def test_everything_from_an_offset_on_lies_at_or_behind_its_translation(story: list[Step], most: int) -> None:
    places: dict[int, int] = {}
    source = target = 0
    offsets = OffsetMap(most=most)
    for step in story:
        if step.kind == "copy":
            for number in range(step.size):
                places[source + number] = target + number
            offsets.note(source, target, step.size)
            source += step.size
            target += step.size
        elif step.kind == "others":
            target += step.size
        else:
            source += step.size
    for offset in range(source + 2):
        found = offsets.translate(offset)
        later = [place for copied, place in places.items() if copied >= offset]
        if not places:
            assert found is None
        elif later:
            assert found is not None
            assert found <= min(later)
        else:
            assert found == max(places.values()) + 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), st.integers(0, 3), st.integers(0, 3))
def test_a_queue_that_only_the_mirror_writes_to_is_one_run(batches: list[int], source: int, target: int) -> None:
    offsets, first = OffsetMap(most=4), (source, target)
    for count in batches:
        assert offsets.note(source, target, count) == 0
        source += count
        target += count
    assert len(offsets.runs) == 1
    for offset in range(first[0], source + 1):
        assert offsets.translate(offset) == first[1] + offset - first[0]


@given(st.integers(1, 30), st.integers(0, 29), st.integers(1, 5))
def test_a_target_that_lost_its_end_is_noted_anew(copied: int, kept: int, count: int) -> None:
    kept = min(kept, copied)
    offsets = OffsetMap()
    offsets.note(0, 0, copied)
    assert offsets.note(copied, kept, count) == copied - kept
    assert offsets.translate(copied) == kept
    assert offsets.translate(copied + count) == kept + count
