"""Choosing a queue."""

from collections import Counter

from firearrow.client.producer.selector import Faults, RoundRobin, avoid_for_ms, queue_of_key
from firearrow.model import MessageQueue

QUEUES = [MessageQueue("T", broker, number) for broker in "ab" for number in range(4)]


def test_round_robin_visits_every_queue_equally() -> None:
    rounds = RoundRobin(3)
    chosen = Counter(rounds.choose(QUEUES) for _ in range(80))
    assert set(chosen.values()) == {10}


def test_after_a_failure_another_broker_is_chosen() -> None:
    rounds = RoundRobin(0)
    assert all(rounds.choose(QUEUES, {"a"}).broker_name == "b" for _ in range(20))


def test_the_only_broker_is_chosen_again_although_it_failed() -> None:
    assert RoundRobin(0).choose(QUEUES[:4], {"a"}).broker_name == "a"


def test_slow_brokers_are_avoided_for_a_while() -> None:
    faults, rounds = Faults(), RoundRobin(0)
    faults.note("a", 600, now=10.0)
    assert not faults.is_available("a", 11.9)
    assert all(
        rounds.choose(QUEUES, (), lambda broker: faults.is_available(broker, 11.0)).broker_name == "b"
        for _ in range(20)
    )
    assert faults.is_available("a", 12.0)
    faults.note("b", 0, now=10.0, failed=True)
    assert not faults.is_available("b", 19.9)
    assert faults.is_available("b", 20.0)


def test_when_all_are_slow_one_is_chosen_all_the_same() -> None:
    assert RoundRobin(0).choose(QUEUES, (), lambda _: False) in QUEUES


def test_how_long_a_latency_is_avoided_is_what_java_says() -> None:
    table = {
        0: 0,
        49: 0,
        50: 0,
        100: 0,
        549: 0,
        550: 2000,
        1799: 2000,
        1800: 5000,
        3000: 6000,
        5000: 10000,
        15000: 30000,
    }
    assert {latency: avoid_for_ms(latency) for latency in table} == table


def test_equal_keys_make_equal_queues_as_in_java() -> None:
    assert queue_of_key(QUEUES, "TagA") == QUEUES[2598919 % 8]
    assert queue_of_key(QUEUES, "polygenelubricants") == QUEUES[0]  # the hash whose absolute value is negative in Java
