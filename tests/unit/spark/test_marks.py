"""Whether a queue is still the one that a checkpoint knew, from bounds and store times alone."""

from firearrow.client import Bounds, MessageQueue
from firearrow.client.consumer.hidden_queues import QueueExtent
from firearrow.spark.row_mark import Mark
from firearrow.spark.source import marks
from firearrow.spark.source.marks import Position, ReplacedQueue

A, B = (MessageQueue("orders", "broker-a", number) for number in range(2))


def test_a_position_goes_through_json_with_and_without_marks() -> None:
    position = Position({A: 7, B: 0}, {A: Mark(1000, 64)}, {("orders", "broker-a"): 900})
    assert marks.to_json(position) == {
        "orders": {"broker-a": {"0": 7, "1": 0}},
        "@stored": {"orders": {"broker-a": {"0": 1000}}},
        "@placed": {"orders": {"broker-a": {"0": 64}}},
        "@lives": {"orders": {"broker-a": 900}},
    }
    assert marks.from_json(marks.to_json(position)) == position
    stored = {"orders": {"broker-a": {"0": 7}}, "@stored": {"orders": {"broker-a": {"0": 1000}}}}
    assert marks.from_json(stored) == Position({A: 7}, {A: Mark(1000)}), "without places and lives"
    assert marks.from_json({"orders": {"broker-a": {"0": 7}}}) == Position({A: 7}), "a checkpoint of before"
    assert marks.to_json(Position({A: 7})) == {"orders": {"broker-a": {"0": 7}}}


def test_the_message_before_an_offset_is_looked_at_where_it_is_held() -> None:
    places = marks.marked_places({A: 100, B: 50}, {A: Bounds(0, 130), B: Bounds(0, 50)})
    assert places == {A: 99, B: 49}
    assert marks.marked_places({A: 100}, {A: Bounds(100, 130)}) == {}, "retention has deleted it"
    assert marks.marked_places({A: 100}, {A: Bounds(0, 99)}) == {}, "the queue ends before it"
    assert marks.marked_places({A: 100}, {}) == {}, "the broker is away"
    assert marks.marked_places({A: 0}, {A: Bounds(0, 5)}) == {}, "nothing was read yet"


def held(bounds: Bounds, stored_ms: int = 0, life: int = 0) -> dict[MessageQueue, QueueExtent]:
    return {A: QueueExtent(bounds, stored_ms, life)}


def changed(position: Position, bounds: Bounds, now: dict[MessageQueue, Mark]) -> dict[MessageQueue, int | None]:
    return marks.changed_queues(position, held(bounds), now)


def test_a_queue_has_changed_when_it_ends_early_or_holds_another_message() -> None:
    marked, bare = Position({A: 100}, {A: Mark(5000, 64)}), Position({A: 100})
    assert changed(marked, Bounds(0, 130), {A: Mark(5000, 64)}) == {}
    assert changed(marked, Bounds(0, 130), {A: Mark(5000)}) == {}, "the place is not known"
    assert changed(marked, Bounds(0, 130), {A: Mark(5000, 99)}) == {A: None}, "of the same millisecond, elsewhere"
    assert changed(marked, Bounds(0, 130), {A: Mark(9000, 640)}) == {A: 5000}
    assert changed(marked, Bounds(0, 60), {}) == {A: 5000}
    assert changed(bare, Bounds(0, 60), {}) == {A: None}
    assert changed(bare, Bounds(0, 130), {A: Mark(9000)}) == {}, "a checkpoint of before has no mark to compare"
    assert changed(marked, Bounds(120, 130), {}) == {}, "retention took the marked message: nothing can be told"
    assert changed(marked, Bounds(0, 130), {A: Mark(4000)}) == {A: None}, "the clock went back"


def test_a_queue_has_changed_when_its_topic_has_another_life() -> None:
    at = {("orders", "broker-a"): 7}
    position = Position({A: 100}, {A: Mark(5000)}, at)
    assert marks.changed_queues(position, held(Bounds(120, 130), life=8), {}) == {A: None}
    assert marks.changed_queues(position, held(Bounds(120, 130), life=7), {}) == {}
    assert marks.changed_queues(position, held(Bounds(120, 130), life=0), {}) == {}, "the broker does not tell"
    assert marks.changed_queues(Position({A: 100}), held(Bounds(120, 130), life=8), {}) == {}, "a checkpoint of before"
    assert marks.changed_queues(Position({A: 0}, {}, at), held(Bounds(0, 3), life=8), {}) == {A: None}, (
        "nothing read yet"
    )


def test_the_mark_of_a_queue_that_ends_at_its_offset_costs_no_request() -> None:
    assert marks.last_marks({A: 100, B: 5}, held(Bounds(0, 100), 9000)) == {A: Mark(9000)}
    assert marks.last_marks({A: 99}, held(Bounds(0, 100), 9000)) == {}
    assert marks.last_marks({A: 100}, held(Bounds(0, 100), -1)) == {}, "the broker cannot read that message"


def test_a_batch_has_rows_of_queues_that_advanced_or_are_other_ones() -> None:
    begin = Position({A: 5, B: 5}, {A: Mark(1, 2), B: Mark(1, 2)}, {("orders", "broker-a"): 7})
    assert marks.moved_queues(begin, begin) == set()
    assert marks.moved_queues(begin, Position({A: 6, B: 5}, begin.marks, begin.lives)) == {A}
    assert marks.moved_queues(begin, Position({A: 5, B: 5}, {A: Mark(1, 9), B: Mark(1, 2)}, begin.lives)) == {A}
    assert marks.moved_queues(begin, Position({A: 5, B: 5}, begin.marks, {("orders", "broker-a"): 8})) == {A, B}


def test_reading_resumes_at_what_was_stored_after_the_mark() -> None:
    position, there = Position({A: 100}, {A: Mark(5000)}), held(Bounds(0, 130))
    assert marks.resumed({A: 5000}, position, there, {A: 0}) == [ReplacedQueue(A, 100, Bounds(0, 130), 0)], "made anew"
    assert marks.resumed({A: 5000}, position, there, {A: 90})[0].resume == 90, "it lost its tail"
    assert marks.resumed({A: None}, position, held(Bounds(10, 60)), {})[0].resume == 10, "from all that is there"
    assert marks.resumed({A: 5000}, position, held(Bounds(10, 60)), {A: 500})[0].resume == 60


def test_what_is_said_of_a_changed_queue() -> None:
    text = str(ReplacedQueue(A, 100, Bounds(0, 60), 0))
    assert "orders on broker-a, queue 0 has changed: the checkpoint continues at 100, but the queue ends at 60" in text
    assert "another message stands at 99" in str(ReplacedQueue(A, 100, Bounds(0, 160), 0))
    said = str(ReplacedQueue(A, 100, Bounds(0, 160), 0, has_new_life=True))
    assert "but the topic was created again. It holds offsets 0 to 159 now, unread from 0 on" in said
