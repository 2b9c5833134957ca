"""Options about queues are held against the queues that exist."""

import pytest

from firearrow.client import Bounds, MessageQueue
from firearrow.errors import SettingsError
from firearrow.spark.options import EARLIEST, LATEST, Bound, source_options
from firearrow.spark.source import places

LEAST = {"nameServer": "127.0.0.1:9876", "subscribe": "orders,bills"}
A0, A1 = (MessageQueue("orders", "broker-a", number) for number in range(2))
B0 = MessageQueue("orders", "broker-b", 0)
BILLS = MessageQueue("bills", "broker-a", 0)
ALL = [A0, A1, B0, BILLS]


def starting(table: str) -> Bound:
    return source_options({**LEAST, "startingOffsets": table}, is_stream=True).starting


def test_numbers_by_topic_broker_and_queue() -> None:
    table = '{"orders": {"broker-a": {"0": 5, "1": -1}, "broker-b": 9}, "bills": -2}'
    assert places.asked(starting(table), ALL) == {A0: 5, A1: LATEST, B0: 9, BILLS: EARLIEST}
    assert places.asked(starting('{"orders": {"broker-a": {"1": 4}}}'), ALL) == {A1: 4}
    assert places.asked(Bound("offset", EARLIEST), [A0]) == {A0: EARLIEST}


def test_kafkas_form_is_understood_where_a_topic_is_on_one_broker() -> None:
    assert places.asked(starting('{"orders": {"0": 100, "1": 7}}'), [A0, A1]) == {A0: 100, A1: 7}
    with pytest.raises(SettingsError, match=r"without their brokers.*broker-a, broker-b.*write .*\"broker-a\""):
        places.asked(starting('{"orders": {"0": 100}}'), ALL)


def test_offsets_of_a_progress_report_are_taken_with_their_marks() -> None:
    table = '{"orders": {"broker-a": {"0": 5}}, "@stored": {"orders": {"broker-a": {"0": 1790000000000}}}}'
    assert places.asked(starting(table), ALL) == {A0: 5}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('{"order": 5}', "topic 'order', which is not read; topics are bills, orders"),
        ('{"orders": {"broker-c": 5}}', "broker 'broker-c' for topic orders, which is on broker-a, broker-b"),
        ('{"orders": {"broker-a": {"9": 5}}}', "queue 9 of orders on broker-a, .* it has 0, 1"),
        ('{"orders": {"broker-a": {"first": 5}}}', "queue first"),
        ('{"orders": {"broker-a": {"0": {"0": 5}}}}', "queue 0"),
        ('{"bills": {"3": 5}}', "queue 3 of bills on broker-a"),
    ],
)
def test_names_that_match_nothing_are_refused(table: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        places.asked(starting(table), ALL)


def test_assigned_queues() -> None:
    assigned = {"orders": {"broker-a": [0]}, "bills": [0]}
    assert [places.is_assigned(assigned, queue) for queue in ALL] == [True, False, False, True]
    places.require_assigned(assigned, [A0, BILLS])
    places.require_assigned({"orders": [0, 1]}, [A0, A1, B0])


@pytest.mark.parametrize(
    ("assigned", "says"),
    [
        ({"orders": [0, 9]}, "assign names queue 9 of orders on broker-a and broker-b, .* it has 0, 1"),
        ({"orders": {"broker-b": [0, 1]}}, "queue 1 of orders on broker-b"),
        ({"orders": {"broker-c": [0]}}, "queue 0 of orders on broker-c"),
        ({"others": [0]}, "queue 0 of others on any broker"),
    ],
)
def test_assigned_queues_that_are_not_there_are_refused(assigned: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        places.require_assigned(assigned, [A0, A1, B0])


def test_beginnings_outside_of_a_queue_are_losses_with_their_offsets() -> None:
    bounds = {A0: Bounds(10, 250), A1: Bounds(10, 250), B0: Bounds(10, 250)}
    losses = places.outside({A0: 2000, A1: 3, B0: 250}, bounds)
    assert [(loss.queue, loss.begin, loss.end) for loss in losses] == [(A0, 250, 2000), (A1, 3, 10)]
    assert places.inside({A0: 2000, A1: 3, B0: 250}, bounds) == {A0: 250, A1: 10, B0: 250}
    (beyond,) = places.outside({A0: 20}, bounds, {A0: 300})
    assert (beyond.begin, beyond.end) == (250, 300)


def test_an_end_before_the_beginning_is_refused() -> None:
    early, late = Bound("offset", None, {"orders": 5}, "x"), Bound("offset", None, {"orders": 50}, "x")
    places.require_order(early, late, ALL)
    places.require_order(late, Bound("offset", None, {"orders": 0}, "x"), ALL)
    with pytest.raises(SettingsError, match="would end at 5, before it begins at 50"):
        places.require_order(late, early, ALL)
    with pytest.raises(SettingsError, match="exchange"):
        places.require_order(Bound("time", 2000), Bound("time", 1000), ALL)
    places.require_order(Bound("offset", EARLIEST), Bound("offset", LATEST), ALL)
