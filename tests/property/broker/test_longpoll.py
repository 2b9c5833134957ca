"""Pulls that wait, against a list that is searched the slow way."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.broker.pull.long_poll import SLOT_MS, ParkedPulls

QUEUES = st.tuples(st.sampled_from(["T", "U"]), st.integers(0, 2))
TAGS = st.none() | st.frozensets(st.integers(0, 3), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("park"), QUEUES, st.integers(0, 4), TAGS, st.integers(0, 300)),
        st.tuples(st.just("arrive"), QUEUES, st.integers(0, 5), st.integers(0, 3)),
        st.tuples(st.just("pass"), st.integers(0, 120)),
        st.tuples(st.just("recall"), QUEUES, st.integers(0, 3)),
    ),
    max_size=60,
)


@dataclass(frozen=True)
class Slow:
    """One pull, kept plainly."""

    queue: tuple[str, int]
    offset: int
    tags: frozenset[int] | None
    until_ms: int
    number: int


@settings(max_examples=150)
@given(STEPS)
def test_pulls_wake_once_and_for_the_right_reason(steps: list[tuple[object, ...]]) -> None:
    fast: ParkedPulls[int] = ParkedPulls()
    slow: list[Slow] = []
    now_ms = 0
    for number, step in enumerate(steps):
        gone: list[int] = []
        due: list[Slow] = []
        match step:
            case ("park", queue, offset, tags, wait_ms):
                fast.park(queue, offset, tags, now_ms + wait_ms, number, owner="c")  # type: ignore[arg-type, operator]
                slow.append(Slow(queue, offset, tags, now_ms + wait_ms, number))  # type: ignore[arg-type, operator]
                continue
            case ("arrive", queue, offset, code):
                gone = [one.ticket for one in fast.arrived(queue, offset, code)]  # type: ignore[arg-type]
                due = [
                    s for s in slow
                    if s.queue == queue and offset >= s.offset and (s.tags is None or code in s.tags)  # type: ignore[operator]
                ]  # fmt: skip
            case ("recall", queue, third):
                gone = [one.ticket for one in fast.recall(queue, lambda ticket, t=third: ticket % 4 == t)]  # type: ignore[arg-type, misc]
                due = [s for s in slow if s.queue == queue and s.number % 4 == third]
            case ("pass", by_ms):
                now_ms += by_ms  # type: ignore[operator]
                gone = [one.ticket for one in fast.expired(now_ms)]
                due = [s for s in slow if -(-s.until_ms // SLOT_MS) * SLOT_MS <= now_ms]
                assert all(s.until_ms <= now_ms for s in slow if s.number in gone), "never early"
                assert not [s for s in slow if s.until_ms + SLOT_MS <= now_ms and s.number not in gone], "never late"
        assert sorted(gone) == sorted(s.number for s in due)
        slow = [s for s in slow if s.number not in gone]
        assert len(fast) == len(slow)
