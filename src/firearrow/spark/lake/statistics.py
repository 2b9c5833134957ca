"""Statistics of a data file: bounds and nulls of every column, for tables that skip files by them.

Numbers, booleans, dates, times and texts have bounds; binary values, lists and maps count nulls only. A bound may be
looser than the values, never tighter: texts are cut to 32 characters, the high bound of a cut text gets a character
above all others. A column of floating-point numbers with a NaN has no bounds, because engines disagree about where NaN
is in the order. The footer of a Parquet file has no bounds of texts above 4 KiB: theirs come from the rows.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

TEXT_CHARACTERS: Final = 32
LAST_CHARACTER: Final = "\U0010ffff"
FOOTER_BYTES: Final = 4096
"""The longest value of which a footer has bounds."""
_ORDERED: Final = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_boolean,
)

Path = tuple[str, ...]
"""The names that lead to a column, through structures."""


class ColumnBounds(Struct, frozen=True):
    """Smallest and largest value of a column in a file, None if not known, and how many are null."""

    low: Any
    high: Any
    nulls: int


class LeafColumn(Struct, frozen=True):
    """A column of a Parquet file."""

    path: Path
    type: pa.DataType
    is_repeated: bool = False
    """Whether it is inside of a list or a map, whose path it has."""

    @property
    def is_ordered(self) -> bool:
        """Whether its values have bounds."""
        return not self.is_repeated and any(fits(self.type) for fits in _ORDERED)


def leaves(schema: pa.Schema) -> list[LeafColumn]:
    """Return the columns of a file with rows of this schema, in the order of the file."""
    return [leaf for field in schema for leaf in _leaves((field.name,), field.type)]


def _leaves(path: Path, kind: pa.DataType, *, is_repeated: bool = False) -> Iterator[LeafColumn]:
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            field = kind.field(number)
            yield from _leaves(path if is_repeated else (*path, field.name), field.type, is_repeated=is_repeated)
    elif pa.types.is_map(kind):
        for inner in (kind.key_type, kind.item_type):
            yield from _leaves(path, inner, is_repeated=True)
    elif pa.types.is_nested(kind):
        yield from _leaves(path, kind.value_type, is_repeated=True)
    else:
        yield LeafColumn(path, kind, is_repeated)


class RowStatistics:
    """Statistics taken from the rows of a file, because its Parquet footer lacks them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._lists = {leaf.path: 0 for leaf in leaves(schema) if leaf.is_repeated}
        self._floats = [leaf.path for leaf in leaves(schema) if pa.types.is_floating(leaf.type) and leaf.is_ordered]
        self._not_numbers: set[Path] = set()
        self._long: dict[Path, list[tuple[str, str]]] = {
            leaf.path: [] for leaf in leaves(schema) if pa.types.is_string(leaf.type) and leaf.is_ordered
        }
        """Smallest and largest text, cut, of each group of rows with long texts."""

    def add(self, rows: pa.Table) -> None:
        """Look at rows that are written."""
        for path in self._lists:
            self._lists[path] += _column(rows, path).null_count
        for path in self._floats:
            if path not in self._not_numbers and pc.any(pc.is_nan(_column(rows, path))).as_py():
                self._not_numbers.add(path)
        for path, long in self._long.items():
            texts = _column(rows, path)
            if (pc.max(pc.binary_length(texts)).as_py() or 0) > FOOTER_BYTES:
                found = pc.min_max(pc.utf8_slice_codeunits(texts, 0, TEXT_CHARACTERS)).as_py()
                # The largest text may go on with any character, and so begins below this one.
                long.append((found["min"], found["max"] + LAST_CHARACTER * (len(found["max"]) == TEXT_CHARACTERS)))

    def bounds(self, footer: pq.FileMetaData) -> dict[Path, ColumnBounds]:
        """Return the statistics of a closed file by column."""
        found = {path: ColumnBounds(None, None, nulls) for path, nulls in self._lists.items()}
        for number, leaf in enumerate(leaves(self._schema)):
            if not leaf.is_repeated:
                found[leaf.path] = self._of_column(footer, number, leaf)
        return found

    def _of_column(self, footer: pq.FileMetaData, number: int, leaf: LeafColumn) -> ColumnBounds:
        groups = [footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)]
        nulls = sum(known.null_count or 0 for known in groups if known is not None)
        # A group whose values are all null has no bounds, and needs none.
        filled = [known for known in groups if known is None or known.num_values]
        ends = [(known.min, known.max) for known in filled if known is not None and known.has_min_max]
        ends += self._long.get(leaf.path, [])
        are_known = ends and len(ends) >= len(filled) and leaf.is_ordered and leaf.path not in self._not_numbers
        low, high = _extent(ends) if are_known else (None, None)
        return ColumnBounds(low, high, nulls)


def _extent(ends: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the bounds of groups of rows whose smallest and largest values are these."""
    lows, highs = zip(*ends, strict=True)
    return low_bound(min(lows)), high_bound(max(highs))


def _column(rows: pa.Table, path: Path) -> pa.ChunkedArray:
    column = rows.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def low_bound(value: Any) -> Any:  # noqa: ANN401 - of any column
    """Return a value that is not above this one and fits into statistics; None if there is none."""
    return value[:TEXT_CHARACTERS] if isinstance(value, str) else _finite(value)


def high_bound(value: Any) -> Any:  # noqa: ANN401 - of any column
    """Return a value that is not below this one and fits into statistics; None if there is none."""
    if not isinstance(value, str) or len(value) <= TEXT_CHARACTERS:
        return _finite(value)
    end = TEXT_CHARACTERS
    while value[end : end + 1] == LAST_CHARACTER:
        end += 1
    return value[:end] + LAST_CHARACTER if end < len(value) else value


def _finite(value: Any) -> Any:  # noqa: ANN401 - of any column
    return None if isinstance(value, float) and not math.isfinite(value) else value
