"""A filter over the bytes of a record says what its program says about the decoded properties, also from memory."""

import asyncio
import struct

from hypothesis import given
from hypothesis import strategies as st

from firearrow.broker.pull.filter_budget import FilterClock, FilterCost
from firearrow.broker.pull.message_filter import PropertyFilter
from firearrow.broker.pull.scanner import Scanner
from firearrow.expression.sql import compile_sql
from firearrow.record.layout import HEAD_SIZE, MAGIC_V1
from firearrow.record.properties import decode_properties
from firearrow.runtime.turn import TurnBudgets
from firearrow.store.read.queue_reader import ReadResult, ReadStatus

FILTERS = [
    PropertyFilter.of(compile_sql(text))
    for text in ("a > 5", "a = 'x' OR b IS NULL", "a <> b", "a = 1 AND b = 2 AND c = 3 AND d = 4 AND e IS NULL")
]
PARTS = st.sampled_from(["a", "b", "c", "ab", "x", "5", "6", "1", "", "\x01", "\x02", "a\x01", "中", "\x02a\x016\x02"])
RAW = st.one_of(st.lists(PARTS, max_size=12).map(lambda parts: "".join(parts).encode()), st.binary(max_size=40))


BODIES = st.sampled_from([b"", b"x" * 30, b"\x02a\x016\x02", b"a\x01x\x02b\x01", b"b\x012\x02"])


def record(properties: bytes, body: bytes, number: int) -> bytes:
    topic = b"\x01T"
    behind = struct.pack(">i", len(body)) + body + topic + struct.pack(">h", len(properties)) + properties
    size = HEAD_SIZE + len(behind) - 4
    head = struct.pack(">iIIiiqqi", size, MAGIC_V1, 0, 0, 0, number, 0, 0)
    return head + bytes(HEAD_SIZE - 4 - len(head)) + behind


@given(st.lists(st.tuples(RAW, BODIES), min_size=1, max_size=6))
def test_bytes_and_decoded_properties_agree(several: list[tuple[bytes, bytes]]) -> None:
    async def scenario() -> None:
        records = [record(raw, body, number) for number, (raw, body) in enumerate(several)]
        read = ReadResult(ReadStatus.FOUND, len(records), 0, len(records), [b"".join(records)])
        scanner, cost = Scanner(FilterClock(TurnBudgets(lambda: 0))), FilterCost()
        for judge in FILTERS:
            expected = [judge.program.matches(decode_properties(raw)) for raw, _ in several]
            assert [judge.passes(raw, cost) for raw, _ in several] == expected
            for _ in range(2):  # the second time from memory
                kept = scanner.kept(read, judge, 32, 1 << 20, cost)
                assert kept.buffers == [one for one, passes in zip(records, expected, strict=True) if passes]

    asyncio.run(scenario())
