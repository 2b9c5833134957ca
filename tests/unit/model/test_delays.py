"""Delays of messages to any time."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from firearrow.client.producer.values import message_of
from firearrow.errors import IllegalMessage
from firearrow.model import Message, keys
from firearrow.model.delays import TIMERS, due_ms


def timers(**parts: Any) -> dict[str, str]:
    return {name: value for name, value in Message("T", b"x", **parts).properties.items() if name in TIMERS}


def test_milliseconds_since_1970_are_taken_as_they_are() -> None:
    assert timers(deliver_at=1_800_000_000_123) == {keys.TIMER_DELIVER_MS: "1800000000123"}


def test_no_delay_is_no_property() -> None:
    assert timers(delay=timedelta(0)) == timers() == {}
    assert due_ms({}) is None
    assert due_ms({keys.TIMER_OUT_MS: "17"}) == 17


def test_a_message_that_is_sent_on_waits_for_its_new_delay() -> None:
    received = {
        "a": "b", keys.DELAY: "3", keys.TIMER_OUT_MS: "1700000000000", keys.TIMER_DELIVER_MS: "1700000000000",
        keys.TIMER_ENQUEUE_MS: "1", keys.TIMER_DEQUEUE_MS: "2", keys.TIMER_ROLL_TIMES: "1",
    }  # fmt: skip
    message = Message("T", b"x", received, delay=timedelta(hours=1))
    assert message.properties == {"a": "b", keys.TIMER_DELAY_MS: "3600000"}


def test_values_are_delayed_as_messages_are() -> None:
    parts = {"delay": timedelta(seconds=90)}
    assert message_of(None, "T", b"x", parts).properties == Message.of("T", b"x", **parts).properties  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"delay": 90}, r"delay=90 is not a duration; write timedelta\(seconds=90\)"),
        ({"delay": timedelta(seconds=-1)}, "is negative"),
        ({"deliver_at": datetime(2026, 12, 1, 8)}, "has no time zone"),  # noqa: DTZ001 - the mistake
        ({"deliver_at": 1_796_112_000}, r"write seconds \* 1000"),
        ({"deliver_at": 1.5}, "is not a time"),
        ({"deliver_at": True}, "is not a time"),
        ({"deliver_at": "2026-12-01"}, "is not a time"),
        ({"delay": timedelta(1), "deliver_at": 1_800_000_000_000}, "has delay and deliver_at"),
        ({"delay": timedelta(1), "delay_level": 3}, "has delay and delay_level"),
        ({"deliver_at": 1_800_000_000_000, "delay_level": 3}, "has deliver_at and delay_level"),
    ],
)
def test_what_is_no_delay_is_refused(parts: dict[str, Any], told: str) -> None:
    with pytest.raises(IllegalMessage, match=told):
        Message("T", b"x", **parts)
