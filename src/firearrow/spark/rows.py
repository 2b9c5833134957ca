"""Rows of a DataFrame -> messages for a topic, each with an identity and a queue that follows from it. Pure.

Columns that mean something (any other is ignored): ``body`` (binary or string, must not be null), ``topic``, ``keys``
(string, or array of strings), ``tags``, ``properties`` (map of strings), ``sharding_key``, ``delay_level``,
``delay_ms``, ``deliver_timestamp``, ``row_id``, ``target_queue`` (the number of a queue, modulo their number).

Invariants: the same row of the same batch always has the same identity; the same identity and the same list of queues
give the same queue; rows of one partition that share a queue keep their order. Properties that brokers and clients
write themselves are not taken over from a row that was read from a topic: the message gets its own.
"""

import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Struct

from firearrow.client.producer.selector import queue_of_key
from firearrow.errors import IllegalMessage, SettingsError
from firearrow.model import Message, MessageQueue, keys

ROW_ID_PROPERTY: Final = "FIREARROW_ROW_ID"
"""The property that carries the identity of a row, by which a consumer can tell a repeat."""

_KEPT: Final = frozenset({keys.KEYS, keys.TAGS, keys.WAIT, keys.CORRELATION_ID, keys.REPLY_TO_CLIENT, keys.TTL})
NOT_TAKEN_OVER: Final = (keys.RESERVED - _KEPT) | {
    keys.TRACE_CONTEXT, keys.TRANSACTION_ID, keys.TRANSACTION_CHECK_TIMES, keys.TRANS_OFFSET, keys.REDIRECT,
    keys.FORWARD_QUEUE_ID, keys.INNER_NUM, keys.INNER_BASE, keys.INNER_MULTI_DISPATCH, keys.TIMER_ROLL_LABEL,
    keys.POP_CK, keys.CHECK_IMMUNITY_TIME, ROW_ID_PROPERTY,
}  # fmt: skip
"""Properties of a row that was read from a topic which describe that message and not a copy of it."""

_TEXT: Final = (pa.types.is_string, pa.types.is_large_string)
_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary)


class Origin(Struct, frozen=True):
    """Where in a job rows are being written: query or write, batch and partition."""

    query: str
    batch: int
    partition: int

    def identity(self, ordinal: int, body: bytes) -> str:
        """The identity of a row that brings none: its place, and a hash of its content."""
        digest = blake2b(body, digest_size=8).hexdigest()
        return f"{self.query}:{self.batch}:{self.partition}:{ordinal}:{digest}"


class RowShape(Struct, frozen=True):
    """Where the parts of a message come from."""

    topic: str = ""
    identity_columns: tuple[str, ...] = ()

    def check(self, names: Sequence[str]) -> None:
        """Raise ``SettingsError`` unless columns of these names can become messages."""
        if "body" not in names:
            raise SettingsError(f"the sink needs a column 'body'; the rows have {', '.join(names)}")
        if not self.topic and "topic" not in names:
            raise SettingsError("the sink needs a topic: set option 'topic', or give the rows a column 'topic'")
        missing = [name for name in self.identity_columns if name not in names]
        if missing:
            raise SettingsError(f"option identityColumns names {', '.join(missing)}, which the rows do not have")


class Row(NamedTuple):
    """A message, and the number of the queue that its row asks for, if any."""

    message: Message
    queue: int | None = None


def messages_of(batch: pa.RecordBatch, shape: RowShape, origin: Origin, first_ordinal: int) -> list[Row]:
    """The messages of a batch of rows, in order."""
    count = batch.num_rows
    bodies = _bodies(batch)
    topics = [shape.topic] * count if shape.topic else _values(batch, "topic")
    given = _values(batch, "properties")
    parts = _named_parts(batch)
    identities = _identities(batch, shape)
    targets = _values(batch, "target_queue")
    found = []
    for row in range(count):
        body, topic = bodies[row], topics[row]
        if body is None or not topic:
            what = "body" if body is None else "topic"
            raise IllegalMessage(f"row {first_ordinal + row} of partition {origin.partition} has no {what}: it is null")
        properties = {name: value for name, value in given[row] or () if name not in NOT_TAKEN_OVER}
        for name, values in parts:
            value = values[row]
            if value is not None and value != "":
                properties[name] = value
        identity = identities[row] if identities else None
        properties[ROW_ID_PROPERTY] = identity or origin.identity(first_ordinal + row, body)
        found.append(Row(Message(topic, body, properties), targets[row]))
    return found


def queue_for(row: Row, queues: Sequence[MessageQueue]) -> MessageQueue:
    """The queue of a row: the one it asks for, else by its sharding key as clients choose, else by its identity."""
    message, wanted = row
    if wanted is not None:
        return queues[wanted % len(queues)]
    key = message.properties.get(keys.SHARDING_KEY)
    if key:
        return queue_of_key(queues, key)
    return queues[zlib.crc32(message.properties[ROW_ID_PROPERTY].encode()) % len(queues)]


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    values: list[Any] = batch.column(name).to_pylist()
    return values


def _bodies(batch: pa.RecordBatch) -> list[bytes | None]:
    column = batch.column("body")
    if any(is_text(column.type) for is_text in _TEXT):
        column = column.cast(pa.binary())
    elif not any(is_bytes(column.type) for is_bytes in _BYTES):
        raise SettingsError(f"column 'body' is {column.type}; cast it to binary or string")
    bodies: list[bytes | None] = column.to_pylist()
    return bodies


def _named_parts(batch: pa.RecordBatch) -> list[tuple[str, list[str | None]]]:
    """What the columns with a meaning set, as properties."""
    names = batch.schema.names
    parts: list[tuple[str, list[str | None]]] = []
    if "keys" in names:
        parts.append((keys.KEYS, [_joined(value) for value in batch.column("keys").to_pylist()]))
    for column, name in (("tags", keys.TAGS), ("sharding_key", keys.SHARDING_KEY)):
        if column in names:
            parts.append((name, batch.column(column).to_pylist()))
    for column, name in (("delay_level", keys.DELAY), ("delay_ms", keys.TIMER_DELAY_MS)):
        if column in names:
            parts.append((name, [str(value) if value else None for value in batch.column(column).to_pylist()]))
    if "deliver_timestamp" in names:
        at = batch.column("deliver_timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        parts.append((keys.TIMER_DELIVER_MS, [str(value) if value else None for value in at.to_pylist()]))
    return parts


def _joined(value: "str | list[str] | None") -> str | None:
    return keys.KEY_SEPARATOR.join(value) if isinstance(value, list) else value


def _identities(batch: pa.RecordBatch, shape: RowShape) -> list[str | None] | None:
    if not shape.identity_columns:
        return batch.column("row_id").cast(pa.string()).to_pylist() if "row_id" in batch.schema.names else None
    columns = [batch.column(name).to_pylist() for name in shape.identity_columns]
    if len(columns) == 1:
        return [None if value is None else _text(value) for value in columns[0]]
    return [msgspec.json.encode([_text(value) for value in row]).decode() for row in zip(*columns, strict=True)]


def _text(value: Any) -> str:  # noqa: ANN401 - any column may be part of an identity
    return value.hex() if isinstance(value, bytes) else str(value)


class Lane(Struct, frozen=True):
    """Messages for one queue, in order."""

    queue: MessageQueue
    messages: list[Message]


def lanes_of(rows: Sequence[Row], queues: Mapping[str, tuple[MessageQueue, ...]]) -> list[Lane]:
    """The messages of each queue, in order."""
    lanes: dict[MessageQueue, list[Message]] = {}
    for row in rows:
        lanes.setdefault(queue_for(row, queues[row.message.topic]), []).append(row.message)
    return [Lane(queue, members) for queue, members in lanes.items()]
