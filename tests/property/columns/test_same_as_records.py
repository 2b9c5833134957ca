"""Columns say exactly what the record decoder says, of any buffer."""

import random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firearrow.columns import TYPES, Treatment, decode_columns
from firearrow.columns.wrapped import messages_as_columns
from firearrow.errors import BadBody, BadRecord
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset, StoredMessage
from firearrow.model.flags import INNER_BATCH, NEED_UNWRAP, is_wrapped_batch
from firearrow.record.batch import encode_batch, unwrap
from firearrow.record.decode import decode_all
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes
from firearrow.record.layout import blank
from firearrow.record.properties import StoredProperties
from firearrow.testing import strategies

NAMES = list(TYPES)
V4 = HostBytes(bytes((10, 0, 0, 1, 0, 0, 0x2A, 0x9F)))
CHECKED = Treatment(check_crc=True)
PIECES = ["KEYS", "TAGS", "UNIQ_KEY", "DELAY", "3", "\x01", "\x02", "a", "é", "\ud800", "__CRC32#\x01", "0123456789"]


def expected(buffer: bytes) -> pa.RecordBatch | None:
    """The messages that the record decoder makes of a buffer; None when it refuses."""
    messages: list[StoredMessage] = []
    try:
        for message in decode_all(buffer):
            messages += unwrap(message) if is_wrapped_batch(message.sys_flag) else [message]
    except (BadRecord, BadBody):
        return None
    return messages_as_columns(messages, NAMES, "broker-a")


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with their properties as a mapping: the order of keys means nothing."""
    found: list[dict[str, Any]] = batch.cast(
        pa.schema([(name, plain(kind)) for name, kind in TYPES.items()])
    ).to_pylist()
    for row in found:
        assert len(dict(row["properties"])) == len(row["properties"])
        row["properties"] = dict(row["properties"])
    return found


def plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def compare(buffer: bytes) -> None:
    reference = expected(buffer)
    if reference is None:
        with pytest.raises(BadRecord):
            decode_columns(buffer, NAMES, broker="broker-a", treatment=CHECKED)
        return
    batch = decode_columns(buffer, NAMES, broker="broker-a", treatment=CHECKED)
    batch.validate(full=True)
    assert rows(batch) == rows(reference)


def hostile_properties() -> st.SearchStrategy[StoredProperties]:
    """Properties that no writer should make: open ends, stamps anywhere, broken text, separators where they please."""
    texts = st.lists(st.sampled_from(PIECES), max_size=12).map(
        lambda parts: "".join(parts).encode("utf-8", "surrogatepass")
    )
    return (texts | st.binary(max_size=40)).map(StoredProperties)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    draft = draw(strategies.drafts())
    if draw(st.booleans()):
        draft = with_(draft, properties=draw(hostile_properties()))
    shape = draw(st.integers(0, 3))
    if shape == 1:
        _, packed, sys_flag = draw(strategies.compressed_bodies())
        draft = with_(draft, body=packed, sys_flag=sys_flag & ~(INNER_BATCH | NEED_UNWRAP))
    elif shape == 2:
        inner = draw(st.lists(strategies.messages(), max_size=3))
        draft = with_(draft, body=encode_batch(inner), sys_flag=draft.sys_flag | INNER_BATCH | NEED_UNWRAP)
    else:
        draft = with_(draft, sys_flag=draft.sys_flag & ~INNER_BATCH)
    place = PhysicalOffset(draw(st.integers(0, 2**63 - 1)))
    return encode(draft, QueueOffset(draw(st.integers(0, 2**62))), place, EpochMs(5), stamped=draw(st.booleans()))


def with_(draft: Draft, **changes: Any) -> Draft:
    return replace(draft, **changes)


@settings(max_examples=80, deadline=None)
@given(st.lists(records(), max_size=8))
def test_whole_records(found: list[bytes]) -> None:
    compare(b"".join(found))


@settings(max_examples=80, deadline=None)
@given(st.lists(records(), min_size=1, max_size=4), st.data())
def test_bent_records(found: list[bytes], data: st.DataObject) -> None:
    buffer = bytearray(b"".join(found))
    for _ in range(data.draw(st.integers(1, 3))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    compare(bytes(buffer[: data.draw(st.integers(0, len(buffer)))]))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_junk(buffer: bytes) -> None:
    compare(buffer)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(records(), st.integers(8, 200)), min_size=1, max_size=5))
def test_fillers_are_passed_over(found: list[tuple[bytes, int]]) -> None:
    with_fillers = b"".join(record + blank(size).ljust(size, b"\0") for record, size in found)
    without = b"".join(record for record, _ in found)
    reference = expected(without)
    if reference is not None:
        assert rows(decode_columns(with_fillers, NAMES, broker="broker-a", blanks=True)) == rows(reference)


@pytest.mark.parametrize("seed", range(3))
def test_many_records_of_changing_sizes(seed: int) -> None:
    chance = random.Random(seed)
    made = []
    for number in range(3000):
        same = chance.random() < 0.9
        body = b"x" * (100 if same else chance.randrange(200))
        properties = StoredProperties(b"KEYS\x01k%d\x02TAGS\x01t\x02" % (0 if same else number))
        draft = Draft("orders", 1, body, properties, EpochMs(1), V4, V4)
        made.append(encode(draft, QueueOffset(number), PhysicalOffset(number * 7), EpochMs(2)))
    compare(b"".join(made))
