"""The settings of the timers, under Apache's key names. Java: ``MessageStoreConfig``."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from firearrow.errors import SettingsError
from firearrow.store.timer.layout import PRECISIONS_MS, WHEEL_SLOTS

MOST_DELAY_S: Final = 40 * 86_400
BLANK_SLOTS: Final = 60
"""Slots of a wheel's half that stay free (Java: ``TIMER_BLANK_SLOTS``)."""


class TimerConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings of timers, which keep and deliver messages with a delay of any length."""

    timer_wheel_enable: Annotated[bool, Meta(description="Take messages that are to be delivered at a given time.")] = (
        True
    )
    timer_precision_ms: Annotated[
        int,
        Meta(
            ge=100,
            le=1000,
            description="Milliseconds of a slot of the wheel: 100, 200, 500 or 1000. A message is delivered at the end "
            "of its slot. Change it only when no timed message is pending.",
        ),
    ] = 1000
    timer_max_delay_sec: Annotated[
        int, Meta(ge=1, le=MOST_DELAY_S, description="The longest delay in seconds; 40 days at most.")
    ] = 3 * 86_400
    timer_roll_window_slot: Annotated[
        int,
        Meta(
            ge=2,
            description="Slots up to which a message goes to its own slot; a later one is stored again on its way.",
        ),
    ] = 2 * 86_400
    timer_flush_interval_ms: Annotated[
        int, Meta(ge=10, le=60_000, description="Milliseconds between two writes of the wheel and its checkpoint.")
    ] = 1000
    timer_congest_num_each_slot: Annotated[
        int,
        Meta(
            ge=1,
            le=2**31 - 1,
            description="Messages of a slot from which on some are refused; from twice as many on all are.",
        ),
    ] = 2**31 - 1
    timer_stop_enqueue: Annotated[bool, Meta(description="Leave new timed messages in their queue for now.")] = False
    timer_stop_dequeue: Annotated[bool, Meta(description="Deliver no timed messages for now.")] = False
    timer_exact_delivery: Annotated[
        bool,
        Meta(
            description="Deliver each message in its millisecond instead of at the end of its slot; not known to "
            "Apache, whose files stay as they are."
        ),
    ] = False
    mapped_file_size_timer_log: Annotated[
        int, Meta(ge=4096, le=2**31 - 1, description="Bytes of a file of the timer log; fixed once there is a file.")
    ] = 100 << 20
    append_topic_for_timer_delete_key: Annotated[
        bool, Meta(description="Write the topic into the key of a recall too; both forms are read.")
    ] = False

    @property
    def window_slots(self) -> int:
        """The slots up to which a message goes to its own slot."""
        most = WHEEL_SLOTS // 2 - BLANK_SLOTS
        return min(self.timer_roll_window_slot, most)


def check_precision(precision_ms: int) -> None:
    """Raise ``SettingsError`` for a precision that 5.5.0 does not have."""
    if precision_ms not in PRECISIONS_MS:
        raise SettingsError(f"timerPrecisionMs={precision_ms} is not possible; give 100, 200, 500 or 1000")
