"""Rows of a DataFrame as messages: what their columns mean. Pure.

Known columns (others are ignored): ``body`` (binary or string, must not be null), ``topic``, ``keys``
(string, or array of strings), ``tags``, ``properties`` (map of strings), ``sharding_key``, ``delay_level``,
``delay`` (interval), ``deliver_at`` (timestamp), ``row_id``, ``target_queue`` (the number of a queue, modulo their
number).

Properties that brokers and clients set themselves are not copied from a row that was read from a topic. A null or empty
property is left out. A column of its own comes before the property that it becomes: a row with ``tags`` has that tag,
whatever ``TAGS`` its properties have.

`messages_of` makes messages one by one, for the few that must be sent alone; `shipments` makes batches of the others,
with the same parts.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from firearrow.columns.batch_entries import as_binary
from firearrow.errors import IllegalMessage, SettingsError
from firearrow.model import Message, keys

ROW_ID_PROPERTY: Final = keys.ROW_ID
"""The property with the identity of a row, by which our broker stores it once and a consumer recognises a repeat."""

KEEP: Final = "keep"
TAG_SEPARATOR: Final = "||"
EVERY_TAG: Final = "*"
CUT_OFF: Final = "".join(sign for sign in map(chr, range(0x3001)) if sign <= " " or sign.isspace())
"""Characters that subscriptions of Java's clients (``String.trim``) or of ours cut off around a tag."""
_KEPT: Final = frozenset({keys.KEYS, keys.TAGS, keys.WAIT, keys.CORRELATION_ID, keys.REPLY_TO_CLIENT, keys.TTL})
NOT_TAKEN_OVER: Final = (keys.RESERVED - _KEPT) | {
    keys.TRACE_CONTEXT, keys.TRANSACTION_ID, keys.TRANSACTION_CHECK_TIMES, keys.TRANS_OFFSET, keys.REDIRECT,
    keys.FORWARD_QUEUE_ID, keys.INNER_NUM, keys.INNER_BASE, keys.INNER_MULTI_DISPATCH, keys.TIMER_ROLL_LABEL,
    keys.POP_CK, keys.CHECK_IMMUNITY_TIME, ROW_ID_PROPERTY, keys.ROW_REPEATS,
}  # fmt: skip
"""Properties that describe the message a row was read from, and must not be copied to a new message."""

DELAYS: Final = (
    ("delay_level", keys.DELAY),
    ("delay", keys.TIMER_DELAY_MS),
    ("deliver_at", keys.TIMER_DELIVER_MS),
)
"""The columns that delay a message, and the properties they become."""

_TEXT: Final = (pa.types.is_string, pa.types.is_large_string)
_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary)


class Origin(Struct, frozen=True):
    """The position of a task in its job: query or write, batch and partition."""

    query: str
    batch: int
    partition: int


class RowShape(Struct, frozen=True):
    """The sources of a message's parts: columns and options."""

    topic: str = ""
    identity_columns: tuple[str, ...] = ()
    keeps_repeats: bool = False
    """Whether brokers are asked to store a row also when its queue holds it already."""

    def check(self, names: Sequence[str]) -> None:
        """Raise ``SettingsError`` unless columns of these names can become messages."""
        if "body" not in names:
            raise SettingsError(f"the sink needs a column 'body'; the rows have {', '.join(names)}")
        if not self.topic and "topic" not in names:
            raise SettingsError("the sink needs a topic: set option 'topic', or give the rows a column 'topic'")
        missing = [name for name in self.identity_columns if name not in names]
        if missing:
            raise SettingsError(f"option identityColumns names {', '.join(missing)}, which the rows do not have")


def messages_of(batch: pa.RecordBatch, shape: RowShape, identities: Sequence[str]) -> list[Message]:
    """Return the messages of checked rows (`check_rows`), in order."""
    count = batch.num_rows
    bodies: list[bytes] = bodies_of(batch).to_pylist()
    topics = [shape.topic] * count if shape.topic else _values(batch, "topic")
    given = _values(batch, "properties")
    parts = [(name, values.to_pylist()) for name, values in (*named_parts(batch), *delays_of(batch))]
    found = []
    for row in range(count):
        properties = {name: value for name, value in given[row] or () if value and name not in NOT_TAKEN_OVER}
        for name, values in parts:
            value = values[row]
            if value:
                properties[name] = value
        properties[ROW_ID_PROPERTY] = identities[row]
        if shape.keeps_repeats:
            properties[keys.ROW_REPEATS] = KEEP
        found.append(Message(topics[row], bodies[row], properties))
    return found


def check_rows(batch: pa.RecordBatch, shape: RowShape, origin: Origin, first_ordinal: int) -> None:
    """Raise ``IllegalMessage`` when a row has no body or no topic, or a tag that no subscription can name."""
    check_tags(batch)
    lacking = {"body": batch.column("body").is_null()}
    if not shape.topic:
        topics = batch.column("topic")
        lacking["topic"] = pc.or_kleene(topics.is_null(), pc.equal(topics, ""))
    first = {what: pc.index(missing, value=True).as_py() for what, missing in lacking.items()}
    rows = [(row, what) for what, row in first.items() if row >= 0]
    if rows:
        row, what = min(rows)
        raise IllegalMessage(f"row {first_ordinal + row} of partition {origin.partition} has no {what}: it is null")


def bodies_of(batch: pa.RecordBatch) -> pa.Array:
    """The bodies as bytes."""
    column = batch.column("body")
    if not any(is_kind(column.type) for is_kind in _TEXT + _BYTES):
        raise SettingsError(f"column 'body' is {column.type}; cast it to binary or string")
    return as_binary(column)


def named_parts(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    """Return the parts of messages from the known columns, as columns of text; empty or null where not set."""
    names = batch.schema.names
    parts: list[tuple[str, pa.Array]] = []
    for column, name in (("keys", keys.KEYS), ("tags", keys.TAGS), ("sharding_key", keys.SHARDING_KEY)):
        if column in names:
            values = batch.column(column)
            is_list = pa.types.is_list(values.type) or pa.types.is_large_list(values.type)
            parts.append((name, _joined(values) if is_list else values.cast(pa.large_string())))
    return parts


def check_tags(batch: pa.RecordBatch) -> None:
    """Raise ``IllegalMessage`` for a tag that no subscription can name.

    ``a||b`` subscribes to two tags, ``*`` to all of them, and spaces around a tag are cut off.
    """
    for where, values in _tags(batch):
        is_cut = pc.not_equal(values, pc.utf8_trim(values, characters=CUT_OFF))
        wrong = pc.or_(pc.or_(pc.match_substring(values, TAG_SEPARATOR), pc.equal(values, EVERY_TAG)), is_cut)
        found = pc.index(wrong, value=True).as_py()
        if found >= 0:
            raise IllegalMessage(
                f"{where} has {values[found].as_py()!r}, which no subscription could name: {TAG_SEPARATOR} joins the "
                f"tags of a subscription, {EVERY_TAG} means every tag, and spaces around a tag are cut off; give one "
                "plain tag, or use properties"
            )


def _tags(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    """Return the tags of messages by where they come from: the column, or where it has none, the properties."""
    column = dict(named_parts(batch)).get(keys.TAGS)
    found = [] if column is None else [("column 'tags'", column)]
    properties = batch.column("properties") if "properties" in batch.schema.names else None
    if properties is not None and pa.types.is_map(properties.type):
        name = pa.scalar(keys.TAGS, properties.type.key_type)
        values = pc.map_lookup(properties, name, "last").cast(pa.large_string())
        if column is not None:
            has_tag = pc.fill_null(pc.not_equal(column, ""), fill_value=False)
            values = pc.if_else(has_tag, None, values)
        found.append((f"{keys.TAGS} in column 'properties'", values))
    return found


def _joined(lists: pa.Array) -> pa.Array:
    # Spark may declare elements as not null, but Arrow joins only lists with nullable elements.
    lists = lists.cast(pa.list_(pa.string()))
    if lists.flatten().null_count:
        known = [None if words is None else [word for word in words if word is not None] for words in lists.to_pylist()]
        lists = pa.array(known, pa.list_(pa.string()))
    return pc.binary_join(lists, keys.KEY_SEPARATOR).cast(pa.large_string())


def delays_of(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    """Return the delays of messages, as columns of text; null where not set."""
    parts: list[tuple[str, pa.Array]] = []
    for column, name in DELAYS:
        if column in batch.schema.names:
            values = _milliseconds(column, batch.column(column))
            parts.append((name, pc.if_else(pc.not_equal(values, 0), values, None).cast(pa.large_string())))
    _check_single(parts)
    return parts


def _check_single(parts: list[tuple[str, pa.Array]]) -> None:
    """Raise ``IllegalMessage`` when a row has two delays."""
    given = [values.is_valid().cast(pa.int8()) for _, values in parts]
    for place, values in enumerate(given[1:], 1):
        if any((pc.max(pc.add(values, before)).as_py() or 0) > 1 for before in given[:place]):
            names = " or ".join(column for column, _ in DELAYS)
            raise IllegalMessage(f"a row has two delays; give one of {names}, and null in the other columns")


def _milliseconds(column: str, values: pa.Array) -> pa.Array:
    """Return the values of a delay column in its own unit: milliseconds, or levels."""
    kind = values.type
    if column == "deliver_at":
        if not pa.types.is_timestamp(kind):
            raise SettingsError(f"column 'deliver_at' is {kind}; make it a timestamp, as timestamp_millis(...) does")
        if kind.tz is None:
            raise SettingsError(
                "column 'deliver_at' has no time zone; cast it to timestamp, as CAST(... AS TIMESTAMP) does"
            )
        return _rounded_up(values)
    if column == "delay":
        if not pa.types.is_duration(kind):
            raise SettingsError(
                f"column 'delay' is {kind}; make it an interval, as make_dt_interval(0, 0, 0, seconds) does"
            )
        if (pc.min(values.cast(pa.int64())).as_py() or 0) < 0:
            raise IllegalMessage("column 'delay' has a negative interval; give intervals from 0 on, or null")
        return _rounded_up(values)
    levels = values.cast(pa.int64())
    if (pc.min(levels).as_py() or 0) < 0:
        raise IllegalMessage("column 'delay_level' has a negative level; give levels from 1 on, or 0 or null for none")
    return levels


def _rounded_up(values: pa.Array) -> pa.Array:
    """Return times or durations in milliseconds: never early."""
    parts = {"s": 0, "ms": 1, "us": 1_000, "ns": 1_000_000}[values.type.unit]
    numbers = values.cast(pa.int64())
    return pc.divide(pc.add(numbers, parts - 1), parts) if parts else pc.multiply(numbers, 1000)


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    values: list[Any] = batch.column(name).to_pylist()
    return values
