"""Times and waits as people write them."""

from datetime import datetime

import pytest

from firearrow.cli.times import time_ms, time_to_come_ms, wait_ms
from firearrow.errors import SettingsError

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000), ("1.5s", 1500)],
)
def test_waits(text: str, ms: int) -> None:
    assert wait_ms(text) == ms


@pytest.mark.parametrize("text", ["", "10", "s", "-5s", "1w", "ten"])
def test_what_is_no_wait_says_how_to_write_one(text: str) -> None:
    with pytest.raises(SettingsError, match="500ms, 10s"):
        wait_ms(text)


def test_moments() -> None:
    assert time_ms("now", NOW) == NOW
    assert time_ms("-1h", NOW) == NOW - 3_600_000
    assert time_ms("1970-01-01T00:00:01Z", NOW) == 1000
    assert time_ms("1970-01-01T08:00:01+08:00", NOW) == 1000
    assert time_ms("2026-11-15T10:00", NOW) == int(datetime(2026, 11, 15, 10, 0).timestamp() * 1000)  # noqa: DTZ001


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "99999-01-01", "-1x"])
def test_what_is_no_moment_says_how_to_write_one(text: str) -> None:
    with pytest.raises(SettingsError, match="write"):
        time_ms(text, NOW)


def test_a_time_to_come_is_a_date() -> None:
    assert time_to_come_ms("1970-01-01T00:00:01Z") == 1000


@pytest.mark.parametrize("text", ["now", "-1h", "90s", "2026-13-01"])
def test_what_is_no_time_to_come_says_what_to_write(text: str) -> None:
    with pytest.raises(SettingsError, match=r"write 2026-12-01T08:00.*delay: 90s"):
        time_to_come_ms(text)
