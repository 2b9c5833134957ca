"""Which of two versions of a row is the later one. Pure.

The order, from the first that tells two versions apart:

1. the column ``_version``, if the table has one (null is the earliest),
2. in one queue: the queue offset,
3. in different queues: the store timestamp, then topic, broker and queue id.

A table that keeps the last version of every key by this order does not depend on how the topic was cut into batches, if
a key stays in one queue, or if the clocks of the brokers do not run backwards.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

VERSION: Final = "_version"
PLACE: Final = ("_topic", "_broker", "_queue_id", "_queue_offset", "_store_timestamp")
"""Columns of a row that say where its version stands in its topic."""


class Place(NamedTuple):
    """Where a version of a row stands."""

    version: Any
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    store_timestamp: Any

    def is_after(self, other: "Place") -> bool:
        """Whether this version is later than another."""
        if self.version != other.version:
            return other.version is None or (self.version is not None and self.version > other.version)
        if self[1:4] == other[1:4]:
            return self.queue_offset > other.queue_offset
        return (self.store_timestamp, *self[1:4]) > (other.store_timestamp, *other[1:4])


def order_columns(names: Sequence[str]) -> list[str]:
    """The columns among these that order versions."""
    return [name for name in (VERSION, *PLACE) if name in names]
