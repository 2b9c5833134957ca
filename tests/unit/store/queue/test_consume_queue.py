"""Bytes of queue entries, which queues can be stored, and what a filter lets through."""

import pytest

from firearrow.store.dispatch import code_of, delivery_ms, may_have_code
from firearrow.store.queue.consume_queue import ENTRY, FILLER, ConsumeQueue, is_filler, is_storable, matches, queue_path

LEVELS = (1_000, 5_000, 10_000)


def test_an_entry_is_apaches() -> None:
    # The entry of the 187-byte record with tag TagA at offset 0, as Apache 4.9.8 wrote it.
    assert ENTRY.pack(0, 0xBB, 2598919).hex() == "0000000000000000000000bb000000000027a807"


def test_the_filler_is_apaches() -> None:
    assert FILLER.hex() == "00000000000000007fffffff0000000000000000"
    assert is_filler(ENTRY.unpack(FILLER)[1])


def test_a_file_is_named_by_the_byte_it_starts_at() -> None:
    assert queue_path("T", 3, 300_000) == "consumequeue/T/3/00000000000006000000"


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\0b", "x" * 256, "\u4e2d" * 86])
def test_names_that_no_directory_can_have_get_no_queue(topic: str) -> None:
    assert not is_storable(topic, 0)
    assert not ConsumeQueue(topic, 0).plain


def test_ordinary_names_get_a_queue() -> None:
    assert is_storable("%RETRY%group", 0)
    assert is_storable("x" * 255, 7)
    assert not is_storable("T", -1)


def test_a_filter_takes_its_codes_and_whatever_it_cannot_judge() -> None:
    wanted = frozenset({5, -7})
    assert matches(5, wanted)
    assert matches(-7, wanted)
    assert not matches(6, wanted)
    assert matches(-(1 << 63) + 40, wanted), "the address of an extended entry"


def test_the_code_is_javas_hash_of_the_tag() -> None:
    assert code_of("T", b"KEYS\x01k\x02TAGS\x01TagA\x02", 0, LEVELS) == 2598919
    assert code_of("T", b"TAGS\x01\xe4\xb8\xad\xe6\x96\x87", 0, LEVELS) == 646394
    assert code_of("T", b"KEYS\x01TAGS\x02", 0, LEVELS) == 0


def test_the_code_of_a_parked_message_is_when_it_is_due() -> None:
    parked = b"DELAY\x012\x02TAGS\x01TagA\x02"
    assert code_of("SCHEDULE_TOPIC_XXXX", parked, 1_000, LEVELS) == 6_000
    assert code_of("T", parked, 1_000, LEVELS) == 2598919
    assert code_of("SCHEDULE_TOPIC_XXXX", b"TAGS\x01TagA\x02", 1_000, LEVELS) == 2598919
    assert delivery_ms(b"DELAY\x0199\x02", 0, LEVELS) == 10_000, "a level above the last counts as the last"
    assert delivery_ms(b"DELAY\x01x\x02", 0, LEVELS) == 0


def test_a_parked_entry_may_be_from_another_table_but_not_from_a_flipped_bit() -> None:
    parked, stored_ms = b"DELAY\x012\x02", 1_700_000_000_123
    assert may_have_code(stored_ms + 7_000, "SCHEDULE_TOPIC_XXXX", parked, stored_ms, LEVELS)
    assert not may_have_code(stored_ms + 7_000, "T", parked, stored_ms, LEVELS)
    for delay_ms in (5_000, 7_000):
        for bit in range(63):
            flipped = (stored_ms + delay_ms) ^ (1 << bit)
            assert not may_have_code(flipped, "SCHEDULE_TOPIC_XXXX", parked, stored_ms, LEVELS)
