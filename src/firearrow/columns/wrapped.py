"""Buffers with records that hold a whole batch: their rows are made one by one.

Only topics with batch queues have such records. The other records of the buffer are decoded by columns; then all rows
are put in order. Tests compare columns with `messages_as_columns`.
"""

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from firearrow.columns.bodies import Treatment
from firearrow.columns.heads import Heads
from firearrow.columns.row_columns import (
    MOST_MS,
    NAMED_PROPERTIES,
    TRANSACTION_STATES,
    level_of,
    plain_columns,
    schema_of,
)
from firearrow.columns.slices import numbers
from firearrow.errors import BadBody, BadRecord
from firearrow.model import Host, PhysicalOffset, StoredMessage, keys
from firearrow.model.flags import COMPRESSED, INNER_BATCH, NEED_UNWRAP, TRANSACTION_MASK
from firearrow.record.batch import unwrap
from firearrow.record.decode import check_body, decode, peek
from firearrow.record.hosts import HostBytes
from firearrow.record.message_id import offset_message_id

_WRAPPED: Final = INNER_BATCH | NEED_UNWRAP


def is_wrapped(heads: Heads) -> npt.NDArray[np.bool_]:
    """Return which records hold a whole batch."""
    if len(heads) == 0:
        return np.zeros(0, bool)
    found: npt.NDArray[np.bool_] = (heads.longs("sys_flag") & _WRAPPED) == _WRAPPED
    return found


def unwrapped(
    heads: Heads, wrapped: npt.NDArray[np.bool_], names: Sequence[str], *, broker: str, treatment: Treatment
) -> pa.RecordBatch:
    """Return the columns of a buffer with batches unwrapped."""
    usual = plain_columns(Heads(heads.data, heads.starts[~wrapped]), names, broker=broker, treatment=treatment)
    messages: list[StoredMessage] = []
    places = np.zeros(len(heads), np.int64)
    counts = np.ones(len(heads), np.int64)
    for row in np.flatnonzero(wrapped).tolist():
        some = _messages_of(heads, int(heads.starts[row]), treatment)
        places[row], counts[row] = usual.num_rows + len(messages), len(some)
        messages += some
    places[~wrapped] = np.arange(usual.num_rows)
    both = pa.Table.from_batches([usual, messages_as_columns(messages, names, broker)]).combine_chunks()
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    order = numbers(np.repeat(places, counts) + within, pa.int64())
    table = both.take(order).combine_chunks()
    return table.to_batches()[0] if table.num_rows else messages_as_columns([], names, broker)


def _messages_of(heads: Heads, start: int, treatment: Treatment) -> list[StoredMessage]:
    """Return the messages of one record; the record itself if its body does not inflate and may be kept."""
    raw = heads.data.data
    head = peek(raw, start)
    if treatment.check_crc:
        check_body(raw, head)
    record = bytearray(raw[start : head.end])
    if not treatment.check_crc:
        record[8:12] = _crc_of(record, head.body_start - start, head.body_length)
    try:
        message = decode(bytes(record), max_body_bytes=treatment.max_body_bytes)
    except BadRecord as wrong:
        if not treatment.keep_bad:
            raise BadRecord(wrong.reason, offset=start) from wrong
        return [replace(decode(bytes(record), max_body_bytes=None), body_crc=head.body_crc)]
    message = replace(message, body_crc=head.body_crc)
    if message.sys_flag & COMPRESSED:
        return [message]
    try:
        return unwrap(message)
    except BadBody as wrong:
        if treatment.keep_bad:
            return [message]
        raise BadRecord(f"its batch does not parse: {wrong}", offset=start) from wrong


def _crc_of(record: bytearray, start: int, length: int) -> bytes:
    return (crc32(record[start : start + length]) & 0x7FFFFFFF).to_bytes(4, "big")


def messages_as_columns(messages: Sequence[StoredMessage], names: Sequence[str], broker: str) -> pa.RecordBatch:
    """Return messages as columns, made one by one."""
    schema = schema_of(names)
    columns = [
        pa.array([_value(message, name, broker) for message in messages], schema.field(name).type) for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _value(message: StoredMessage, name: str, broker: str) -> Any:  # noqa: ANN401 - of any column
    if name in NAMED_PROPERTIES:
        return message.properties.get(NAMED_PROPERTIES[name])
    made = _MADE.get(name)
    return getattr(message, name) if made is None else made(message, broker)


def _micros(time_ms: int) -> int:
    return max(-MOST_MS, min(MOST_MS, time_ms)) * 1000


def _message_id(message: StoredMessage) -> str:
    return offset_message_id(_host(message.store_host), PhysicalOffset(message.physical_offset % (1 << 64)))


def _row_id(message: StoredMessage, broker: str) -> str:
    return f"{broker}/{message.topic}/{message.queue_id}/{message.queue_offset}@{message.physical_offset}"


_MADE: Final[dict[str, Callable[[StoredMessage, str], Any]]] = {
    "properties": lambda message, _: list(message.properties.items()),
    "born_timestamp": lambda message, _: _micros(message.born_timestamp),
    "store_timestamp": lambda message, _: _micros(message.store_timestamp),
    "born_host": lambda message, _: str(message.born_host),
    "store_host": lambda message, _: str(message.store_host),
    "broker": lambda _, broker: broker,
    "message_id": lambda message, _: _message_id(message),
    "delay_level": lambda message, _: level_of(message.properties.get(keys.DELAY)),
    "transaction_state": lambda message, _: TRANSACTION_STATES[(message.sys_flag & TRANSACTION_MASK) >> 2],
    "row_id": _row_id,
}
"""Columns that are not attributes of a message under their own name."""


def _host(address: Host) -> HostBytes:
    """Return a host as its record has it; an IPv4-mapped IPv6 address stays as it is."""
    return HostBytes(ip_address(address.ip).packed + address.port.to_bytes(4, "big", signed=True))
