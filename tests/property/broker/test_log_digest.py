"""A slave's log is the beginning of its master's, or the claim about it is refused: over any two logs."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.replication import log_digest
from firearrow.broker.replication.decisions import LogBounds
from firearrow.broker.replication.log_digest import claim_of, verdict_on
from firearrow.protocol.ha_stream import CLAIM, FROM_FIRST_BYTE, ClaimVerdict, decode_opening, encode_claim, report

SEGMENT = 256


class Bytes:
    """A log in memory."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self.data = data
        self.start = start

    @property
    def bounds(self) -> LogBounds:
        return LogBounds(self.start, len(self.data), SEGMENT)

    async def read(self, physical: int, size: int) -> bytes:
        assert physical // SEGMENT == (physical + size - 1) // SEGMENT, "a read crosses a file"
        assert self.start <= physical <= physical + size <= len(self.data)
        return self.data[physical : physical + size]

    async def grown(self, offset: int) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True, scope="module")
def _small_parts() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_digest, "PART_BYTES", 16)
        patch.setattr(log_digest, "PROBE_BYTES", 4)
        patch.setattr(log_digest, "MOST_ZEROS", 1 << 10)
        patch.setattr(log_digest, "MOST_BYTES", (1 << 10) + 32)
        yield


RECORDS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=12).filter(lambda one: one[-1] != 0), st.integers(0, 1) | st.just(200)),
    max_size=30,
)


def log_of(records: list[tuple[bytes, int]], life: int) -> bytes:
    """Records that say in which life they were written, some of them with zeros behind, as a filler has."""
    return b"".join(b"%d:%d:" % (life, number) + body + bytes(zeros) for number, (body, zeros) in enumerate(records))


@given(common=RECORDS, slave=RECORDS, master=RECORDS, first=st.integers(0, 3))
def test_a_log_that_went_another_way_is_seen_whatever_the_lengths(
    common: list[tuple[bytes, int]], slave: list[tuple[bytes, int]], master: list[tuple[bytes, int]], first: int
) -> None:
    begin = log_of(common, 0)
    mine, theirs = Bytes(begin + log_of(slave, 1)), Bytes(begin + log_of(master, 2))
    theirs.start = min(first * SEGMENT, len(theirs.data) - len(theirs.data) % SEGMENT)

    async def compared() -> ClaimVerdict:
        return await verdict_on(theirs, await claim_of(mine, 5, theirs.start))

    verdict = asyncio.run(compared())
    if not mine.data:
        assert verdict is ClaimVerdict.AGREES
    elif len(mine.data) > len(theirs.data):
        assert verdict is ClaimVerdict.LONGER
    elif len(mine.data) <= theirs.start:
        assert verdict is ClaimVerdict.DELETED
    elif (kept := mine.data[theirs.start :]).strip(b"\0"):
        assert (verdict is ClaimVerdict.AGREES) == theirs.data.startswith(kept, theirs.start)


@given(numbers=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=9), size=st.integers(0, 80))
def test_any_beginning_of_a_connection_is_understood_or_waited_for(numbers: list[int], size: int) -> None:
    data = b"".join(map(report, numbers))[:size]
    found = decode_opening(data)
    words = numbers[: len(data) // 8]
    assert found.asks == (words[:1] == [FROM_FIRST_BYTE])
    assert found.is_plain == bool(words and (words[0] != FROM_FIRST_BYTE or words[1:2] not in ([], [CLAIM])))
    if found.claim is not None:
        assert encode_claim(found.claim) == data[8:56]
