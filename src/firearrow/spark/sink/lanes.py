"""Chooses the queue of each row, and which rows share a batch. Pure.

The queue is the one that the row asks for (``target_queue``, modulo their number), else that of its sharding key as
clients choose it, else that of its identity: CRC-32 modulo the number of queues. The same identity and the same list
of queues give the same queue.

Rows of one queue keep their order. Neighbouring rows of a queue share a batch while the rules allow it (`BatchRules`)
and the batch has room; a single row is sent as a plain message, not as a batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from firearrow.client.producer.selector import number_of_key
from firearrow.columns.batch_entries import Bools
from firearrow.columns.starts import Ints
from firearrow.model import MessageQueue
from firearrow.record.batch import MAX_BATCH_MESSAGES

Queues = Mapping[str, tuple[MessageQueue, ...]]
"""The queues of topics."""


class Rows(Struct, frozen=True):
    """The columns that decide the queues of rows."""

    topics: pa.Array | str
    identities: pa.Array
    sharding_keys: pa.Array | None = None
    targets: pa.Array | None = None


class QueueChoice(Struct, frozen=True):
    """Queues, and for each row the index of its queue."""

    queues: tuple[MessageQueue, ...]
    numbers: Ints


def choose(rows: Rows, queues: Queues) -> QueueChoice:
    """The queue of each row."""
    if isinstance(rows.topics, str):
        mine = queues[rows.topics]
        return QueueChoice(mine, _places(rows, np.full(len(rows.identities), len(mine))))
    coded = rows.topics.dictionary_encode()
    several = [queues[topic] for topic in coded.dictionary.to_pylist()]
    counts = np.array([len(each) for each in several], np.int64)
    begins = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)[:-1]))
    topic: Ints = coded.indices.to_numpy()
    together = tuple(queue for each in several for queue in each)
    return QueueChoice(together, begins[topic] + _places(rows, counts[topic]))


def _places(rows: Rows, counts: Ints) -> Ints:
    """Return the queue index of each row among the queues of its topic."""
    hashes = np.fromiter(map(crc32, rows.identities.to_pylist()), np.int64, len(rows.identities))
    places: Ints = hashes % counts
    if rows.sharding_keys is not None:
        _place_by_key(places, rows.sharding_keys, counts)
    if rows.targets is not None:
        asked = rows.targets.is_valid().to_numpy(zero_copy_only=False)
        places[asked] = rows.targets.drop_null().to_numpy().astype(np.int64) % counts[asked]
    return places


def _place_by_key(places: Ints, sharding_keys: pa.Array, counts: Ints) -> None:
    coded = sharding_keys.cast(pa.string()).dictionary_encode()
    words: list[str] = coded.dictionary.to_pylist()
    code: Ints = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    for count in np.unique(counts).tolist():
        chosen = np.array([number_of_key(word, count) if word else -1 for word in words] + [-1])[code]
        is_chosen = (chosen >= 0) & (counts == count)
        places[is_chosen] = chosen[is_chosen]


class BatchRules(Struct, frozen=True):
    """The rows that may share a batch: those that need not be sent alone, with neighbours of the same WAIT property."""

    alone: Bools
    waits: tuple[str | None, ...] = (None,)
    wait: Ints | None = None
    """For each row the number of its WAIT; all have the first when there is no such column."""

    def wait_of(self, row: int) -> str | None:
        """Return the WAIT property of a row."""
        return self.waits[0 if self.wait is None else int(self.wait[row])]


class RowSpan(Struct, frozen=True):
    """Rows of one request: from ``first`` to ``end`` (exclusive), counted in the order of the queues."""

    queue: int
    first: int
    end: int


def spans(numbers: Ints, rules: BatchRules, offsets: Ints, most_bytes: int) -> Iterator[RowSpan]:
    """Return the spans of requests, in the order of the queues; ``offsets`` are those of the encoded messages."""
    count = len(numbers)
    if not count:
        return
    is_apart: npt.NDArray[Any] = (numbers[1:] != numbers[:-1]) | rules.alone[1:] | rules.alone[:-1]
    if rules.wait is not None:
        is_apart |= rules.wait[1:] != rules.wait[:-1]
    begins = [0, *(np.flatnonzero(is_apart) + 1).tolist(), count]
    for first, last in pairwise(begins):
        queue = int(numbers[first])
        while first < last:
            full = int(np.searchsorted(offsets, offsets[first] + most_bytes, side="right")) - 1
            end = min(max(full, first + 1), first + MAX_BATCH_MESSAGES, last)
            yield RowSpan(queue, first, end)
            first = end


def order_of(numbers: Ints) -> Ints:
    """Return the rows sorted by queue, keeping their order within a queue."""
    order: Ints = np.argsort(numbers, kind="stable")
    return order


def by_queue(found: Sequence[RowSpan]) -> Iterator[tuple[int, list[RowSpan]]]:
    """The spans of each queue."""
    lanes: dict[int, list[RowSpan]] = {}
    for span in found:
        lanes.setdefault(span.queue, []).append(span)
    yield from lanes.items()
