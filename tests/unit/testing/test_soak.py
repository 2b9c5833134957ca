"""The soak's arithmetic: what was lost, how late, and what it complains of."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.soak.figures import SHORT, Figures, Latency, Sample, Turn, complaints
from benchmarks.soak.plan import planned
from benchmarks.soak.records import DELIVERY, SLICE_NS, Delays, Delivered, Numbers, Tail

OURS, RIVAL = "ours", "rival"


def numbers(*found: int) -> Numbers:
    one = Numbers()
    one.add(np.array(found, np.int64))
    return one


def test_a_message_is_missing_until_it_was_delivered() -> None:
    acknowledged = numbers(1, 2, 100_000)
    delivered = numbers(2, 2)
    assert list(acknowledged.missing_from(delivered)) == [1, 100_000]
    delivered.add(np.array([100_000, 1]))
    assert list(acknowledged.missing_from(delivered)) == []
    assert (delivered.total, delivered.distinct) == (4, 3)


def test_a_growing_file_is_read_in_whole_records(tmp_path: Path) -> None:
    file = tmp_path / "deliveries"
    tail = Tail(file, DELIVERY)
    assert len(tail.more()) == 0
    records = np.array([(7, 1, 2), (8, 3, 5)], DELIVERY)
    file.write_bytes(records.tobytes()[:-1])
    assert list(tail.more()["number"]) == [7]
    file.write_bytes(records.tobytes())
    assert list(tail.more()["seen_ns"]) == [5]


def test_percentiles_are_right_to_one_in_a_hundred() -> None:
    values = np.exp(np.random.default_rng(1).normal(1.0, 2.0, 50_000))
    delays = Delays()
    delays.add(values[:20_000])
    delays.add(values[20_000:])
    for part in (0.5, 0.9, 0.99):
        assert delays.percentile(part) == pytest.approx(float(np.quantile(values, part)), rel=0.015)
    assert delays.over(10.0) == pytest.approx(float((values > 10).mean()), abs=0.002)
    assert delays.longest_ms == values.max()


def test_delays_count_when_the_message_was_sent() -> None:
    delivered = Delivered()
    late = np.array([(0, SLICE_NS, 3 * SLICE_NS), (1, 2 * SLICE_NS, 2 * SLICE_NS + 1_000_000)], DELIVERY)
    delivered.add(late)
    assert delivered.between(SLICE_NS, 2 * SLICE_NS).longest_ms == 2 * SLICE_NS / 1e6
    assert delivered.between(2 * SLICE_NS, 3 * SLICE_NS).longest_ms == 1.0
    assert delivered.between(SLICE_NS + 1, 2 * SLICE_NS).count == 0


def latency(p99_ms: float) -> Latency:
    return Latency(1000, 1.0, p99_ms, p99_ms, 0.0)


def turn(side: str, p99_ms: float, lost: int = 0, rate: float = 1499.0) -> Turn:
    return Turn(side, latency(p99_ms), latency(p99_ms), latency(p99_ms), lost, rate)


def good() -> Figures:
    return Figures(
        minutes=2,
        rate=1500,
        queues=32,
        turns=[turn(OURS, 5), turn(RIVAL, 6), turn(OURS, 90), turn(RIVAL, 7), turn(OURS, 4), turn(RIVAL, 5)],
        samples=[Sample(float(at), "steady", 60.0 + (at < 10) * 5, 60, at * 1500) for at in range(30)],
        lost={"group": 0},
        exceptions={"broker": 0},
        steady_rate=1200.0,
    )


def test_nothing_to_complain_of() -> None:
    assert complaints(good(), OURS, RIVAL) == []


def test_each_promise_is_asked_for() -> None:
    figures = good()
    figures.exceptions["broker"] = 3
    figures.lost["group"] = 1
    figures.turns += [turn(OURS, 80, lost=2), turn(RIVAL, 7), turn(OURS, 80)]
    figures.steady_rate = 800.0
    figures.turns[1].rate = 1300.0
    for sample in figures.samples[20:]:
        sample.anon_mib, sample.descriptors = 66.0, 65
    said = "\n".join(complaints(figures, OURS, RIVAL))
    assert "3 exceptions in the log of broker" in said
    assert "1 acknowledged messages never came to group" in said
    assert "2 acknowledged messages lost in a turn of ours" in said
    assert "delivery p99 is 12.31 times rival's" in said
    assert "1,500 messages/s was not held while consumers died" in said
    assert "1,500 messages/s was not held in a turn of rival" in said
    assert "memory grows: 65.0, 60.0, 66.0 MiB" in said
    assert "descriptors grow: 60.0, 60.0, 65.0" in said


def test_a_short_soak_forgives_a_slow_machine_and_nothing_else() -> None:
    figures = good()
    figures.steady_rate = 488.0
    for one in figures.turns:
        one.rate = 1080.0
    assert complaints(figures, OURS, RIVAL, SHORT) == []
    figures.lost["group"] = 1
    figures.steady_rate = 200.0
    said = complaints(figures, OURS, RIVAL, SHORT)
    assert [sentence.split(" ")[0] for sentence in said] == ["1", "the"]


def test_a_soak_without_a_steady_part_proves_nothing() -> None:
    figures = good()
    figures.samples.clear()
    assert "too short" in complaints(figures, OURS, RIVAL)[0]


@pytest.mark.parametrize("minutes", [2, 30, 480])
def test_the_parts_take_the_minutes(minutes: int) -> None:
    plan = planned(minutes)
    turns = 2 * (plan.rounds_before + plan.rounds_after) * (plan.turn_s + plan.lead_s)
    assert turns + plan.deaths_s + plan.steady_s == pytest.approx(minutes * 60, rel=0.15)
    assert plan.deaths_s > 4 * plan.pause_s
