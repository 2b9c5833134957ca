"""Whether a queue is still the one that a checkpoint knew, from bounds and store times alone."""

from firearrow.client import Bounds, MessageQueue
from firearrow.spark.source import marks
from firearrow.spark.source.marks import Changed, Position

A, B = (MessageQueue("orders", "broker-a", number) for number in range(2))


def test_a_position_goes_through_json_with_and_without_marks() -> None:
    position = Position({A: 7, B: 0}, {A: 1000})
    assert marks.to_json(position) == {
        "orders": {"broker-a": {"0": 7, "1": 0}},
        "@stored": {"orders": {"broker-a": {"0": 1000}}},
    }
    assert marks.from_json(marks.to_json(position)) == position
    assert marks.from_json({"orders": {"broker-a": {"0": 7}}}) == Position({A: 7}), "a checkpoint of before"
    assert marks.to_json(Position({A: 7})) == {"orders": {"broker-a": {"0": 7}}}


def test_the_message_before_an_offset_is_looked_at_where_it_is_held() -> None:
    places = marks.marked_places({A: 100, B: 50}, {A: Bounds(0, 130), B: Bounds(0, 50)})
    assert places == {A: 99, B: 49}
    assert marks.marked_places({A: 100}, {A: Bounds(100, 130)}) == {}, "retention has deleted it"
    assert marks.marked_places({A: 100}, {A: Bounds(0, 99)}) == {}, "the queue ends before it"
    assert marks.marked_places({A: 100}, {}) == {}, "the broker is away"
    assert marks.marked_places({A: 0}, {A: Bounds(0, 5)}) == {}, "nothing was read yet"


def changed(position: Position, bounds: Bounds, now: dict[MessageQueue, int]) -> dict[MessageQueue, int | None]:
    return marks.changed_queues(position, {A: bounds}, now)


def test_a_queue_has_changed_when_it_ends_early_or_holds_another_message() -> None:
    marked, bare = Position({A: 100}, {A: 5000}), Position({A: 100})
    assert changed(marked, Bounds(0, 130), {A: 5000}) == {}
    assert changed(marked, Bounds(0, 130), {A: 9000}) == {A: 5000}
    assert changed(marked, Bounds(0, 60), {}) == {A: 5000}
    assert changed(bare, Bounds(0, 60), {}) == {A: None}
    assert changed(bare, Bounds(0, 130), {A: 9000}) == {}, "a checkpoint of before has no mark to compare"
    assert changed(marked, Bounds(120, 130), {}) == {}, "retention took the marked message: nothing can be told"
    assert changed(marked, Bounds(0, 130), {A: 4000}) == {A: None}, "the clock went back"


def test_reading_resumes_at_what_was_stored_after_the_mark() -> None:
    position, bounds = Position({A: 100}, {A: 5000}), {A: Bounds(0, 130)}
    assert marks.resumed({A: 5000}, position, bounds, {A: 0}) == [Changed(A, 100, bounds[A], 0)], "made anew"
    assert marks.resumed({A: 5000}, position, bounds, {A: 90})[0].resume == 90, "it lost its tail"
    assert marks.resumed({A: None}, position, {A: Bounds(10, 60)}, {})[0].resume == 10, "from all that is there"
    assert marks.resumed({A: 5000}, position, {A: Bounds(10, 60)}, {A: 500})[0].resume == 60


def test_what_is_said_of_a_changed_queue() -> None:
    text = str(Changed(A, 100, Bounds(0, 60), 0))
    assert "orders on broker-a, queue 0 has changed: the checkpoint continues at 100, but the queue ends at 60" in text
    assert "another message stands at 99" in str(Changed(A, 100, Bounds(0, 160), 0))
