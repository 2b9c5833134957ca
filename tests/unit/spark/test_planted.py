"""Faults that a review found in the sources and committers, put back: the scenarios of this directory must see each."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from pyiceberg.exceptions import CommitFailedException

from firearrow.client import MessageQueue
from firearrow.client.consumer.hidden_queues import QueueExtent
from firearrow.errors import FireArrowError
from firearrow.spark import options
from firearrow.spark.lake import delta, fit, iceberg
from firearrow.spark.options import Bound
from firearrow.spark.pipelines import starting
from firearrow.spark.sink import rows as sink_rows
from firearrow.spark.source import marks, places, plan, reader, stream
from tests.unit.spark import test_decoding as decoding_tests
from tests.unit.spark import test_options as options_tests
from tests.unit.spark import test_places as places_tests
from tests.unit.spark import test_rows as rows_tests
from tests.unit.spark import test_stream as stream_tests
from tests.unit.spark.lake import test_committers as committers_tests
from tests.unit.spark.lake import test_fit as fit_tests
from tests.unit.spark.pipelines import test_starting as starting_tests

Plant = Callable[[pytest.MonkeyPatch], None]


def queues_never_change(patch: pytest.MonkeyPatch) -> None:
    """A6, C1: a queue that ends before its place has nothing new."""
    patch.setattr(marks, "changed_queues", lambda *_: {})


def only_ends_are_compared(patch: pytest.MonkeyPatch) -> None:
    """C1: a queue made anew that has grown past its place is taken for the old one."""

    def changed(position: marks.Position, held: Mapping[MessageQueue, QueueExtent], _now: object) -> dict[Any, Any]:
        return {q: None for q, at in position.offsets.items() if q in held and held[q].bounds.end < at}

    patch.setattr(marks, "changed_queues", changed)


def only_queues_that_moved_are_compared(patch: pytest.MonkeyPatch) -> None:
    """H2: a queue that ends at its offset is taken for the old one."""
    patch.setattr(marks, "last_marks", lambda *_: {})


def equal_offsets_have_no_rows(patch: pytest.MonkeyPatch) -> None:
    """H2: a batch that ends at the offset where it began has no rows, whatever stands there."""

    def moved(begin: marks.Position, end: marks.Position) -> set[MessageQueue]:
        return {queue for queue, offset in end.offsets.items() if offset != begin.offsets.get(queue)}

    patch.setattr(marks, "moved_queues", moved)


def lives_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """H2: a topic that was created again is the old one."""
    patch.setattr(marks, "has_new_life", lambda *_: False)


def commits_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    """H5: a writer that others come before tries eight times without a pause, and fails with their library's error."""
    patch.setattr(iceberg, "commit_attempts", lambda _called: range(8))


def seconds_are_milliseconds(patch: pytest.MonkeyPatch) -> None:
    """H6: a time in seconds is a day of January 1970."""
    patch.setattr(options, "SECONDS", range(0))


def any_tag_is_sent(patch: pytest.MonkeyPatch) -> None:
    """H6: the sink takes a tag that no subscription can name."""
    patch.setattr(sink_rows, "check_tags", lambda _batch: None)


def only_joined_tags_are_refused(patch: pytest.MonkeyPatch) -> None:
    """H6: the sink takes the tag ``*`` and tags with spaces around them."""
    patch.setattr(sink_rows, "EVERY_TAG", "no such tag")
    patch.setattr(sink_rows, "CUT_OFF", "\0")


def tags_of_properties_pass(patch: pytest.MonkeyPatch) -> None:
    """H6: the sink looks at the column ``tags`` alone."""
    tags = sink_rows._tags
    patch.setattr(
        sink_rows, "_tags", lambda batch: [(where, found) for where, found in tags(batch) if "TAGS" not in where]
    )


def a_fixed_end_needs_every_topic(patch: pytest.MonkeyPatch) -> None:
    """H3: Trigger.AvailableNow judges topics without the checkpoint, so a deleted one stops the query for good."""

    def prepare(self: stream.TopicsStreamReader) -> None:
        held = reader.chosen_queues(self._link(), self._options)
        self._target = {queue: each.bounds.end for queue, each in held.items()}

    patch.setattr(stream.TopicsStreamReader, "prepareForTriggerAvailableNow", prepare)


def only_named_states_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    """H4: a query counts as settled in the first state that Spark tells."""
    patch.setattr(starting, "UNSETTLED", ("Initializing sources",))


def queries_are_begun_once(patch: pytest.MonkeyPatch) -> None:
    """H4: a query whose worker did not connect in time has failed."""
    patch.setattr(starting, "ATTEMPTS", 1)


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
    patch.setattr(stream, "chosen_queues", lambda *_: world.held())
    patch.setattr(stream, "link_of", lambda *_: world)
    stream_tests.test_a_queue_made_anew_fails_or_is_read_from_its_first_message(world, ends_at)


def new_queue(patch: pytest.MonkeyPatch) -> None:
    world = stream_tests.World()
    patch.setattr(stream, "chosen_queues", lambda *_: world.held())
    patch.setattr(stream, "link_of", lambda *_: world)
    stream_tests.test_a_new_queue_that_does_not_begin_at_0_is_read_from_its_first_message_under_a_limit(world)


def filled_to_its_offset(patch: pytest.MonkeyPatch) -> None:
    world = stream_tests.World()
    patch.setattr(stream, "chosen_queues", lambda *_: world.held())
    patch.setattr(stream, "link_of", lambda *_: world)
    stream_tests.test_a_queue_made_anew_and_filled_to_its_offset_fails_or_is_read(world)


def another_life(patch: pytest.MonkeyPatch) -> None:
    world = stream_tests.World()
    patch.setattr(stream, "chosen_queues", lambda *_: world.held())
    patch.setattr(stream, "link_of", lambda *_: world)
    stream_tests.test_a_topic_with_another_life_fails_or_is_read_from_its_first_message(world)


def other_schema(directory: Path) -> None:
    import pyarrow as pa

    changed = pa.schema([("id", pa.string()), ("item", pa.string())])
    fit_tests.test_rows_of_another_schema_are_refused("delta", delta, changed, "column id", directory)


Scenario = Callable[[pytest.MonkeyPatch, Path], None]
PLANTED: list[tuple[Plant, Scenario]] = [
    (queues_never_change, lambda patch, _: anew(patch, 60)),
    (only_ends_are_compared, lambda patch, _: anew(patch, 130)),
    (only_queues_that_moved_are_compared, lambda patch, _: filled_to_its_offset(patch)),
    (equal_offsets_have_no_rows, lambda patch, _: filled_to_its_offset(patch)),
    (lives_are_not_compared, lambda patch, _: another_life(patch)),
    (new_queues_begin_at_zero, lambda patch, _: new_queue(patch)),
    (gaps_are_not_looked_for, lambda *_: decoding_tests.test_gaps_inside_an_answer_are_told_exactly((4,), [(1, 4, 5)])),
    (
        names_that_match_nothing_pass,
        lambda *_: places_tests.test_names_that_match_nothing_are_refused(
            '{"orders": {"broker-a": {"9": 5}}}', "queue 9"
        ),
    ),
    (
        commits_do_not_wait,
        lambda patch, directory: committers_tests.test_a_commit_goes_on_while_other_writers_come_first(
            "iceberg", iceberg, CommitFailedException, directory, patch
        ),
    ),
    (
        seconds_are_milliseconds,
        lambda *_: options_tests.test_seconds_are_not_taken_for_milliseconds("startingTimestamp"),
    ),
    (any_tag_is_sent, lambda *_: rows_tests.test_a_tag_that_no_subscription_can_name_is_refused()),
    (only_joined_tags_are_refused, lambda *_: rows_tests.test_a_tag_that_no_subscription_can_name_is_refused()),
    (
        tags_of_properties_pass,
        lambda *_: rows_tests.test_a_tag_in_the_properties_is_checked_unless_the_column_has_one(),
    ),
    (
        a_fixed_end_needs_every_topic,
        lambda patch, _: stream_tests.test_a_deleted_topic_does_not_stop_a_run_with_a_fixed_end(patch),
    ),
    (
        only_named_states_are_waited_for,
        lambda patch, _: starting_tests.test_a_query_has_its_worker_before_the_next_one_begins(patch),
    ),
    (
        queries_are_begun_once,
        lambda patch, _: starting_tests.test_a_query_whose_worker_did_not_connect_is_begun_again(patch),
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
