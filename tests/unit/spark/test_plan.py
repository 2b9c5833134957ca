"""Offsets become batches and tasks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.model import MessageQueue
from firearrow.spark.options import EARLIEST, LATEST, PlanningOptions
from firearrow.spark.source import plan
from firearrow.spark.source.plan import Loss, Span

A, B, C = (MessageQueue("orders", "broker-a", number) for number in range(3))
FAR = MessageQueue("orders", "broker-b", 0)
queues = st.sampled_from([A, B, C, FAR])
offsets = st.dictionaries(queues, st.integers(0, 1000))


def test_offsets_go_through_json() -> None:
    found = plan.to_json({B: 5, A: 3, FAR: 0})
    assert found == {"orders": {"broker-a": {"0": 3, "1": 5}, "broker-b": {"0": 0}}}
    assert list(found["orders"]["broker-a"]) == ["0", "1"]
    assert plan.from_json(found) == {A: 3, B: 5, FAR: 0}
    assert plan.from_json(None) == {}
    assert plan.from_json({**found, "@stored": found}) == {A: 3, B: 5, FAR: 0}, "marks are no offsets"


def test_special_offsets_are_resolved_by_bounds() -> None:
    assert plan.resolved(EARLIEST, 10, 90, LATEST) == 10
    assert plan.resolved(LATEST, 10, 90, EARLIEST) == 90
    assert plan.resolved(None, 10, 90, EARLIEST) == 10
    assert plan.resolved(55, 10, 90, EARLIEST) == 55


def test_a_limit_is_shared_by_backlog() -> None:
    assert plan.limited_rows({A: 0, B: 100}, {A: 900, B: 200}, 100) == {A: 90, B: 110}
    assert plan.limited_rows({A: 0}, {A: 50}, 100) == {A: 50}


def test_new_queues_begin_at_their_first_message_and_missing_ones_stay() -> None:
    start = plan.complete({A: 7}, {B: 50_000})
    assert start == {A: 7, B: 50_000}
    assert plan.limited_rows(start, {B: 60_000}, 100) == {A: 7, B: 50_100}


def test_bytes_are_reckoned_by_sizes() -> None:
    assert plan.limited_bytes({A: 0}, {A: 1000}, 5000, {A: 100.0}) == {A: 50}
    assert plan.limited_bytes({A: 0}, {A: 1000}, 5, {A: 100.0}) == {A: 1}, "at least one row moves"


@given(offsets, offsets, st.integers(1, 500))
def test_a_limited_batch_moves_and_keeps_the_limit(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int], most: int
) -> None:
    start = plan.complete(start, {queue: end // 2 for queue, end in latest.items()})
    end = plan.limited_rows(start, latest, most)
    rows = sum(end[queue] - start[queue] for queue in end)
    behind = sum(plan.behind(start, latest).values())
    assert rows == min(most, behind)
    assert all(end[queue] >= start[queue] for queue in end)
    assert set(end) == set(start)


def test_what_is_gone_is_told_exactly_and_left_out() -> None:
    spans = [Span(A, 0, 100), Span(B, 50, 80), Span(C, 0, 10)]
    losses = plan.lost(spans, {A: 30, B: 0, C: 0}, {A: 90, B: 80, C: 10})
    assert [(loss.queue, loss.begin, loss.end) for loss in losses] == [(A, 0, 30), (A, 90, 100)]
    assert "30 messages of orders on broker-a, queue 0, offsets 0 to 29" in str(losses[0])
    assert "first message is 30" in losses[0].reason
    assert "ends at 90" in losses[1].reason
    assert plan.without(spans, losses) == [Span(A, 30, 90), Span(B, 50, 80), Span(C, 0, 10)]


def test_a_span_that_is_gone_altogether() -> None:
    (loss,) = plan.lost([Span(A, 0, 10)], {A: 50}, {A: 60})
    assert loss == Loss(A, 0, 10, loss.reason)
    assert plan.without([Span(A, 0, 10)], [loss]) == []


def test_clipping_by_places() -> None:
    spans = [Span(A, 0, 100), Span(B, 0, 100)]
    assert plan.clipped(spans, {A: 40, B: 200}, is_start=True) == [Span(A, 40, 100)]
    assert plan.clipped(spans, {A: 40}, is_start=False) == [Span(A, 0, 40), Span(B, 0, 100)]


def test_few_rows_of_many_queues_are_one_task() -> None:
    spans = [Span(MessageQueue("t", "b", number), 0, 1) for number in range(64)]
    assert plan.tasks(spans, PlanningOptions(1, 8)) == [tuple(spans)]


def test_many_rows_are_cut_evenly() -> None:
    found = plan.tasks([Span(A, 0, 100), Span(B, 0, 20)], PlanningOptions(1, 3, 10))
    assert found == [(Span(A, 0, 40),), (Span(A, 40, 80),), (Span(A, 80, 100), Span(B, 0, 20))]


def test_least_most_and_largest_tasks() -> None:
    assert len(plan.tasks([Span(A, 0, 100)], PlanningOptions(5, 8))) == 5
    assert len(plan.tasks([Span(A, 0, 100)], PlanningOptions(1, 2, 1))) == 2
    assert len(plan.tasks([Span(A, 0, 100)], PlanningOptions(1, 2, 1, 10))) == 10
    assert len(plan.tasks([Span(A, 0, 3)], PlanningOptions(5, 8))) == 3
    assert plan.tasks([Span(A, 5, 5)], PlanningOptions()) == []


@settings(max_examples=60)
@given(
    st.lists(st.tuples(queues, st.integers(0, 50), st.integers(0, 300)), max_size=6, unique_by=lambda each: each[0]),
    st.integers(1, 4), st.integers(0, 6), st.integers(1, 100), st.integers(1, 100),
)  # fmt: skip
def test_tasks_cover_everything_once(
    given_spans: list[tuple[MessageQueue, int, int]], least: int, more: int, per: int, most: int
) -> None:
    spans = [Span(queue, begin, begin + rows) for queue, begin, rows in given_spans]
    found = plan.tasks(spans, PlanningOptions(least, least + more, per, most))
    seen = [(span.queue, offset) for task in found for span in task for offset in range(span.begin, span.end)]
    assert seen == [(span.queue, offset) for span in spans for offset in range(span.begin, span.end)]
    sizes = [sum(span.rows for span in task) for task in found]
    assert all(size <= most for size in sizes)
    assert not sizes or max(sizes) - min(sizes) <= len(sizes)
