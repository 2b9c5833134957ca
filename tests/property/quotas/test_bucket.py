"""A bucket lets pass what its rate allows, whatever comes when; and who waits as told may pass."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.quotas.bucket import BURST_S, SPREAD_S, Bucket
from firearrow.quotas.bucket_table import Buckets
from firearrow.quotas.settings import Limit, Measure, QuotaKind

RATES = st.integers(1, 10**9)
STEPS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 1.0, 5.0]) | st.floats(0, 5), st.floats(0, 3)), max_size=60)
"""The time from the last request to the next, and the cost of it, in seconds of the rate."""
SLACK = 1e-6


@given(RATES, STEPS)
def test_what_passes_is_bounded_by_the_rate(rate: int, steps: list[tuple[float, float]]) -> None:
    bucket, now, passed = Bucket(rate, 0.0), 0.0, 0.0
    for pause, share in steps:
        now, cost = now + pause, share * rate
        if bucket.may_pass(now):
            before_this = passed
            passed += cost
            bucket.take(cost)
            assert before_this <= rate * (BURST_S + now) * (1 + SLACK)


@given(RATES, STEPS)
def test_nobody_is_refused_below_the_rate(rate: int, steps: list[tuple[float, float]]) -> None:
    bucket, now, passed = Bucket(rate, 0.0), 0.0, 0.0
    filled_at = 0.0
    for pause, share in steps:
        now, cost = now + pause, share * rate
        if bucket.is_full(now):
            filled_at, passed = now, 0.0
        if passed < rate * (BURST_S + now - filled_at) * (1 - SLACK):
            assert bucket.may_pass(now)
        if bucket.may_pass(now):
            bucket.take(cost)
            passed += cost


@given(RATES, STEPS, st.floats(0, 3))
def test_who_waits_as_told_may_pass(rate: int, steps: list[tuple[float, float]], more: float) -> None:
    bucket, now = Bucket(rate, 0.0), 0.0
    for pause, share in steps:
        now += pause
        bucket.take(share * rate)
    if bucket.may_pass(now):
        return
    waits = [bucket.tell_s(more * rate, now) for _ in range(5)]
    assert bucket.wait_s(now) <= waits[0] + SLACK
    assert waits == sorted(waits)
    assert waits[-1] - waits[0] <= SPREAD_S * (1 + SLACK)
    later = now + waits[0] + max(0.001, waits[0] * SLACK)  # a broker adds a millisecond to what it tells
    assert bucket.may_pass(later)


@given(RATES, STEPS)
def test_a_full_bucket_is_as_good_as_a_new_one(rate: int, steps: list[tuple[float, float]]) -> None:
    bucket, now = Bucket(rate, 0.0), 0.0
    for pause, share in steps:
        now, cost = now + pause, share * rate
        bucket.take(cost)
    while not bucket.is_full(now):
        now += 1 + bucket.wait_s(now)
    new = Bucket(rate, now)
    for pause, share in steps:
        now, cost = now + pause, share * rate
        assert bucket.may_pass(now) == new.may_pass(now)
        bucket.take(cost)
        new.take(cost)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.125, 1.0]), st.integers(0, 8), st.integers(0, 20)), max_size=60),
    st.integers(1, 3),
)
def test_buckets_are_bounded_and_forgetting_changes_nothing(steps: list[tuple[float, int, int]], most: int) -> None:
    limit = Limit(QuotaKind.CLIENT, Measure.REQUESTS, 10, {"7": 5, "8": 0})
    bounded, all_of_them = Buckets(limit, most), Buckets(limit)
    now, shared = 0.0, set()
    for pause, number, cost in steps:
        now += pause
        name = str(number)
        few, many = bounded.of(name, now), all_of_them.of(name, now)
        assert len(bounded) <= most + 1  # and the one with a limit of its own
        if few is None or many is None:
            assert few is many is None
            assert name == "8"
            continue
        if few is bounded.others:
            assert name != "7"
            shared.add(name)
        if name not in shared:
            assert few.may_pass(now) == many.may_pass(now)
        if few.may_pass(now):
            few.take(cost)
            many.take(cost)
