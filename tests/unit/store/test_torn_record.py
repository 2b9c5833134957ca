"""A record of ours that was cut off behind its body is torn, not another program's."""

import pytest

from firearrow.model import EpochMs, Host, PhysicalOffset, QueueOffset
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import encode_properties
from firearrow.store.recovery.verify import written_by_another

HOST = host_bytes(Host("127.0.0.1", 10911))


def record(properties: dict[str, str], *, stamped: bool) -> bytes:
    draft = Draft("T", 0, b"body", encode_properties(properties), EpochMs(1), HOST, HOST)
    return encode(draft, QueueOffset(0), PhysicalOffset(0), EpochMs(2), stamped=stamped)


@pytest.mark.parametrize("missing", range(1, 60))
def test_a_record_cut_off_in_its_properties_is_not_anothers(missing: int) -> None:
    whole = record({"KEYS": "k", "UNIQ_KEY": "7F000001000000000000000000000000", "TAGS": "paid"}, stamped=True)
    assert not written_by_another(whole[:-missing] + bytes(missing), 0, 0)


@pytest.mark.parametrize("properties", [{}, {"KEYS": "k"}, {"KEYS": "a key that is as long as a stamp"}])
def test_an_unstamped_record_is_anothers(properties: dict[str, str]) -> None:
    assert written_by_another(record(properties, stamped=False), 0, 0)
