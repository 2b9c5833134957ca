"""The topics of messages with a time of their own, and their handles."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.send.incoming import Destination
from firearrow.broker.timer.admission import is_refused, parked, slot_ms
from firearrow.errors import IllegalMessage
from firearrow.model import keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.protocol.refusal import Refused
from firearrow.record.recall_handle import RecallHandle, decode_handle, encode_handle, handle_of
from firearrow.store.timer.config import TimerConfig
from firearrow.store.timer.layout import PRECISIONS_MS

times = st.integers(1, 2**42)
words = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=["Z", "C"]), min_size=1)


@given(times, st.sampled_from(PRECISIONS_MS))
def test_a_slot_ends_at_the_time_or_less_than_a_slot_after_it(deliver_ms: int, precision_ms: int) -> None:
    start = slot_ms(deliver_ms, precision_ms)
    assert start % precision_ms == 0
    assert deliver_ms <= start + precision_ms < deliver_ms + precision_ms


@given(times, st.sampled_from(PRECISIONS_MS), st.sampled_from([*range(-5, 5), 999, 259_200_000, 259_200_001]))
def test_messages_wait_are_due_or_are_refused(now_ms: int, precision_ms: int, delay_ms: int) -> None:
    config = TimerConfig(timer_precision_ms=precision_ms)
    given_place = Destination("T", 3, {keys.TIMER_DELAY_MS: str(delay_ms)})
    try:
        place = parked(given_place, 0, config, now_ms)
    except Refused:
        assert delay_ms > 259_200_000
        return
    if delay_ms <= 0:
        assert place == given_place
        return
    assert (place.topic, place.queue_id) == (TIMER_TOPIC, 0)
    assert (place.properties[keys.REAL_TOPIC], place.properties[keys.REAL_QID]) == ("T", "3")
    assert now_ms + delay_ms <= int(place.properties[keys.TIMER_OUT_MS]) + precision_ms
    assert parked(Destination("T", 3, place.properties), 0, config, now_ms).topic == "T", "it waits once"


@given(words, words, times, words)
def test_handles_survive_the_way_to_text(topic: str, broker: str, time_ms: int, key: str) -> None:
    handle = RecallHandle(topic, broker, str(time_ms), key)
    assert decode_handle(encode_handle(handle)) == handle


@given(st.text())
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    with suppress(IllegalMessage):
        decode_handle(text)


def test_a_handle_names_the_slot_of_its_message() -> None:
    place = parked(Destination("T", 0, {keys.TIMER_DELIVER_MS: "90001"}), 0, TimerConfig(), 5)
    handle = decode_handle(handle_of(place.properties, "b", "key") or "")
    assert handle == RecallHandle("T", "b", "90001", "key")
    assert slot_ms(int(handle.time), 1000) == int(place.properties[keys.TIMER_OUT_MS])


def test_apache_s_own_handle_is_read() -> None:
    """`RecallMessageHandleTest` of 5.5.0 builds it so."""
    assert decode_handle("djEgdG9waWMgYnJva2VyIDEgaWQ=") == RecallHandle("topic", "broker", "1", "id")


@given(st.integers(0, 1000), st.integers(1, 300), st.floats(0, 1, exclude_max=True))
def test_fuller_slots_refuse_more(count: int, limit: int, chance: float) -> None:
    refused = is_refused(count, limit, chance)
    assert refused or count < 2 * limit
    assert not refused or count > limit
    assert not refused or is_refused(count + 1, limit, chance)
