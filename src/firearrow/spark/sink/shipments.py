"""A batch of rows -> the requests to each queue, encoded by columns. Pure.

A *parcel* is one request: an encoded batch of many rows, or a single message that is sent alone, because it is delayed,
has no neighbour in its queue, or leaves no room for a second message. A *lane* is the parcels of one queue, in the
order of its rows.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from firearrow.client.producer.encoded import DrawnKeys, EncodedBatch
from firearrow.columns.batch_entries import MapFields, entries_of, fields, join_columns, of_width, offsets_of, sizes_of
from firearrow.columns.starts import Ints
from firearrow.errors import SettingsError
from firearrow.model import Message, MessageQueue, keys
from firearrow.model.names import is_retry_topic
from firearrow.record.message_id import DRAWN_DIGITS
from firearrow.spark.sink.identities import identities_of
from firearrow.spark.sink.lanes import BatchRules, Queues, Rows, RowSpan, by_queue, choose, order_of, spans
from firearrow.spark.sink.rows import (
    KEEP,
    NOT_TAKEN_OVER,
    ROW_ID_PROPERTY,
    Origin,
    RowShape,
    bodies_of,
    check_rows,
    delays_of,
    messages_of,
    named_parts,
)


class Parcel(Struct, frozen=True):
    """One request: an encoded batch, or a single message."""

    rows: int
    content: EncodedBatch | Message


class QueueLane(Struct, frozen=True):
    """Parcels for one queue, in order."""

    queue: MessageQueue
    parcels: list[Parcel]


class RowTable:
    """Rows whose messages are about to be made."""

    def __init__(self, batch: pa.RecordBatch, shape: RowShape, origin: Origin, first_ordinal: int) -> None:
        check_rows(batch, shape, origin, first_ordinal)
        self._batch = batch
        self._shape = shape
        self._bodies = bodies_of(batch)
        self._identities = identities_of(batch, self._bodies, shape, origin, first_ordinal)
        self._parts = named_parts(batch)
        self._mapped = self._map()

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def _map(self) -> MapFields | None:
        if "properties" not in self._batch.schema.names:
            return None
        column = self._batch.column("properties")
        if not pa.types.is_map(column.type):
            raise SettingsError(f"column 'properties' is {column.type}; it takes a map from string to string")
        mapped = MapFields(column)
        mapped.leave_out(sorted(NOT_TAKEN_OVER))
        for name, values in self._parts:
            mapped.leave_out([name], sizes_of(values) > 0)
        return mapped

    @property
    def topics(self) -> list[str]:
        """The topics of the rows."""
        if self._shape.topic:
            return [self._shape.topic]
        found: list[str] = self._batch.column("topic").unique().to_pylist()
        return found

    def lanes(self, queues: Queues, drawn: DrawnKeys, most_bytes: int) -> list[QueueLane]:
        """Return the parcels of each queue; ``drawn`` has a unique key for each row."""
        choice = choose(self._rows(), queues)
        order = order_of(choice.numbers)
        taken = pa.array(order)
        encoded = self._entries(drawn).take(taken)
        rules, offsets = self._batch_rules(order), offsets_of(encoded)
        found = list(spans(choice.numbers[order], rules, offsets, most_bytes))
        single = self._single([int(order[span.first]) for span in found if span.end - span.first == 1], drawn)
        data = encoded.buffers()[2]

        def parcel(span: RowSpan, topic: str) -> Parcel:
            count, begin, end = span.end - span.first, int(offsets[span.first]), int(offsets[span.end])
            if count == 1:
                return Parcel(1, single[int(order[span.first])])
            body = data.slice(begin, end - begin).to_pybytes()
            return Parcel(count, EncodedBatch(topic, body, drawn.born_timestamp, rules.wait_of(span.first)))

        return [
            QueueLane(queue, [parcel(span, queue.topic) for span in members])
            for number, members in by_queue(found)
            for queue in [choice.queues[number]]
        ]

    def _rows(self) -> Rows:
        names = self._batch.schema.names
        topics = self._shape.topic or self._batch.column("topic")
        targets = self._batch.column("target_queue") if "target_queue" in names else None
        return Rows(topics, self._identities, self._sharding_keys(), targets)

    def _sharding_keys(self) -> pa.Array | None:
        column = dict(self._parts).get(keys.SHARDING_KEY)
        mapped = self._mapped.values_of(keys.SHARDING_KEY) if self._mapped is not None else None
        if column is None or mapped is None:
            return mapped if column is None else column
        mapped = mapped.cast(column.type)
        return pc.if_else(pa.array(sizes_of(column) > 0), column, mapped)

    def _entries(self, drawn: DrawnKeys) -> pa.Array:
        properties = [] if self._mapped is None else [self._mapped.fields()]
        properties += [fields(name, values) for name, values in self._parts]
        properties.append(fields(ROW_ID_PROPERTY, self._identities))
        if self._shape.keeps_repeats:
            properties.append(fields(keys.ROW_REPEATS, pa.repeat(KEEP, len(self)).cast(pa.large_string())))
        unique = join_columns(drawn.head, of_width(drawn.ends, DRAWN_DIGITS))
        properties.append(fields(keys.UNIQ_KEY, unique))
        return entries_of(self._bodies, properties)

    def _batch_rules(self, order: Ints) -> BatchRules:
        """Return which rows may share a batch, in the order of the queues."""
        alone = np.zeros(len(self), np.bool_)
        for _, values in delays_of(self._batch):
            alone |= sizes_of(values) > 0
        retried = [topic for topic in self.topics if is_retry_topic(topic)]
        if retried:
            column = self._batch.column("topic") if not self._shape.topic else None
            is_retried = True if column is None else pc.is_in(column, value_set=pa.array(retried, column.type))
            alone |= np.asarray(is_retried)
        waits = self._mapped.values_of(keys.WAIT) if self._mapped is not None else None
        if waits is None:
            return BatchRules(alone[order])
        coded = waits.cast(pa.string()).dictionary_encode()
        said: list[str | None] = [*coded.dictionary.to_pylist(), None]
        wait = coded.indices.fill_null(len(said) - 1).to_numpy().astype(np.int64)
        return BatchRules(alone[order], tuple(said), wait[order])

    def _single(self, rows: Sequence[int], drawn: DrawnKeys) -> dict[int, Message]:
        """Return the messages of rows that are sent alone."""
        if not rows:
            return {}
        some = pa.array(rows, pa.int64())
        identities = [raw.decode() for raw in self._identities.take(some).to_pylist()]
        messages = messages_of(self._batch.take(some), self._shape, identities)
        return {
            row: message.with_properties({keys.UNIQ_KEY: drawn.key(row)})
            for row, message in zip(rows, messages, strict=True)
        }
