"""The beginning of a slave's stream, the in-sync set and the confirmed offset, over any logs and reports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.replication.decisions import NOTHING_CONFIRMED, LogBounds, confirmed, first_offset, in_sync
from firearrow.errors import OffsetNotStored
from firearrow.protocol.ha_stream import FROM_FIRST_BYTE

SEGMENT = 4096


@st.composite
def logs(draw: st.DrawFn) -> LogBounds:
    start = draw(st.integers(0, 9)) * SEGMENT
    return LogBounds(start, start + draw(st.integers(0, 5 * SEGMENT)), SEGMENT)


@given(log=logs(), report=st.integers(-1, 20 * SEGMENT))
def test_a_stream_begins_inside_the_log_or_not_at_all(log: LogBounds, report: int) -> None:
    try:
        first = first_offset(report, log)
    except OffsetNotStored:
        assert report > 0
        assert report < log.start or report > log.end
        return
    assert log.start <= first <= log.end
    if report > 0:
        assert first == report
    if report == FROM_FIRST_BYTE:
        assert first == log.start
    if report == 0:
        assert first % SEGMENT == 0
        assert log.end - first < SEGMENT or first == log.start


ACKED = st.lists(st.integers(-1, 1000), max_size=5)


@given(acked=ACKED, replicas=st.integers(2, 5))
def test_confirmed_is_what_enough_slaves_have(acked: list[int], replicas: int) -> None:
    offset = confirmed(acked, replicas)
    having = [one for one in acked if one >= offset]
    if offset == NOTHING_CONFIRMED:
        assert len([one for one in acked if one >= 0]) < replicas - 1
    else:
        assert len(having) >= replicas - 1
        assert len([one for one in acked if one > offset]) < replicas - 1


@given(acked=ACKED, replicas=st.integers(2, 5), more=st.integers(0, 1000))
def test_a_report_never_lowers_what_is_confirmed(acked: list[int], replicas: int, more: int) -> None:
    before = confirmed(acked, replicas)
    for at in range(len(acked)):
        grown = [*acked]
        grown[at] = max(grown[at], more)
        assert confirmed(grown, replicas) >= before


@given(acked=ACKED, end=st.integers(0, 1000), gap=st.integers(1, 1000))
def test_a_slave_is_in_sync_when_it_is_near(acked: list[int], end: int, gap: int) -> None:
    assert in_sync(acked, end, gap) == 1 + len([one for one in acked if one >= 0 and one + gap > end])


def test_a_slave_that_is_ahead_is_told_what_to_do() -> None:
    with pytest.raises(OffsetNotStored, match="Keep a copy"):
        first_offset(200, LogBounds(0, 100, SEGMENT))
