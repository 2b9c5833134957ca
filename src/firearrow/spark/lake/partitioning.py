"""Files cut by the partitions of a table: every file holds the rows of one partition alone.

A rule is a column and what is made of its values: ``identity``, or the ``year``, ``month``, ``day`` or ``hour`` of a
time in UTC. Other transforms of Iceberg cannot be derived from a file's statistics and are refused before anything is
written. The columns stay in the files; Delta takes the values from its log, Iceberg from the statistics.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from firearrow.errors import Unsupported

TIMES: Final = ("year", "month", "day", "hour")
_IDENTITY: Final = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date,
)  # fmt: skip


class Rule(Struct, frozen=True):
    """What one level of partitions is made of."""

    column: str
    transform: str = "identity"


Rules = tuple[Rule, ...]
Key = tuple[Any, ...]


def to_text(rules: Rules) -> str:
    """Rules as an option of the sink."""
    return msgspec.json.encode(rules).decode()


def from_text(text: str) -> Rules:
    """The reverse of `to_text`."""
    return msgspec.json.decode(text, type=Rules) if text else ()


def require_supported(rules: Rules, schema: pa.Schema, name: str) -> None:
    """Raise where a table is partitioned in a way that is not written here."""
    for rule in rules:
        kind = schema.field(rule.column).type if rule.column in schema.names else pa.null()
        is_plain = rule.transform == "identity" and any(fits(kind) for fits in _IDENTITY)
        if not is_plain and not (rule.transform in TIMES and pa.types.is_timestamp(kind)):
            raise Unsupported(
                f"table {name} is partitioned by {rule.transform}({rule.column}), a column of {kind}, which only the "
                "format's own runtime in Spark writes. Nothing was written. Partition by a text, number or date, or by "
                "the year, month, day or hour of a time, or use the native runtime"
            )


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


def _values(column: pa.ChunkedArray, rule: Rule) -> pa.ChunkedArray:
    return column if rule.transform == "identity" else pc.floor_temporal(column, unit=rule.transform)


def delta_values(rules: Rules, key: Sequence[Any]) -> dict[str, str | None]:
    """The partition of a file as Delta's log has it: text; an empty one is null there."""
    return {rule.column: _text(value) for rule, value in zip(rules, key, strict=True)}


def _text(value: Any) -> str | None:  # noqa: ANN401 - of any column
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
