from datetime import UTC, datetime, timedelta, timezone

import pytest

from firearrow.errors import IllegalMessage
from firearrow.model import EpochMs, Host, PhysicalOffset
from firearrow.record.hosts import host_bytes
from firearrow.record.message_id import (
    DRAWN_DIGITS,
    UniqueKeys,
    month_of,
    offset_message_id,
    offset_message_ids,
    parse_offset_message_id,
)

DAY = 86_400_000


def at(year: int, month: int, day: int = 1) -> EpochMs:
    return EpochMs(int(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000))


@pytest.mark.parametrize("ip", ["192.168.0.1", "2001:db8::1"])
def test_offset_message_id(ip: str) -> None:
    text = offset_message_id(host_bytes(Host(ip, 10911)), PhysicalOffset(0x0123456789ABCDEF))
    assert text == text.upper()
    assert len(text) in (32, 56)
    assert parse_offset_message_id(text) == (Host(ip, 10911), 0x0123456789ABCDEF)
    assert parse_offset_message_id(text.lower())[1] == 0x0123456789ABCDEF


@pytest.mark.parametrize("ip", ["192.168.0.1", "2001:db8::1"])
def test_many_offset_message_ids_at_once(ip: str) -> None:
    host, places = host_bytes(Host(ip, 10911)), [0, 0xABC, 1 << 62]
    expected = ",".join(offset_message_id(host, PhysicalOffset(place)) for place in places)
    assert offset_message_ids(host, places) == expected
    assert offset_message_ids(host, range(5, 6)) == offset_message_id(host, PhysicalOffset(5))


@pytest.mark.parametrize("text", ["", "0" * 31, "0" * 33, "0" * 55, "g" * 32, "0" * 32 + "\n", "\uff10" * 32])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(IllegalMessage, match="is not a message id"):
        parse_offset_message_id(text)


def test_unique_key_layout() -> None:
    keys = UniqueKeys("192.168.0.1", 0x1_18B4, 0xAAC2_0001, UTC)
    now = EpochMs(at(2026, 3) + 0x12345)
    assert keys.next(now) == "C0A8000118B4AAC20001000123450000"
    assert keys.next(now) == "C0A8000118B4AAC20001000123450001"
    assert len(UniqueKeys("::1", 1, -1, UTC).next(now)) == 56


def test_the_month_turns() -> None:
    keys = UniqueKeys("10.0.0.1", 1, 1, UTC)
    assert keys.next(EpochMs(at(2026, 2) - 1))[20:28] == f"{31 * DAY - 1:08X}"
    assert keys.next(at(2026, 2))[20:28] == "00000000"
    # the clock steps back a little: the key stays in the new month
    assert keys.next(EpochMs(at(2026, 2) - 5))[20:28] == "00000000"


def test_counter_wraps() -> None:
    keys = UniqueKeys("10.0.0.1", 1, 1, UTC)
    made = {keys.next(at(2026, 1)) for _ in range(65_536)}
    assert len(made) == 65_536
    assert keys.next(at(2026, 1)).endswith("0000")


def test_keys_that_are_drawn_together_are_those_made_one_by_one() -> None:
    one, many = UniqueKeys("10.0.0.1", 1, 1, UTC), UniqueKeys("10.0.0.1", 1, 1, UTC)
    for count in (3, 0, 65_535, 7):
        head, ends = many.draw(at(2026, 1), count)
        drawn = [head + ends[start : start + DRAWN_DIGITS].decode() for start in range(0, len(ends), DRAWN_DIGITS)]
        assert drawn == [one.next(at(2026, 1)) for _ in range(count)]
    assert one.next(at(2026, 1)) == many.next(at(2026, 1))


def test_months_in_other_zones() -> None:
    assert month_of(at(2025, 12, 31), UTC) == (at(2025, 12), at(2026, 1))
    east = timezone(timedelta(hours=8))
    begins, ends = month_of(EpochMs(at(2026, 1) - 1), east)
    assert begins == at(2026, 1) - 8 * 3_600_000
    assert ends == at(2026, 2) - 8 * 3_600_000
