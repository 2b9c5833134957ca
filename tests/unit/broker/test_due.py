"""Delayed messages whose store times go back: none is passed over and none comes twice."""

from firearrow.broker.delivery.schedule import DueDelivery, due_first


def due(*times_ms: int) -> list[DueDelivery]:
    return [DueDelivery(offset, time_ms, None) for offset, time_ms in enumerate(times_ms)]


def delivered(waiting: list[DueDelivery]) -> list[tuple[int, list[int]]]:
    """The times and offsets of deliveries, as a level makes them: it waits for the first, then takes what is due."""
    order = []
    now_ms = 0
    while waiting:
        now_ms = max(now_ms, waiting[0].due_ms)
        some = due_first(waiting, now_ms)
        order.append((now_ms, [one.offset for one in some]))
        waiting = waiting[len(some) :]
    return order


def test_what_is_due_behind_one_that_is_not_waits_for_it() -> None:
    assert delivered(due(100, 900, 100)) == [(100, [0]), (900, [1, 2])]


def test_what_has_waited_for_the_whole_delay_is_delivered_together() -> None:
    assert [one.offset for one in due_first(due(900, 910, 100, 920), 0, 3)] == [0, 1, 2]


def test_what_is_due_together_is_delivered_together() -> None:
    assert delivered(due(100, 100, 90, 200)) == [(100, [0, 1, 2]), (200, [3])]
