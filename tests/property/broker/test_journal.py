"""The bytes of journals: what was written is read, whatever one accident does to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.state.journal import EDITION, Edition, encode_changes, encode_edition, encode_record, read_journal

LINES = st.lists(st.binary(min_size=1, max_size=30).filter(lambda line: b"\n" not in line), min_size=1, max_size=4)
EDITIONS = st.builds(Edition, st.integers(0, 1 << 40), st.integers(0, (1 << 32) - 1), st.integers(0, 9))
RECORDS = st.lists(st.one_of(LINES, EDITIONS), max_size=6)


def written(records: list[list[bytes] | Edition]) -> list[bytes]:
    return [
        encode_edition(number, one) if isinstance(one, Edition) else encode_changes(number, one)
        for number, one in enumerate(records, 1)
    ]


@given(RECORDS)
def test_what_was_written_is_read(records: list[list[bytes] | Edition]) -> None:
    journal = read_journal(b"".join(written(records)))
    assert journal.editions == tuple(one for one in records if isinstance(one, Edition))
    expected = [(number, tuple(one)) for number, one in enumerate(records, 1) if isinstance(one, list)]
    assert journal.changes == tuple(expected)
    assert journal.lost == 0


@given(RECORDS, st.data())
def test_a_torn_end_takes_nothing_but_the_record_that_is_torn(
    records: list[list[bytes] | Edition], data: st.DataObject
) -> None:
    pieces = written(records)
    whole = b"".join(pieces)
    end = data.draw(st.integers(0, len(whole)))
    count = 0
    while sum(map(len, pieces[: count + 1])) <= end and count < len(pieces):
        count += 1
    torn = read_journal(whole[:end])
    assert torn in (read_journal(b"".join(pieces[:count])), read_journal(b"".join(pieces[: count + 1])))


@given(RECORDS.filter(bool), st.data())
def test_one_rotten_bit_changes_nothing(records: list[list[bytes] | Edition], data: st.DataObject) -> None:
    whole = bytearray(b"".join(written(records)))
    expected = read_journal(bytes(whole))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert read_journal(bytes(whole)) == expected


@given(RECORDS.filter(lambda records: len(records) > 1), st.data())
def test_a_record_lost_with_its_copy_is_counted(records: list[list[bytes] | Edition], data: st.DataObject) -> None:
    pieces = written(records)
    gone = data.draw(st.integers(0, len(pieces) - 2))
    pieces[gone] = bytes(len(pieces[gone]))
    assert read_journal(b"".join(pieces)).lost == 1


@pytest.mark.parametrize(
    "payload",
    [
        b"[" * 100_000,
        b'{"size":1,"crc":1,"x":' + b"[" * 5_000,
        b'"\xff"',
        b'{"size":1e999,"crc":1}',
    ],
)
def test_an_edition_that_is_none_is_read_without_an_error(payload: bytes) -> None:
    """Whole by its checksums, and yet nothing that we write."""
    assert read_journal(encode_record(1, EDITION, payload)).editions == ()


@given(st.binary(max_size=2000))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    read_journal(data)
