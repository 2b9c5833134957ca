"""The bounds of micro-batches, with a cluster that is only a table of bounds."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from firearrow.client import Bounds, MessageQueue
from firearrow.client.consumer.hidden_queues import QueueExtent
from firearrow.errors import NoRoute, RequestTimedOut
from firearrow.runtime.clock import SystemClock
from firearrow.spark.link import Link
from firearrow.spark.options import source_options
from firearrow.spark.row_mark import Mark
from firearrow.spark.source import marks, plan, stream
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
        self.tells = False
        self.life = 0

    def held(self, _topics: object = (), _known: object = ()) -> dict[MessageQueue, QueueExtent]:
        """Brokers that tell no lives and not when the last message was stored, unless they do."""
        return {
            queue: QueueExtent(bounds, self.born[queue] + bounds.end - 1 if self.tells and bounds.end else 0, self.life)
            for queue, bounds in self.bounds_now.items()
        }

    def topics(self, _chosen: object) -> tuple[str, ...]:
        return ("t",)

    def held_of_routed(self, _topics: object) -> dict[MessageQueue, QueueExtent]:
        return self.held()

    def deleted(self, _places: object) -> set[tuple[str, str]]:
        return set()

    def marks_at(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        self.looks += len(places)
        if self.is_away and places:
            raise RequestTimedOut("nobody answers")
        return {queue: Mark(self.born.get(queue, 0) + place, 1000 + place) for queue, place in places.items()}

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {queue: max(0, time_ms - self.born.get(queue, 0)) for queue, time_ms in times.items()}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(stream, "chosen_queues", lambda *_: made.held())
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


@pytest.mark.parametrize("tells", [False, True])
def test_idle_polls_look_at_no_message(world: World, tells: bool) -> None:
    world.bounds_now[A], world.born[A], world.tells = Bounds(0, 100), 5000, tells
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

    def there(*_: object) -> dict[MessageQueue, QueueExtent]:
        return world.held()

    def away(*_: object) -> dict[MessageQueue, QueueExtent]:
        raise RequestTimedOut("nobody answers")

    for _ in range(2):  # an answer in between begins the time anew
        monkeypatch.setattr(stream, "chosen_queues", away)
        now_ms[0] += 1
        assert made.latestOffset(begin) == begin
        now_ms[0] += stream.UNREACHABLE_MS - 1
        assert made.latestOffset(begin) == begin
        monkeypatch.setattr(stream, "chosen_queues", there)
        made.latestOffset(begin)
    monkeypatch.setattr(stream, "chosen_queues", away)
    assert made.latestOffset(begin) == begin
    now_ms[0] += stream.UNREACHABLE_MS
    with pytest.raises(RequestTimedOut):
        made.latestOffset(begin)


def test_a_queue_made_anew_and_filled_to_its_offset_fails_or_is_read(world: World) -> None:
    """The last message stands at the same offset: only its time tells that it is another one."""
    world.bounds_now[A], world.born[A], world.tells = Bounds(0, 100), 5000, True
    end = reader().latestOffset(plan.to_json({A: 0}), None)
    world.born[A] = 1_000_000
    with pytest.raises(DataLost, match="another message stands at 99"):
        reader().latestOffset(end, None)
    lenient = reader(failOnDataLoss="false", minOffsetsPerTrigger="1000")
    later = lenient.latestOffset(end, None)
    assert spans(lenient, end, later) == [Span(A, 0, 100)]
    assert spans(reader(failOnDataLoss="false"), end, later) == [Span(A, 0, 100)], "also in another process"
    assert lenient.latestOffset(later, None) == later


def test_a_topic_with_another_life_fails_or_is_read_from_its_first_message(world: World) -> None:
    """Retention has deleted the marked message, so that nothing else tells."""
    world.bounds_now[A], world.life = Bounds(0, 100), 7
    end = reader().latestOffset(plan.to_json({A: 0}), None)
    world.bounds_now[A], world.life = Bounds(100, 130), 8
    with pytest.raises(DataLost, match="the topic was created again"):
        reader().latestOffset(end, None)
    lenient = reader(failOnDataLoss="false")
    later = lenient.latestOffset(end, None)
    assert spans(lenient, end, later) == [Span(A, 100, 130)]
    assert marks.from_json(later).lives == {("t", "broker-a"): 8}


def test_a_topic_made_anew_after_a_batch_was_planned_is_not_read_for_the_old_one(world: World) -> None:
    world.bounds_now[A], world.life = Bounds(0, 100), 7
    made = reader()
    start = plan.to_json({A: 0})
    end = made.latestOffset(start, None)
    world.life = 8
    with pytest.raises(DataLost, match="the topic was created again"):
        made.partitions(start, end)


class WithoutTopic(World):
    """Topic u is there; topic t was read and is deleted since."""

    def topics(self, _chosen: object) -> tuple[str, ...]:
        return ("t", "u")

    def held(self, topics: Any = (), known: Any = ()) -> dict[MessageQueue, QueueExtent]:
        lacking = set(topics) - {queue.topic for queue in [*self.bounds_now, *known]}
        if lacking:
            raise NoRoute(f"no name server knows {lacking}")
        return super().held()

    def deleted(self, places: Any) -> set[tuple[str, str]]:
        return {place for place in places if place[0] == "t"}

    def news(self, losses: Any) -> Any:
        return losses


def test_a_deleted_topic_does_not_stop_a_run_with_a_fixed_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world, there = WithoutTopic(), MessageQueue("u", "broker-a", 0)
    monkeypatch.setattr(stream, "link_of", lambda *_: cast("Link", world))
    world.bounds_now, world.born = {there: Bounds(0, 110)}, {there: 0}
    checkpoint = {"t": {"broker-a": {"0": 100}}, "u": {"broker-a": {"0": 100}}}
    strict = reader(subscribe="t,u")
    strict.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match="topic t is deleted"):
        strict.latestOffset(checkpoint, None)
    lenient = reader(subscribe="t,u", failOnDataLoss="false")
    lenient.prepareForTriggerAvailableNow()
    world.bounds_now = {there: Bounds(0, 120)}
    end = marks.from_json(lenient.latestOffset(checkpoint, None))
    assert end.offsets[there] == 110, "the end of the run stays"
    (task,) = lenient.partitions(checkpoint, marks.to_json(end))
    assert isinstance(task, SpanPartition)
    assert task.spans == (Span(there, 100, 110),)
