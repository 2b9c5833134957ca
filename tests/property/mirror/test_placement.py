"""Every source queue has a target queue of its own, and keeps it."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.mirror.placement import place, queue_counts
from firearrow.model import MessageQueue

names = st.sampled_from(["broker-a", "broker-b", "broker-c", "broker-d"])
queues = st.builds(MessageQueue, st.just("T"), names, st.integers(0, 7))


@given(st.sets(queues, max_size=20), st.sets(queues, max_size=20), st.sets(names, min_size=1).map(sorted))
def test_places_are_distinct_and_stay(first: set[MessageQueue], more: set[MessageQueue], brokers: list[str]) -> None:
    before = place(first, brokers, {})
    after = place(first | more, brokers, before)
    assert set(after) == first | more
    assert len(set(after.values())) == len(after)
    assert {queue: after[queue] for queue in first} == before
    for queue in after.values():
        assert queue.broker_name in brokers
        assert queue.queue_id < queue_counts(after.values())[queue.broker_name]


@given(st.sets(queues, min_size=1, max_size=20))
def test_a_cluster_like_the_source_has_queue_i_at_queue_i(sources: set[MessageQueue]) -> None:
    brokers = sorted({queue.broker_name for queue in sources})
    assert place(sources, brokers, {}) == {queue: queue for queue in sources}
    renamed = {name: f"other-{number}" for number, name in enumerate(brokers)}
    placed = place(sources, sorted(renamed.values()), {})
    assert {(queue.broker_name, queue.queue_id) for queue in placed.values()} == {
        (placed[queue].broker_name, queue.queue_id) for queue in sources
    }
