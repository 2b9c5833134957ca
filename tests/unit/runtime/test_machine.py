"""The facts about its machine that a server is given: the zone in which its hours count."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from firearrow.runtime.machine import LocalZone, this_machine


@pytest.fixture(params=["Europe/Berlin", "Asia/Shanghai", "America/St_Johns", "UTC"])
def zone_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone_name")
def test_hours_are_those_of_the_system_in_summer_and_winter() -> None:
    for moment in (datetime(2026, 1, 15, 3, 30, tzinfo=UTC), datetime(2026, 7, 15, 22, 10, tzinfo=UTC)):
        seconds = moment.timestamp()
        here, expected = datetime.fromtimestamp(seconds, LocalZone()), time.localtime(seconds)
        assert (here.month, here.day, here.hour, here.minute) == tuple(expected[1:5])
        assert here.utcoffset() == timedelta(seconds=expected.tm_gmtoff)
        assert here.timestamp() == seconds


def test_this_machine_has_the_zone_of_the_system() -> None:
    assert isinstance(this_machine().zone, LocalZone)
