"""Partitions of tables: the rules, as users and tables state them, and rows cut by them. Pure.

A rule is a column and what is made of its values: ``identity``; the ``year``, ``month``, ``day`` or ``hour`` of a time
in UTC; ``bucket[N]``, a hash modulo N; ``truncate[W]``, the first W characters or a multiple of W. Every file holds the
rows of one partition alone. The columns stay in the files, and the value of a partition is committed with the file.

Delta has columns only. There the part of a time is a column of its own (`derived`), made with the rows and called after
both: ``store_timestamp_day``. A table that has such a column among its partitions gets it filled. Readers that filter
by the time itself skip files by their statistics, because files are cut by the part.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from firearrow.errors import SettingsError, Unsupported

TIMES: Final = ("year", "month", "day", "hour")
DERIVED: Final = {"year": pa.int32(), "month": pa.string(), "day": pa.date32(), "hour": pa.string()}
"""Types of the columns that stand for parts of a time: 2026, '2026-05', 2026-05-01, '2026-05-01-23'."""

_IDENTITY: Final = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date,
)  # fmt: skip
_HASHED: Final = (*_IDENTITY[:3], pa.types.is_date, pa.types.is_timestamp, pa.types.is_binary)
_TRUNCATED: Final = (*_IDENTITY[:3], pa.types.is_binary)
_TERM: Final = re.compile(r"\s*(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?)?([\w.]+|`[^`]+`)\s*(\))?\s*$")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PartitionRule(Struct, frozen=True):
    """The column and transform of one level of partitions."""

    column: str
    transform: str = "identity"

    def __str__(self) -> str:
        kind, width = self.parts
        if kind == "identity":
            return self.column
        return f"{kind}({width}, {self.column})" if width else f"{kind}({self.column})"

    @property
    def parts(self) -> tuple[str, int]:
        """The name of the transform, and its number or 0."""
        kind, _, number = self.transform.rstrip("]").partition("[")
        return kind, int(number or 0)


Rules = tuple[PartitionRule, ...]
Key = tuple[Any, ...]


def parse(text: str) -> Rules:
    """Rules from text, such as ``day(store_timestamp), topic, bucket(16, keys)``. Spark's plurals are accepted."""
    return tuple(_rule(term) for term in re.split(r",(?![^(]*\))", text) if term.strip())


def _rule(term: str) -> PartitionRule:
    found = _TERM.match(term)
    if found is None or bool(found[1]) != bool(found[4]):
        raise SettingsError(f"{term.strip()!r} is no partition; give a column, or a transform as day(store_timestamp)")
    kind, number, column = (found[1] or "identity").lower().removesuffix("s"), found[2], found[3].strip("`")
    takes = {"identity": False, **dict.fromkeys(TIMES, False), "bucket": True, "truncate": True}
    if kind not in takes:
        raise SettingsError(f"there is no transform {kind!r}; they are {', '.join(takes)}")
    if takes[kind] != bool(number and int(number)):
        example = f"{kind}(16, {column})" if takes[kind] else f"{kind}({column})"
        raise SettingsError(f"{term.strip()!r} is no partition; write {example}")
    return PartitionRule(column, f"{kind}[{int(number)}]" if number else kind)


def told(rules: Rules) -> str:
    """Rules as text that `parse` reads."""
    return ", ".join(str(rule) for rule in rules)


def require_same(asked: Rules, found: Rules, name: str) -> None:
    """Raise if a table is partitioned otherwise than asked for; a table that exists is never partitioned anew."""
    if asked and asked != found:
        raise SettingsError(
            f"table {name} exists and is partitioned by {told(found) or 'nothing'}, not by {told(asked)}. "
            "Leave --partition-by out to keep the table's partitions, or fill another table with another checkpoint"
        )


def require_supported(rules: Rules, schema: pa.Schema, name: str) -> None:
    """Raise where a table is partitioned in a way that is not written here."""
    for rule in rules:
        if rule.column not in schema.names:
            raise Unsupported(
                f"table {name} is partitioned by {rule}, and the rows have no column {rule.column}. Nothing was "
                f"written. Columns are {', '.join(schema.names)}"
            )
        kind = schema.field(rule.column).type
        if not any(fits(kind) for fits in _kinds(rule.parts[0])):
            raise Unsupported(
                f"table {name} is partitioned by {rule}, a column of {kind}, which only the format's own runtime in "
                "Spark writes. Nothing was written. Partition by a text, number or date, or by the year, month, day or "
                "hour of a time, or use the native runtime"
            )


def _kinds(transform: str) -> Sequence[Any]:
    if transform in TIMES:
        return (pa.types.is_timestamp,) if transform == "hour" else (pa.types.is_timestamp, pa.types.is_date)
    return {"identity": _IDENTITY, "bucket": _HASHED, "truncate": _TRUNCATED}.get(transform, ())


# -- columns of Delta that stand for parts of a time


def derived(rule: PartitionRule) -> str:
    """The column of a Delta table that stands for a rule."""
    kind, _ = rule.parts
    if kind == "identity":
        return rule.column
    if kind not in TIMES:
        raise Unsupported(
            f"Delta has no partitions by {rule}; partition by a column, or by the year, month, day or hour of a time, "
            "or use an Iceberg table"
        )
    return f"{rule.column}_{kind}"


def underived(column: str, schema: pa.Schema, rows: Collection[str]) -> PartitionRule:
    """The rule for which a partition column of a Delta table stands: `derived` backwards, by name and type."""
    source, _, part = column.rpartition("_")
    is_part = part in DERIVED and source in rows and schema.field(column).type == DERIVED[part]
    return PartitionRule(source, part) if is_part and column not in rows else PartitionRule(column)


# -- rows by partitions


def cut(rows: pa.Table, rules: Rules) -> Iterator[tuple[Key, pa.Table]]:
    """The rows of each partition, in their order."""
    if not rules:
        yield (), rows
        return
    names = [f"key{number}" for number in range(len(rules))]
    keys = pa.table([_values(rows.column(rule.column), rule) for rule in rules], names=names)
    numbered = keys.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    groups = numbered.group_by(names, use_threads=False).aggregate([("row", "list")])
    for group in groups.to_pylist():
        key, numbers = tuple(group[name] for name in names), group["row_list"]
        yield key, rows if len(numbers) == rows.num_rows else rows.take(pa.array(numbers, pa.int64()))


def _values(column: pa.ChunkedArray, rule: PartitionRule) -> pa.ChunkedArray | pa.Array:
    kind, width = rule.parts
    if kind == "identity":
        return column
    if kind in TIMES:
        return pc.floor_temporal(column, unit=kind)
    return _transformed(column.combine_chunks(), kind, width)


def _transformed(column: pa.Array, kind: str, width: int) -> pa.Array:
    """Buckets and truncations by Iceberg's own functions, once for each distinct value."""
    from pyiceberg.transforms import BucketTransform, TruncateTransform
    from pyiceberg.types import BinaryType, LongType, StringType

    coded = _whole(column).dictionary_encode()
    found = coded.dictionary.type
    is_text = pa.types.is_string(found) or pa.types.is_large_string(found)
    source = StringType() if is_text else BinaryType() if pa.types.is_binary(found) else LongType()
    change = (BucketTransform(width) if kind == "bucket" else TruncateTransform(width)).transform(source)
    values = [change(value) for value in coded.dictionary.to_pylist()]
    return pa.array(values, pa.int32() if kind == "bucket" else column.type).take(coded.indices)


def _whole(column: pa.Array) -> pa.Array:
    """Dates and times as the whole numbers that Iceberg hashes."""
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def iceberg_values(rules: Rules, key: Sequence[Any]) -> list[Any]:
    """The partition of a file as Iceberg's manifests have it: parts of times are counted from 1970."""
    return [_counted(value, rule.parts[0]) for rule, value in zip(rules, key, strict=True)]


def _counted(value: Any, kind: str) -> Any:  # noqa: ANN401 - of any column
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        kind = "day" if kind == "identity" else kind
    if not isinstance(value, datetime):
        return value
    at = value.replace(tzinfo=value.tzinfo or UTC)
    return {
        "year": at.year - _EPOCH.year,
        "month": (at.year - _EPOCH.year) * 12 + at.month - 1,
        "day": (at - _EPOCH) // timedelta(days=1),
        "hour": (at - _EPOCH) // timedelta(hours=1),
    }[kind]


def delta_values(rules: Rules, key: Sequence[Any]) -> dict[str, str | None]:
    """The partition of a file as Delta's log has it: text; an empty one is null there."""
    return {rule.column: _text(value) for rule, value in zip(rules, key, strict=True)}


def _text(value: Any) -> str | None:  # noqa: ANN401 - of any column
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
