"""Pushdown: conditions of a query that the source applies before reading. Pure: filters are identified by name.

A ``NarrowedRows`` leaves out only rows that the conditions exclude; Spark applies every condition again, so it need not
be
complete. Conditions on topics, queues, offsets and times leave out spans of queues, tags are sent to brokers (or
compared with the codes in consume queues), tags and keys leave out rows before they are sent to Spark.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.spark.source.plan import Span

if TYPE_CHECKING:
    import pyarrow as pa

    from firearrow.columns import Heads, Treatment


Names = frozenset[str] | None


class NarrowedRows(Struct, frozen=True):
    """The rows that conditions may allow; None means no condition."""

    topics: Names = None
    brokers: Names = None
    queue_ids: frozenset[int] | None = None
    from_offset: int | None = None
    before_offset: int | None = None
    from_ms: int | None = None
    before_ms: int | None = None
    tags: Names = None
    keys: Names = None

    @property
    def tag_expression(self) -> str:
        """Return the tags as an expression for brokers; empty without a condition, or if a tag cannot be written so."""
        tags = sorted(self.tags or ())
        return "" if any("|" in tag or not tag.strip() for tag in tags) else " || ".join(tags)

    def and_offsets(self, begin: int | None, end: int | None) -> "NarrowedRows":
        """Return a copy, further limited to offsets from ``begin`` to ``end`` (exclusive)."""
        return replace(self, from_offset=_most(self.from_offset, begin), before_offset=_least(self.before_offset, end))

    def and_times(self, begin: int | None, end: int | None) -> "NarrowedRows":
        """Return a copy, further limited to times from ``begin`` to ``end`` (exclusive)."""
        return replace(self, from_ms=_most(self.from_ms, begin), before_ms=_least(self.before_ms, end))


def narrowing_of(filters: Iterable[object]) -> NarrowedRows:
    """Return the narrowing of the filters that are understood."""
    found = NarrowedRows()
    for condition in filters:
        found = _and(found, condition)
    return found


_SETS: Final = {"topic": "topics", "broker": "brokers", "queue_id": "queue_ids", "tags": "tags", "keys": "keys"}


def _and(found: NarrowedRows, condition: object) -> NarrowedRows:
    kind, column = type(condition).__name__, ".".join(getattr(condition, "attribute", ()))
    value: Any = getattr(condition, "value", None)
    if value is None:
        return found
    if column in _SETS and kind in ("EqualTo", "In"):
        values = frozenset(each for each in (value if kind == "In" else [value]) if each is not None)
        before = getattr(found, _SETS[column])
        return replace(found, **{_SETS[column]: values if before is None else before & values})
    if column == "queue_offset" and isinstance(value, int):
        return found.and_offsets(*_range(kind, value))
    if column == "store_timestamp" and isinstance(value, datetime):
        begin, end = _range(kind, _floor_ms(value))
        # A condition between two milliseconds: the end is rounded up, since only whole ones are stored.
        return found.and_times(begin, None if end is None else end + 1)
    return found


def _floor_ms(moment: datetime) -> int:
    """Return milliseconds since 1970; a time without a zone is local, as Spark passes it."""
    if moment.tzinfo is None:
        moment = moment.astimezone()
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def _range(kind: str, value: int) -> tuple[int | None, int | None]:
    if kind == "EqualTo":
        return value, value + 1
    if kind == "GreaterThan":
        return value + 1, None
    if kind == "GreaterThanOrEqual":
        return value, None
    if kind == "LessThan":
        return None, value
    return (None, value + 1) if kind == "LessThanOrEqual" else (None, None)


def _most(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def narrowed(spans: Iterable[Span], narrowing: NarrowedRows) -> list[Span]:
    """Return the spans without excluded queues and offsets."""
    found = []
    for span in spans:
        queue = span.queue
        is_out = (
            (narrowing.topics is not None and queue.topic not in narrowing.topics)
            or (narrowing.brokers is not None and queue.broker_name not in narrowing.brokers)
            or (narrowing.queue_ids is not None and queue.queue_id not in narrowing.queue_ids)
        )
        begin = max(span.begin, narrowing.from_offset or 0)
        end = span.end if narrowing.before_offset is None else min(span.end, narrowing.before_offset)
        if not is_out and begin < end:
            found.append(Span(queue, begin, end))
    return found


def wanted_rows(
    heads: "Heads",
    columns: Sequence[str],
    sets: dict[str, frozenset[str]],
    *,
    broker: str,
    treatment: "Treatment",
) -> "Iterator[pa.RecordBatch]":
    """Yield the columns of the records with the wanted tags and keys, in batches of limited size."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from firearrow.columns import Heads, batches_of, columns_of

    for column, values in sets.items():
        texts = columns_of(heads, [column], broker=broker, treatment=treatment).column(0)
        if len(texts) != len(heads):
            continue  # batches kept whole: Spark looks at their rows
        keep = pc.is_in(texts, pa.array(sorted(values), pa.string())).to_numpy(zero_copy_only=False)
        if not keep.all():
            heads = Heads(heads.data, heads.starts[keep])
    for batch in batches_of(heads, columns, broker=broker, treatment=treatment):
        if batch.num_rows:
            yield batch
