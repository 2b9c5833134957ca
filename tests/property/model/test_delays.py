"""Delays of messages to any time, rounded up."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from firearrow.model import keys
from firearrow.model.delays import due_ms
from tests.unit.model.test_delays import timers

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=400)))
def test_a_delay_is_rounded_up_to_milliseconds(delay: timedelta) -> None:
    wait_ms = int(timers(delay=delay)[keys.TIMER_DELAY_MS])
    assert timedelta(0) <= wait_ms * MILLISECOND - delay < MILLISECOND


@given(st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=ZONES))  # noqa: DTZ001 - the zone is drawn
def test_a_time_is_rounded_up_to_milliseconds_whatever_its_zone(at: datetime) -> None:
    properties = timers(deliver_at=at)
    at_ms = int(properties[keys.TIMER_DELIVER_MS])
    assert timedelta(0) <= EPOCH + at_ms * MILLISECOND - at < MILLISECOND
    assert due_ms(properties) == at_ms
