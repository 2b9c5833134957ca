"""Faults that a review found in the sources and committers, put back: the scenarios of this directory must see each."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from firearrow.client import Bounds, MessageQueue
from firearrow.errors import FireArrowError
from firearrow.spark.lake import delta, fit
from firearrow.spark.options import Bound
from firearrow.spark.source import marks, places, plan, stream
from tests.unit.spark import test_decoding as decoding_tests
from tests.unit.spark import test_places as places_tests
from tests.unit.spark import test_stream as stream_tests
from tests.unit.spark.lake import test_fit as fit_tests

Plant = Callable[[pytest.MonkeyPatch], None]


def queues_never_change(patch: pytest.MonkeyPatch) -> None:
    """A6, C1: a queue that ends before its place has nothing new."""
    patch.setattr(marks, "changed_queues", lambda *_: {})


def only_ends_are_compared(patch: pytest.MonkeyPatch) -> None:
    """C1: a queue made anew that has grown past its place is taken for the old one."""

    def changed(position: marks.Position, bounds: Mapping[MessageQueue, Bounds], _now: object) -> dict[Any, Any]:
        return {q: position.stored.get(q) for q, at in position.offsets.items() if q in bounds and bounds[q].end < at}

    patch.setattr(marks, "changed_queues", changed)


def new_queues_begin_at_zero(patch: pytest.MonkeyPatch) -> None:
    """A10: a queue that a limited batch does not know begins at 0."""
    patch.setattr(plan, "complete", lambda start, firsts: {q: start.get(q, 0) for q in sorted({*start, *firsts})})


def gaps_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    """A11: what an answer covers and does not hold is not missed."""
    patch.setattr(decoding_tests, "gaps", lambda *_: [])


def names_that_match_nothing_pass(patch: pytest.MonkeyPatch) -> None:
    """C3: offsets of a queue that is not there are not looked at."""
    of_topic = places._of_topic
    known = [queue.queue_id for queue in places_tests.ALL]

    def lenient(topic: str, said: Any, queues: list[MessageQueue], option: str) -> Any:
        if isinstance(said, dict):
            said = {
                broker: {n: at for n, at in inner.items() if n.isdecimal() and int(n) in known}
                if isinstance(inner, dict)
                else inner
                for broker, inner in said.items()
            }
        return of_topic(topic, said, queues, option)

    patch.setattr(places, "_of_topic", lenient)


def schemas_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """C2: files of any columns are added to a table."""
    patch.setattr(fit, "require", lambda *_: None)


def partitions_are_left_empty(patch: pytest.MonkeyPatch) -> None:
    """C2: files are added to a partitioned table without the values of their partitions."""
    patch.setattr(delta, "delta_values", lambda rules, _key: {rule.column: None for rule in rules})


def anew(patch: pytest.MonkeyPatch, ends_at: int) -> None:
    world = stream_tests.World()
    patch.setattr(stream, "chosen_bounds", lambda *_: dict(world.bounds_now))
    patch.setattr(stream, "link_of", lambda *_: world)
    stream_tests.test_a_queue_made_anew_fails_or_is_read_from_its_first_message(world, ends_at)


def new_queue(patch: pytest.MonkeyPatch) -> None:
    world = stream_tests.World()
    patch.setattr(stream, "chosen_bounds", lambda *_: dict(world.bounds_now))
    patch.setattr(stream, "link_of", lambda *_: world)
    stream_tests.test_a_new_queue_that_does_not_begin_at_0_is_read_from_its_first_message_under_a_limit(world)


def other_schema(directory: Path) -> None:
    import pyarrow as pa

    changed = pa.schema([("id", pa.string()), ("item", pa.string())])
    fit_tests.test_rows_of_another_schema_are_refused("delta", delta, changed, "column id", directory)


Scenario = Callable[[pytest.MonkeyPatch, Path], None]
PLANTED: list[tuple[Plant, Scenario]] = [
    (queues_never_change, lambda patch, _: anew(patch, 60)),
    (only_ends_are_compared, lambda patch, _: anew(patch, 130)),
    (new_queues_begin_at_zero, lambda patch, _: new_queue(patch)),
    (gaps_are_not_looked_for, lambda *_: decoding_tests.test_gaps_inside_an_answer_are_told_exactly((4,), [(1, 4, 5)])),
    (
        names_that_match_nothing_pass,
        lambda *_: places_tests.test_names_that_match_nothing_are_refused(
            '{"orders": {"broker-a": {"9": 5}}}', "queue 9"
        ),
    ),
    (schemas_are_not_compared, lambda _, directory: other_schema(directory)),
    (
        partitions_are_left_empty,
        lambda _, directory: fit_tests.test_a_delta_table_by_topic_keeps_its_partitions(directory),
    ),
]


@pytest.mark.parametrize(("plant", "scenario"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_fault_is_seen(
    plant: Plant, scenario: Scenario, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as clean:
        scenario(clean, tmp_path / "clean")
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, FireArrowError)):
        scenario(monkeypatch, tmp_path / "planted")


def test_a_bound_without_numbers_needs_no_names() -> None:
    assert places.asked(Bound("offset", None, {}, "startingOffsets"), places_tests.ALL) == {}
