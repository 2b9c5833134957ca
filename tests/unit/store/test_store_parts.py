"""The pure parts: waiters, ranges, slots, seals, judgement."""

import pytest

from firearrow.errors import BadRecord, DiskFull, FireArrowError
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.record.encode import encode
from firearrow.record.properties import StoredProperties
from firearrow.store.log.waiters import Waiters
from firearrow.store.paths import segment_start
from firearrow.store.recovery.verify import (
    LARGEST_STAMPED_PROPERTIES,
    Protection,
    judge,
    resembles_stamp,
    written_by_another,
)
from firearrow.store.sidecars.sidecar import SLOT_FILE_BYTES, FlushSlot, newest_slot, older_position, seal, unseal
from firearrow.store.sidecars.stamped_ranges import Ranges
from tests.simulation.store.kit import draft


def _record(*, stamped: bool = True, properties: bytes = b"", body: bytes = b"hello") -> bytes:
    message = draft(body)
    message = type(message)(
        "T", 0, body, StoredProperties(properties), EpochMs(1), message.born_host, message.store_host
    )
    return encode(message, QueueOffset(7), PhysicalOffset(1000), EpochMs(5), stamped=stamped)


def test_waiters_are_told_in_order_of_their_offsets() -> None:
    waiters, told = Waiters(), []
    for offset in (10, 30, 20, 40):
        waiters.add(offset, lambda error, offset=offset: told.append((offset, error)))  # type: ignore[misc]
    waiters.reached(9)
    assert told == []
    waiters.reached(30)
    assert told == [(10, None), (20, None), (30, None)]
    assert len(waiters) == 1


def test_waiters_above_a_place_hear_why_not() -> None:
    waiters = Waiters()
    told: list[tuple[int, FireArrowError | None]] = []
    for offset in (10, 20, 30):
        waiters.add(offset, lambda error, offset=offset: told.append((offset, error)))  # type: ignore[misc]
    full = DiskFull("full")
    for call in waiters.take(above=10):
        call(full)
    assert told == [(20, full), (30, full)]
    waiters.reached(100)
    assert told[2:] == [(10, None)]
    waiters.add(50, lambda error: told.append((50, error)))
    waiters.failed(full)
    assert told[3:] == [(50, full)]


def test_ranges_join_cut_and_forget() -> None:
    ranges = Ranges([(0, 100), (200, 300)])
    assert [ranges.covers(at) for at in (0, 99, 100, 199, 200, 299, 300)] == [
        True,
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert [ranges.owner(at) for at in (0, 100, 250)] == [(True, 100), (False, 200), (True, 300)]
    assert not ranges.owner(300)[0]
    ranges.begin(300)
    assert ranges.as_list() == [(0, 100), (200, None)]
    assert ranges.covers(10**12)
    assert ranges.end is None
    ranges.finish(250)
    assert ranges.as_list() == [(0, 100), (200, 250)]
    ranges.finish(150)
    assert ranges.as_list() == [(0, 100)]
    ranges.forget(100)
    assert ranges.as_list() == []
    assert Ranges([(0, None)]).as_list() == [(0, None)]


def test_ranges_refuse_disorder() -> None:
    ranges = Ranges([(0, 100)])
    with pytest.raises(ValueError, match="before the end"):
        ranges.begin(50)
    ranges.begin(100)
    with pytest.raises(ValueError, match="open"):
        ranges.begin(200)


def test_the_newest_whole_slot_counts_and_the_other_may_be_written_over() -> None:
    file = bytearray(SLOT_FILE_BYTES)
    assert newest_slot(bytes(file)) is None
    slots = [FlushSlot(number, number * 10, 0, False, 0, "boot") for number in (1, 2, 3)]
    for slot in slots:
        position, raw = older_position(bytes(file)), slot.encode()
        file[position : position + len(raw)] = raw
        assert newest_slot(bytes(file)) == slot
        assert older_position(bytes(file)) != position
    file[4096 - older_position(bytes(file)) + 20] ^= 1
    assert newest_slot(bytes(file)) == slots[-2]


def test_a_seal_shows_any_flip() -> None:
    sealed = seal(b'{"a": 1}')
    assert unseal(sealed) == b'{"a": 1}'
    for at in range(len(sealed)):
        flipped = bytearray(sealed)
        flipped[at] ^= 4
        assert unseal(bytes(flipped)) is None


@pytest.mark.parametrize("name", ["0", "x" * 20, "00000000000000000000.tmp", "\u0660" * 20])
def test_other_names_are_no_segments(name: str) -> None:
    assert segment_start(name) is None


def test_our_record_is_judged_by_its_stamp() -> None:
    record = _record(properties=b"TAGS\x01a\x02")
    head, protection = judge(record, 0, 1000, ours=True)
    assert (head.queue_offset, protection) == (7, Protection.WHOLE)
    for at in range(len(record)):
        flipped = bytearray(record)
        flipped[at] ^= 1
        with pytest.raises(BadRecord):
            judge(bytes(flipped), 0, 1000, ours=True)


def test_apaches_record_is_judged_by_its_body() -> None:
    record = _record(stamped=False)
    assert judge(record, 0, 1000, ours=False)[1] is Protection.BODY
    assert written_by_another(record, 0, 1000)
    flipped = bytearray(record)
    flipped[90] ^= 1
    with pytest.raises(BadRecord):
        judge(bytes(flipped), 0, 1000, ours=False)


def test_a_record_elsewhere_than_it_says_is_bad() -> None:
    with pytest.raises(BadRecord, match="1000"):
        judge(_record(), 0, 999, ours=True)


def test_properties_that_leave_no_room_for_the_stamp_go_without() -> None:
    fits = b"a\x01" + b"b" * (LARGEST_STAMPED_PROPERTIES - 3) + b"\x02"
    assert judge(_record(properties=fits), 0, 1000, ours=True)[1] is Protection.WHOLE
    too_long = b"a\x01" + b"b" * (LARGEST_STAMPED_PROPERTIES - 2) + b"\x02"
    assert judge(_record(properties=too_long, stamped=False), 0, 1000, ours=True)[1] is Protection.BODY
    with pytest.raises(BadRecord, match="stamp"):
        judge(_record(properties=fits, stamped=False), 0, 1000, ours=True)


def test_what_rot_leaves_of_a_stamp_still_resembles_one() -> None:
    stamp = _record()[-20:]
    assert resembles_stamp(stamp)
    assert resembles_stamp(bytes(3) + stamp[3:])
    assert not resembles_stamp(_record(stamped=False, properties=b"TAGS\x01abcdefghijklmnop\x02")[-20:])
    assert not written_by_another(_record(), 0, 1000)
