"""The order of the versions of a row. Pure.

The order, from the first that tells two versions apart:

1. the column ``_version``, if the table has one (null is the earliest),
2. in one queue: the queue offset,
3. in different queues: the store timestamp, then topic, broker and queue id.

A table that keeps the last version of every key by this order does not depend on how the topic was cut into batches, if
a key stays in one queue, or if the clocks of the brokers do not run backwards.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from firearrow.spark.lake.keys import DELETED, keys_of

VERSION: Final = "_version"
PLACE: Final = ("_topic", "_broker", "_queue_id", "_queue_offset", "_store_timestamp")
"""Columns of a row that say where its version stands in its topic."""


class RowPlace(NamedTuple):
    """The place of a version of a row in the order."""

    version: Any
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    store_timestamp: Any

    def is_after(self, other: "RowPlace") -> bool:
        """Whether this version is later than another."""
        if self.version != other.version:
            return other.version is None or (self.version is not None and self.version > other.version)
        if self[1:4] == other[1:4]:
            return self.queue_offset > other.queue_offset
        return (self.store_timestamp, *self[1:4]) > (other.store_timestamp, *other[1:4])


def order_columns(names: Sequence[str]) -> list[str]:
    """The columns among these that order versions."""
    return [name for name in (VERSION, *PLACE) if name in names]


def places_of(rows: pa.Table) -> Iterator[RowPlace]:
    """Return the place of every row's version."""
    columns = [
        rows.column(name).to_pylist() if name in rows.schema.names else [None] * rows.num_rows
        for name in (VERSION, *PLACE)
    ]
    return (RowPlace(*values) for values in zip(*columns, strict=True))


def later(rows: pa.Table, key: Sequence[str], known: pa.Table) -> pa.Table:
    """The rows that are later than the known ones of their keys."""
    places = dict(zip(keys_of(known, key), places_of(known), strict=True))
    kept = [
        name not in places or place.is_after(places[name])
        for name, place in zip(keys_of(rows, key), places_of(rows), strict=True)
    ]
    return rows.filter(pa.array(kept, pa.bool_()))


def ended(rows: pa.Table, key: Sequence[str], deleted: pa.Table) -> pa.Table:
    """The same rows; one whose key was deleted later is that deletion, so that an older row of a table ends with it."""
    places = dict(zip(keys_of(deleted, key), places_of(deleted), strict=True))
    over = [
        name in places and places[name].is_after(place)
        for name, place in zip(keys_of(rows, key), places_of(rows), strict=True)
    ]
    if not any(over):
        return rows
    lost = [name for name, is_over in zip(keys_of(rows, key), over, strict=True) if is_over]
    order = (VERSION, *PLACE)
    deletions = [
        {**dict(zip(order, places[name], strict=True)), **dict(zip(key, name, strict=True)), DELETED: True}
        for name in lost
    ]
    kept = rows.filter(pa.array([not is_over for is_over in over], pa.bool_()))
    return pa.concat_tables([kept, pa.Table.from_pylist(deletions, rows.schema)])
