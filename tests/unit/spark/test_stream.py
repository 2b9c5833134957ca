"""Where micro-batches begin and end, with a cluster that is only a table of bounds."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from firearrow.client import Bounds, MessageQueue
from firearrow.errors import RequestTimedOut
from firearrow.runtime.clock import SystemClock
from firearrow.spark.link import Link
from firearrow.spark.options import source_options
from firearrow.spark.source import plan, stream
from firearrow.spark.source.plan import Span
from firearrow.spark.source.reader import DataLost, SpanPartition
from firearrow.spark.source.stream import TopicsStreamReader

A, B = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)


class World:
    """Bounds of queues, and the store time of the message at each offset: ``born`` and the offset."""

    def __init__(self) -> None:
        self.bounds_now: dict[MessageQueue, Bounds] = {}
        self.born: dict[MessageQueue, int] = {}
        self.looks = 0
        self.is_away = False

    def bounds(self, _topics: object) -> dict[MessageQueue, Bounds]:
        return dict(self.bounds_now)

    def stored_at(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        self.looks += len(places)
        if self.is_away and places:
            raise RequestTimedOut("nobody answers")
        return {queue: self.born.get(queue, 0) + place for queue, place in places.items()}

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {queue: max(0, time_ms - self.born.get(queue, 0)) for queue, time_ms in times.items()}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(stream, "chosen_bounds", lambda *_: dict(made.bounds_now))
    monkeypatch.setattr(stream, "link_of", lambda *_: cast("Link", made))
    return made


def reader(**more: str) -> TopicsStreamReader:
    told = {"nameServer": "x:1", "subscribe": "t", "startingOffsets": "earliest", **more}
    return TopicsStreamReader(source_options(told, is_stream=True), ("body",))


def spans(made: TopicsStreamReader, start: Any, end: Any) -> list[Span]:
    return [span for part in made.partitions(start, end) if isinstance(part, SpanPartition) for span in part.spans]


def test_a_new_queue_that_does_not_begin_at_0_is_read_from_its_first_message_under_a_limit(world: World) -> None:
    world.bounds_now[A] = Bounds(0, 1000)
    made = reader(maxOffsetsPerTrigger="1000")
    start = plan.to_json({A: 0})
    end = made.latestOffset(start, None)
    world.bounds_now[B] = Bounds(50_000, 60_000)  # a broker comes whose retention has deleted the first 50,000
    seen: list[Span] = []
    while (later := made.latestOffset(end, None)) != end:
        seen += spans(made, end, later)
        end = later
    assert sum(span.rows for span in seen) == 10_000
    assert (seen[0].begin, seen[-1].end) == (50_000, 60_000)


def test_a_queue_that_is_new_since_a_fixed_end_is_left_for_the_next_run(world: World) -> None:
    world.bounds_now[A] = Bounds(0, 10)
    made = reader()
    made.prepareForTriggerAvailableNow()
    world.bounds_now[B] = Bounds(500, 600)
    end = made.latestOffset(plan.to_json({A: 0}), None)
    assert plan.from_json(end) == {A: 10}
    later = reader()
    assert spans(later, end, later.latestOffset(end, None)) == [Span(B, 500, 600)]


@pytest.mark.parametrize("ends_at", [60, 130])
def test_a_queue_made_anew_fails_or_is_read_from_its_first_message(world: World, ends_at: int) -> None:
    world.bounds_now[A] = Bounds(0, 100)
    end = reader().latestOffset(plan.to_json({A: 0}), None)
    world.bounds_now[A], world.born[A] = Bounds(0, ends_at), 1_000_000
    with pytest.raises(DataLost, match="has changed"):
        reader().latestOffset(end, None)
    lenient = reader(failOnDataLoss="false")
    later = lenient.latestOffset(end, None)
    assert spans(lenient, end, later) == [Span(A, 0, ends_at)]
    assert spans(reader(failOnDataLoss="false"), end, later) == [Span(A, 0, ends_at)], "also in another process"
    assert lenient.latestOffset(later, None) == later


def test_a_queue_that_lost_its_tail_goes_on_there(world: World) -> None:
    world.bounds_now[A] = Bounds(0, 100)
    end = reader().latestOffset(plan.to_json({A: 0}), None)
    world.bounds_now[A] = Bounds(0, 90)
    with pytest.raises(DataLost, match="the queue ends at 90"):
        reader().latestOffset(end, None)
    lenient = reader(failOnDataLoss="false")
    later = lenient.latestOffset(end, None)
    assert spans(lenient, end, later) == []
    world.bounds_now[A] = Bounds(0, 95)
    assert spans(lenient, later, lenient.latestOffset(later, None)) == [Span(A, 90, 95)]


def test_idle_polls_look_at_no_message(world: World) -> None:
    world.bounds_now[A] = Bounds(0, 100)
    made = reader()
    end = made.latestOffset(plan.to_json({A: 0}), None)
    before = world.looks
    for _ in range(5):
        assert made.latestOffset(end, None) == end
    assert world.looks == before


def test_a_broker_that_goes_away_between_two_questions_leaves_nothing_new(world: World) -> None:
    world.bounds_now[A] = Bounds(0, 100)
    made = reader()
    end = made.latestOffset(plan.to_json({A: 0}), None)
    world.bounds_now[A], world.is_away = Bounds(0, 150), True
    assert made.latestOffset(end, None) == end
    world.is_away = False
    assert plan.from_json(made.latestOffset(end, None)) == {A: 150}


def test_a_stream_stops_at_given_offsets(world: World) -> None:
    world.bounds_now = {A: Bounds(0, 10), B: Bounds(0, 20)}
    made = reader(endingOffsets='{"t": {"broker-a": {"0": 4}, "broker-b": {"0": 30}}}')
    end = made.latestOffset(made.initialOffset())
    assert plan.from_json(end) == {A: 4, B: 20}
    world.bounds_now = {A: Bounds(0, 11), B: Bounds(0, 40)}
    end = made.latestOffset(end)
    assert plan.from_json(end) == {A: 4, B: 30}
    assert made.latestOffset(end) == end


def test_a_query_whose_brokers_stay_away_fails_in_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = [1_000_000]
    monkeypatch.setattr(SystemClock, "now_ms", lambda _self: now_ms[0])
    world.bounds_now = {A: Bounds(0, 5)}
    made = reader()
    begin = made.latestOffset(made.initialOffset())

    def there(*_: object) -> dict[MessageQueue, Bounds]:
        return dict(world.bounds_now)

    def away(*_: object) -> dict[MessageQueue, Bounds]:
        raise RequestTimedOut("nobody answers")

    for _ in range(2):  # an answer in between begins the time anew
        monkeypatch.setattr(stream, "chosen_bounds", away)
        now_ms[0] += 1
        assert made.latestOffset(begin) == begin
        now_ms[0] += stream.UNREACHABLE_MS - 1
        assert made.latestOffset(begin) == begin
        monkeypatch.setattr(stream, "chosen_bounds", there)
        made.latestOffset(begin)
    monkeypatch.setattr(stream, "chosen_bounds", away)
    assert made.latestOffset(begin) == begin
    now_ms[0] += stream.UNREACHABLE_MS
    with pytest.raises(RequestTimedOut):
        made.latestOffset(begin)
