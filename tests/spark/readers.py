"""Lake tables as other programs read them: DuckDB with its extensions, pyiceberg, deltalake."""

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from firearrow.spark.lake import iceberg
from firearrow.spark.lake.table import LakeTable

Rows = list[dict[str, Any]]


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """A connection with the extensions for lake formats, which are Python packages here: nothing is downloaded."""
    made = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("delta", "avro", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{name}").__file__
        assert package is not None
        (file,) = Path(package).parent.rglob("*.duckdb_extension")
        made.execute(f"LOAD '{file}'")
    return made


def by_duckdb(table: LakeTable, columns: str = "*") -> Rows:
    """The rows as DuckDB reads them."""
    rows: Rows = _duckdb().execute(f"select {columns} from {_source(table)}").to_arrow_table().to_pylist()
    return rows


def _source(table: LakeTable) -> str:
    if table.format == "delta":
        return f"delta_scan('{table.location}')"
    return f"iceberg_scan('{iceberg.catalog(table).load_table(table.name).metadata_location}')"


def scanned_by_duckdb(table: LakeTable, where: str) -> int:
    """The number of files that DuckDB opens for a condition, by its plan."""
    plan = _duckdb().execute(f"explain analyze select * from {_source(table)} where {where}").fetchall()
    found = re.search(r"Total Files Read: (\d+)|Scanning Files: (\d+)/", plan[0][1])
    assert found is not None, plan[0][1]
    return int(found[1] or found[2])


def by_python(table: LakeTable) -> Rows:
    """The rows as pyiceberg or deltalake reads them."""
    if table.format == "delta":
        from deltalake import DeltaTable

        rows: Rows = DeltaTable(table.location).to_pyarrow_table().to_pylist()
        return rows
    read: Rows = iceberg.catalog(table).load_table(table.name).scan().to_arrow().to_pylist()
    return read
