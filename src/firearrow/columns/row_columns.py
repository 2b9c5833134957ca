"""Every column of a row: its type, and how it is made from the heads of records and their bytes."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firearrow.columns.bodies import Bodies, Treatment, bodies_of
from firearrow.columns.heads import Heads, refuse
from firearrow.columns.hosts import host_texts, message_ids
from firearrow.columns.properties import Properties
from firearrow.columns.slices import numbers, slices
from firearrow.model import keys
from firearrow.model.flags import COMPRESSED, TRANSACTION_MASK

TIME: Final = pa.timestamp("us", "UTC")
TYPES: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "broker": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "physical_offset": pa.int64(),
    "message_id": pa.string(),
    "unique_key": pa.string(),
    "keys": pa.string(),
    "tags": pa.string(),
    "body": pa.binary(),
    "properties": pa.map_(pa.string(), pa.string()),
    "born_timestamp": TIME,
    "store_timestamp": TIME,
    "born_host": pa.string(),
    "store_host": pa.string(),
    "flag": pa.int32(),
    "sys_flag": pa.int32(),
    "reconsume_times": pa.int32(),
    "delay_level": pa.int32(),
    "transaction_state": pa.string(),
    "prepared_transaction_offset": pa.int64(),
    "body_crc": pa.int32(),
    "store_size": pa.int32(),
    "row_id": pa.string(),
}
"""Every column and its type."""

TRANSACTION_STATES: Final = ("NONE", "PREPARED", "COMMIT", "ROLLBACK")
NAMED_PROPERTIES: Final = {"unique_key": keys.UNIQ_KEY, "keys": keys.KEYS, "tags": keys.TAGS}
_INT_FIELDS: Final = {
    "queue_id": "queue_id",
    "flag": "flag",
    "reconsume_times": "reconsume_times",
    "body_crc": "body_crc",
    "store_size": "size",
}
_LONG_FIELDS: Final = ("queue_offset", "physical_offset", "prepared_transaction_offset")
MOST_MS: Final = (1 << 63) // 1000 - 1
_LONGEST_LEVEL: Final = 9


def schema_of(names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of some columns."""
    return pa.schema([(name, TYPES[name]) for name in names])


def plain_columns(
    heads: Heads, names: Sequence[str], *, broker: str, treatment: Treatment, bodies: Bodies | None = None
) -> pa.RecordBatch:
    """Return the columns ``names``, a row for each record; ``bodies`` if they are made already."""
    making = _ColumnMaker(heads, broker, treatment, bodies)
    return pa.RecordBatch.from_arrays([making.column(name) for name in names], schema=schema_of(names))


def needs_bodies(names: Sequence[str], treatment: Treatment) -> bool:
    """Whether some columns need inflated bodies; sysFlag does, because it marks bodies that did not inflate."""
    return "body" in names or ("sys_flag" in names and treatment.keep_bad)


class _ColumnMaker:
    """The columns of one buffer; parts that several columns need are made once."""

    def __init__(self, heads: Heads, broker: str, treatment: Treatment, bodies: Bodies | None) -> None:
        self.heads = heads
        self.broker = broker
        self.treatment = treatment
        self._bodies = bodies

    @cached_property
    def properties(self) -> Properties:
        """The properties, parsed."""
        return Properties(self.heads)

    @cached_property
    def topics(self) -> pa.Array:
        """The topics."""
        return topics_of(self.heads)

    @cached_property
    def bodies(self) -> Bodies:
        """The bodies, inflated."""
        return self._bodies or bodies_of(self.heads, self.treatment)

    def column(self, name: str) -> pa.Array:
        """One column."""
        heads = self.heads
        if name in _INT_FIELDS:
            return numbers(heads.field(_INT_FIELDS[name], np.int32), pa.int32())
        if name in _LONG_FIELDS:
            return numbers(heads.longs(name), pa.int64())
        if name in NAMED_PROPERTIES:
            return self.properties.named(NAMED_PROPERTIES[name])
        return _MAKERS[name](self)

    def sys_flags(self) -> pa.Array:
        """The sysFlags, as they are after inflating."""
        flags = self.heads.field("sys_flag", np.int32).view(np.int32)
        if self.treatment.max_body_bytes is not None and (flags & COMPRESSED).any():
            flags = self.bodies.sys_flags if self.treatment.keep_bad else flags & ~COMPRESSED
        return numbers(flags, pa.int32())

    def times(self, field: str) -> pa.Array:
        """A time."""
        return numbers(np.clip(self.heads.longs(field), -MOST_MS, MOST_MS) * 1000, TIME)

    def delay_levels(self) -> pa.Array:
        """Return the delay levels in the properties."""
        named = self.properties.named(keys.DELAY)
        if named.null_count == len(named):
            return pa.nulls(len(named), pa.int32())
        encoded = named.dictionary_encode()
        levels = [level_of(text) for text in encoded.dictionary.to_pylist()]
        return pa.array(levels, pa.int32()).take(encoded.indices)

    def transaction_states(self) -> pa.Array:
        """Return the transaction states as words."""
        states = (self.heads.longs("sys_flag") & TRANSACTION_MASK) >> 2
        return pa.array(TRANSACTION_STATES, pa.string()).take(numbers(states, pa.int64()))

    def row_ids(self) -> pa.Array:
        """Return the ids of the rows."""
        fields = ("queue_id", "queue_offset", "physical_offset")
        queue, offset, place = (numbers(self.heads.longs(each), pa.int64()).cast(pa.string()) for each in fields)
        broker = pa.scalar(self.broker, pa.string())
        return pc.binary_join_element_wise(
            pc.binary_join_element_wise(broker, self.topics, queue, offset, "/"), place, "@"
        )


_MAKERS: Final[dict[str, Callable[[_ColumnMaker], pa.Array]]] = {
    "topic": lambda making: making.topics,
    "broker": lambda making: pa.repeat(pa.scalar(making.broker, pa.string()), len(making.heads)),
    "message_id": lambda making: message_ids(making.heads),
    "body": lambda making: making.bodies.column,
    "properties": lambda making: making.properties.as_map(),
    "born_timestamp": lambda making: making.times("born_timestamp"),
    "store_timestamp": lambda making: making.times("store_timestamp"),
    "born_host": lambda making: host_texts(making.heads, "born_host"),
    "store_host": lambda making: host_texts(making.heads, "store_host"),
    "sys_flag": _ColumnMaker.sys_flags,
    "delay_level": _ColumnMaker.delay_levels,
    "transaction_state": _ColumnMaker.transaction_states,
    "row_id": _ColumnMaker.row_ids,
}


def topics_of(heads: Heads) -> pa.Array:
    """Return the topics; raise `BadRecord` for the first that is not UTF-8."""
    topics = slices(heads.data, heads.topic_starts, heads.topic_ends, pa.string())
    try:
        topics.validate(full=True)
    except pa.ArrowInvalid:
        refuse(heads.data, heads.starts)
    return topics


def level_of(text: str | None) -> int | None:
    """Return a delay level; None if the text is not one."""
    if text is None or not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > _LONGEST_LEVEL:
        return None
    return int(text)
