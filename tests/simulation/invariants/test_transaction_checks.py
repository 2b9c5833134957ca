"""The judge of half messages and timed messages."""

from dataclasses import replace

import pytest

from firearrow.testing.sim.clock import EPOCH_MS
from tests.simulation.invariants.history import Decision, End, Half, History, Outcome, Place, Read, Sent
from tests.simulation.invariants.promise import Promise
from tests.simulation.invariants.timer_checks import timers_kept
from tests.simulation.invariants.transaction_checks import transactions_kept

PROMISE = Promise(groups=("g",), topics=frozenset({"T"}), delays_ms=(1_000,), most_checks=3)
FAULTLESS = replace(PROMISE, faultless=True)
LOSSY = replace(PROMISE, window_s=10.0)
SENT = Sent("x:1", "T", "b", 0, Outcome.OK, Place("b", "T", 0, 4), 50.0, 51.0, born_ms=EPOCH_MS + 50_000)


def _read(offset: int, topic: str = "T", stored_ms: int = 60_000) -> Read:
    return Read("x:1", Place("b", topic, 0, offset), 100 * offset, stored_ms, 0, "T", 90.0)


def _judged(half: Half, *final: Read, given_up: int = 0, promise: Promise = PROMISE, power_s: float = 0.0) -> str:
    history = History(final=list(final), halves={"x:1": half}, given_up=[_read(0, "G")] * given_up)
    if power_s:
        history.power_losses.append((power_s, "b"))
    return "; ".join(transactions_kept(history, promise))


def _half(decision: Decision, *ends: End, checks: int = 0) -> Half:
    return Half(replace(SENT, decision=decision), decision, checks=[60.0] * checks, ends=list(ends))


ACKNOWLEDGED = End(Decision.COMMIT, Outcome.OK, 52.0, 53.0)
LOST = End(Decision.COMMIT, Outcome.INFO, 52.0, 53.0)


def test_a_committed_half_message_is_in_the_log() -> None:
    assert _judged(_half(Decision.COMMIT, ACKNOWLEDGED), _read(1), promise=FAULTLESS) == ""
    assert "never reached T" in _judged(_half(Decision.COMMIT, ACKNOWLEDGED))
    assert "never reached T" in _judged(_half(Decision.COMMIT, ACKNOWLEDGED), given_up=1)
    assert "is nowhere" in _judged(_half(Decision.COMMIT, LOST))


def test_a_decision_that_no_broker_heard_may_be_given_up_where_something_failed() -> None:
    half = _half(Decision.COMMIT, LOST, checks=3)
    assert _judged(half, given_up=1) == ""
    assert "though nothing failed" in _judged(half, given_up=1, promise=FAULTLESS)
    assert "though nothing failed" in _judged(_half(Decision.ROLLBACK), given_up=1, promise=FAULTLESS)


def test_a_commit_is_stored_twice_only_where_something_failed() -> None:
    half = _half(Decision.COMMIT, ACKNOWLEDGED)
    assert _judged(half, _read(1), _read(2)) == ""
    assert "2 times in the log" in _judged(half, _read(1), _read(2), promise=FAULTLESS)


@pytest.mark.parametrize("decision", [Decision.ROLLBACK, Decision.UNKNOWN])
def test_what_is_not_committed_is_never_seen(decision: Decision) -> None:
    half = _half(decision)
    assert "though its group said" in _judged(half, _read(1), given_up=1)
    read = History(reads={"g": [_read(1)]}, halves={"x:1": half}, given_up=[_read(0, "G")])
    assert "though its group said" in "; ".join(transactions_kept(read, PROMISE))
    assert "was read from" in _judged(half, _read(1, "RMQ_SYS_TRANS_HALF_TOPIC"), given_up=1)


def test_what_nobody_knows_is_asked_about_and_given_up() -> None:
    assert _judged(_half(Decision.UNKNOWN, checks=3), given_up=1, promise=FAULTLESS) == ""
    assert "never given up" in _judged(_half(Decision.UNKNOWN, checks=3))
    assert "asked about 4 times" in _judged(_half(Decision.UNKNOWN, checks=4), given_up=1)


def test_power_excuses_the_half_messages_of_its_window() -> None:
    assert _judged(_half(Decision.COMMIT, ACKNOWLEDGED), promise=LOSSY, power_s=55.0) == ""
    assert "is nowhere" in _judged(_half(Decision.COMMIT, ACKNOWLEDGED), promise=LOSSY, power_s=70.0)


# ---- timers


def _timed(read: Read | None, sent: Sent, *steps: tuple[float, str, int], promise: Promise = PROMISE) -> str:
    reads = {"g": [read]} if read else {}
    history = History(sends=[sent], final=[read] if read else [], reads=reads, clock_steps=list(steps))
    return "; ".join(timers_kept(history, promise))


def _seen(stored_ms: int, at_s: float) -> Read:
    return replace(_read(1, stored_ms=EPOCH_MS + stored_ms), at_s=at_s)


AT = replace(SENT, due_ms=EPOCH_MS + 58_000)
AFTER = replace(AT, is_relative=True)


@pytest.mark.parametrize("sent", [AT, AFTER])
def test_a_timed_message_comes_and_not_early(sent: Sent) -> None:
    assert _timed(_seen(58_000, 58.0), sent, promise=FAULTLESS) == ""
    assert "delivered early" in _timed(_seen(57_999, 57.9991), sent)
    assert "never came" in _timed(None, sent)
    assert "3001 ms late" in _timed(_seen(61_001, 61.001), sent, promise=FAULTLESS)


def test_a_clock_that_steps_makes_early_only_what_is_early_by_clock_and_by_time() -> None:
    assert _timed(_seen(58_000, 53.0), AT, (52.0, "b", 5_000)) == ""
    assert _timed(_seen(53_000, 58.0), AT, (52.0, "b", -5_000)) == ""
    assert "delivered early" in _timed(_seen(55_000, 55.0), AT, (52.0, "b", 4_000), (53.0, "b", -4_000))
    assert _timed(_seen(58_000, 55.0), AT, (52.0, "b", 5_000), (53.0, "b", -5_000)) == ""


def test_a_delay_counts_by_the_clock_of_the_broker_at_the_arrival() -> None:
    back = ((40.0, "b", -5_000), (52.0, "b", 5_000))
    assert _timed(_seen(53_000, 53.0), AFTER, *back) == ""
    assert "early" in _timed(_seen(52_000, 52.0), AFTER, *back)
    assert "early" in _timed(_seen(53_000, 53.0), AT, *back)
