"""The division of queues among members."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.client.consumer.division.strategies import (
    BY_NAME,
    Strategy,
    assigned,
    average,
    circle,
    configured,
    consistent_hash,
    machine_room,
    machine_room_nearby,
    strategy_named,
)
from firearrow.errors import SettingsError
from firearrow.model import MessageQueue


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


def numbers(strategy: Strategy, me: str, count: int, members: str) -> list[int]:
    return [queue.queue_id for queue in assigned(strategy, me, reversed(queues(count)), members)]


def test_average_gives_blocks_and_the_first_have_one_more() -> None:
    assert [numbers(average, me, 8, "abc") for me in "abc"] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [numbers(average, me, 2, "abc") for me in "abc"] == [[0], [1], []]


def test_circle_deals_like_cards() -> None:
    assert [numbers(circle, me, 8, "abc") for me in "abc"] == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_configured_is_what_it_is() -> None:
    assert numbers(configured(queues(3)), "b", 8, "ab") == [0, 1, 2]


def test_machine_room_reads_its_rooms_alone() -> None:
    all_queues = queues(5, "room1@b") + queues(2, "room2@b") + queues(2, "plain")
    shares = [assigned(machine_room({"room1"}), me, all_queues, "ab") for me in "ab"]
    assert [[queue.queue_id for queue in share] for share in shares] == [[0, 1, 4], [2, 3]]


def test_nearby_reads_its_own_room_and_shares_those_where_nobody_is() -> None:
    all_queues = queues(4, "r1") + queues(2, "r2") + queues(2, "r3")
    strategy = machine_room_nearby(average, lambda queue: queue.broker_name, lambda member: member.partition("-")[0])
    shares = {me: assigned(strategy, me, all_queues, ["r1-a", "r1-b", "r2-c"]) for me in ("r1-a", "r1-b", "r2-c")}
    assert shares["r1-a"] == [*queues(2, "r1"), MessageQueue("T", "r3", 0)]
    assert shares["r1-b"] == [*queues(4, "r1")[2:], MessageQueue("T", "r3", 1)]
    assert shares["r2-c"] == queues(2, "r2")


def test_a_member_that_is_not_listed_gets_nothing() -> None:
    assert assigned(average, "z", queues(4), "ab") == []
    assert assigned(average, "a", [], "ab") == []


@settings(deadline=None)
@given(
    st.sampled_from([*BY_NAME.values(), consistent_hash(3)]),
    st.integers(0, 40),
    st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=9, unique=True),
)
def test_every_queue_has_exactly_one_reader(strategy: Strategy, count: int, members: list[str]) -> None:
    shares = [assigned(strategy, me, queues(count), members) for me in members]
    assert sorted(queue for share in shares for queue in share) == queues(count)


def test_few_queues_move_when_a_member_leaves_a_consistent_hash() -> None:
    strategy = strategy_named("CONSISTENT_HASH")
    before = {me: set(assigned(strategy, me, queues(64), "abcd")) for me in "abcd"}
    after = {me: set(assigned(strategy, me, queues(64), "abc")) for me in "abc"}
    assert all(before[me] <= after[me] for me in "abc")


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="AVG"):
        strategy_named("RANDOM")


def exits(_me: str, _queues: object, _members: object) -> list[MessageQueue]:
    raise SystemExit(3)


@pytest.mark.parametrize(
    "strategy",
    [
        lambda *_: "",
        lambda *_: None,
        lambda *_: [MessageQueue("another", "broker-a", 0)],
        lambda *_: [[]],
        exits,
    ],
)
def test_a_strategy_that_does_not_give_queues_is_named(strategy: Strategy) -> None:
    with pytest.raises(SettingsError, match="strategy"):
        assigned(strategy, "me", queues(2), ["me"])
