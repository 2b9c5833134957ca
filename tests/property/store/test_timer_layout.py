"""The bytes of the timer files, and the slots that messages go to."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.store.timer.layout import (
    FILLER_MAGIC,
    PRECISIONS_MS,
    UNIT,
    WHEEL_SLOTS,
    TimerCheck,
    Unit,
    filler,
    slot_span,
    unit_at,
)

longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)


@given(st.builds(Unit, st.just(52), longs, st.integers(0, 15), longs, ints, longs, ints, ints, longs))
def test_units_survive_the_way_to_bytes(unit: Unit) -> None:
    data = b"before" + UNIT.pack(*unit) + b"behind"
    assert unit_at(data, 6) == unit
    assert unit.is_valid


@given(st.builds(TimerCheck, longs, longs, longs, longs, longs, longs, longs))
def test_checkpoints_survive_the_way_to_bytes(check: TimerCheck) -> None:
    assert TimerCheck.decode(check.encode().ljust(4096, b"\0")) == check
    assert TimerCheck.decode(check.encode()[:32]).queue_offset == check.queue_offset
    assert TimerCheck.decode(check.encode()[:31]) == TimerCheck()


def test_a_filler_is_not_a_unit() -> None:
    unit = unit_at(filler(60).ljust(52, b"\0"), 0)
    assert unit.magic == FILLER_MAGIC
    assert not unit.is_valid
    assert FILLER_MAGIC & 0xFFFFFFFF == 0xBBCCDDEE ^ (1880681586 + 8)  # TimerLog.BLANK_MAGIC_CODE


@given(
    st.sampled_from(PRECISIONS_MS),
    st.integers(2, WHEEL_SLOTS // 2 - 60),
    st.integers(0, 2**32),
    st.integers(0, 40 * 86_400 * 10),
)
def test_a_message_reaches_its_slot_by_rolls_and_never_passes_it(
    precision_ms: int, window: int, start: int, slots: int
) -> None:
    now_ms, due_ms = start * precision_ms, (start + slots) * precision_ms
    for _ in range(10_000):
        span = slot_span(due_ms, now_ms, window, precision_ms)
        assert now_ms <= span.due_ms <= due_ms
        assert span.due_ms % precision_ms == 0
        assert span.due_ms - now_ms <= window * precision_ms
        if not span.rolls:
            assert span.due_ms == due_ms
            return
        assert span.due_ms > now_ms, "a roll makes progress"
        now_ms = span.due_ms + precision_ms
        if now_ms > due_ms or (due_ms - now_ms) // (window * precision_ms) > 9_000:
            return
