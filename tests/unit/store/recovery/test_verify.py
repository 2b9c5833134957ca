"""A record that was cut off behind its body is torn: at a slave, whose records have no range of ours, as well."""

import pytest

from firearrow.errors import BadRecord
from firearrow.model import EpochMs, Host, PhysicalOffset, QueueOffset
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import encode_properties
from firearrow.store.recovery.verify import SECTOR, judge, written_by_another

HOST = host_bytes(Host("127.0.0.1", 10911))


def record(properties: dict[str, str], *, stamped: bool, body: bytes = b"body", at: int = 0) -> bytes:
    draft = Draft("T", 0, body, encode_properties(properties), EpochMs(1), HOST, HOST)
    return encode(draft, QueueOffset(0), PhysicalOffset(at), EpochMs(2), stamped=stamped)


@pytest.mark.parametrize("missing", range(1, 60))
def test_a_record_cut_off_in_its_properties_is_not_anothers(missing: int) -> None:
    whole = record({"KEYS": "k", "UNIQ_KEY": "7F000001000000000000000000000000", "TAGS": "paid"}, stamped=True)
    assert not written_by_another(whole[:-missing] + bytes(missing), 0, 0)


@pytest.mark.parametrize("properties", [{}, {"KEYS": "k"}, {"KEYS": "a key that is as long as a stamp"}])
def test_an_unstamped_record_is_anothers(properties: dict[str, str]) -> None:
    assert written_by_another(record(properties, stamped=False), 0, 0)


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("missing", range(1, 40))
def test_a_copied_record_whose_last_sector_was_not_written_is_bad(missing: int, *, stamped: bool) -> None:
    size = len(record({"KEYS": "a key that is as long as a stamp"}, stamped=stamped))
    at = 64 * SECTOR - (size - missing)
    whole = record({"KEYS": "a key that is as long as a stamp"}, stamped=stamped, at=at)
    judge(whole, 0, at, ours=False)
    with pytest.raises(BadRecord):
        judge(whole[:-missing] + bytes(missing), 0, at, ours=False)


@pytest.mark.parametrize("at", [0, 1, SECTOR - 30, SECTOR])
def test_zeros_of_a_body_are_no_torn_record(at: int) -> None:
    judge(record({}, stamped=False, body=bytes(2 * SECTOR), at=at), 0, at, ours=False)
    judge(record({"KEYS": "k"}, stamped=False, body=bytes(2 * SECTOR), at=at), 0, at, ours=False)
