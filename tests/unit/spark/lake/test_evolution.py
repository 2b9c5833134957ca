"""Tables that change with the rows: columns and rows in one commit, and what DuckDB, pyiceberg and deltalake read."""

import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from firearrow.spark.lake import delta, iceberg
from firearrow.spark.lake.files import write_files
from firearrow.spark.lake.fit import DoesNotFit, Evolve
from firearrow.spark.lake.table import LakeTable
from tests.spark.readers import by_duckdb, by_python

BOTH = pytest.mark.parametrize(("form", "module"), [("iceberg", iceberg), ("delta", delta)])
OLD = pa.schema(
    [
        ("id", pa.int32()),
        ("gone", pa.string()),
        ("inner", pa.struct([("a", pa.int32())])),
        ("many", pa.list_(pa.struct([("x", pa.float32())]))),
        ("price", pa.decimal128(6, 2)),
    ]
)
ADDED = pa.schema(
    [
        ("id", pa.int32()),
        ("inner", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("many", pa.list_(pa.struct([("x", pa.float32()), ("n", pa.int64())]))),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
WIDE = pa.schema(
    [
        ("id", pa.int64()),
        ("inner", pa.struct([("a", pa.int64())])),
        ("many", pa.list_(pa.struct([("x", pa.float64())]))),
        ("price", pa.decimal128(9, 2)),
        ("late", pa.string()),
    ]
)
ONE = {"id": 1, "gone": "g", "inner": {"a": 1}, "many": [{"x": 0.5}], "price": Decimal("1.25")}
TWO = {"id": 2, "inner": {"a": 2, "b": "b"}, "many": [{"x": 1.5, "n": 7}], "at": datetime(2026, 5, 1, tzinfo=UTC)}
THREE = {"id": 1 << 40, "inner": {"a": 1 << 40}, "many": [{"x": 1e300}], "price": Decimal("1234567.25"), "late": "l"}


def table(form: str, directory: Path, evolve: Evolve = "fail") -> LakeTable:
    name = "shop.orders" if form == "iceberg" else ""
    return LakeTable(form, str(directory / form), name, evolve=evolve).checked()  # type: ignore[arg-type]


def append(module: ModuleType, where: LakeTable, batch: int, schema: pa.Schema, *rows: dict[str, Any]) -> bool:
    module.ensure(where, schema)
    made = pa.RecordBatch.from_pylist(list(rows), schema=schema)
    files = write_files([made], module.form(where, schema).directory, "q")
    added: bool = module.commit(where, "q", batch, files, schema)
    return added


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what is null, at any depth: readers agree on the rest."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(inner) for name, inner in value.items() if inner is not None}
        return [bare(inner) for inner in value] if isinstance(value, list) else value

    found: list[dict[str, Any]] = sorted((bare(row) for row in rows), key=lambda row: int(row["id"]))
    return found


@BOTH
def test_columns_are_added_with_the_rows(form: str, module: ModuleType, tmp_path: Path) -> None:
    append(module, table(form, tmp_path), 0, OLD, ONE)
    before = module.schema(table(form, tmp_path))
    where = table(form, tmp_path, "add")
    module.ensure(where, ADDED)
    assert module.schema(where) == before, "nothing changes before the rows are there"
    assert append(module, where, 1, ADDED, TWO)
    assert not append(module, where, 1, ADDED, TWO), "a repeated batch adds nothing"
    assert module.schema(where).names == [*OLD.names, "at"]
    for read in (by_duckdb, by_python):
        assert plain(read(where)) == [ONE, TWO], read
    assert append(module, table(form, tmp_path), 2, OLD, {**ONE, "id": 3}), "rows of the old schema still fit"
    assert plain(by_python(where)) == [ONE, TWO, {**ONE, "id": 3}]


def test_types_of_iceberg_are_widened_with_the_rows(tmp_path: Path) -> None:
    append(iceberg, table("iceberg", tmp_path), 0, OLD, ONE)
    with pytest.raises(DoesNotFit, match=r"(?s)id is int there and long.*Give --evolve widen"):
        iceberg.ensure(table("iceberg", tmp_path, "add"), WIDE)
    where = table("iceberg", tmp_path, "widen")
    append(iceberg, where, 1, WIDE, THREE)
    for read in (by_duckdb, by_python):
        assert plain(read(where)) == [ONE, THREE], read
    found = iceberg.catalog(where).load_table(where.name)
    assert [row["id"] for row in found.scan("id > 1").to_arrow().to_pylist()] == [1 << 40]
    assert len(found.history()) == 2, "one commit each"


def test_types_of_delta_are_left_to_its_own_runtime(tmp_path: Path) -> None:
    append(delta, table("delta", tmp_path), 0, OLD, ONE)
    with pytest.raises(DoesNotFit, match=r"(?s)id is int there and long in the rows.*fill another table"):
        delta.ensure(table("delta", tmp_path, "widen"), WIDE)


@BOTH
def test_a_column_that_must_not_be_null_cannot_be_left_out(form: str, module: ModuleType, tmp_path: Path) -> None:
    strict = pa.schema([pa.field("id", pa.int32(), nullable=False), ("item", pa.string())])
    where = table(form, tmp_path, "widen")
    append(module, where, 0, strict, {"id": 1, "item": "i"})
    with pytest.raises(DoesNotFit, match="column id must not be null there, and the rows do not have it"):
        module.ensure(where, pa.schema([("item", pa.string())]))


@BOTH
def test_rows_without_the_column_of_a_partition_are_in_the_one_of_nulls(
    form: str, module: ModuleType, tmp_path: Path
) -> None:
    where = replace(table(form, tmp_path), partition_by="land")
    schema = pa.schema([("id", pa.int32()), ("land", pa.string())])
    module.ensure(where, schema)
    target = module.ensure(where, pa.schema([("id", pa.int32())]))
    made = pa.RecordBatch.from_pylist([{"id": 1}, {"id": 2, "land": "x"}], schema=target)
    form_of = module.form(where, target)
    assert module.commit(where, "q", 0, write_files([made], form_of.directory, "q", form_of.rules), target)
    for read in (by_duckdb, by_python):
        assert plain(read(where)) == [{"id": 1}, {"id": 2, "land": "x"}], read


@BOTH
def test_two_writers_that_add_columns_take_turns(
    form: str, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = table(form, tmp_path, "add")
    append(module, where, 0, OLD, ONE)
    extra = pa.schema([*OLD, ("other", pa.string())])
    add, calls = module._add, []

    def crossed(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 1:  # another writer commits another column between the look and the commit
            monkeypatch.setattr(module, "_add", add)
            made = pa.RecordBatch.from_pylist([{**ONE, "id": 5, "other": "o"}], schema=extra)
            module.commit(where, "w", 0, write_files([made], module.form(where, extra).directory, "w"), extra)
        add(*arguments)

    monkeypatch.setattr(module, "_add", crossed)
    append(module, where, 1, ADDED, TWO)
    assert module.schema(where).names == [*OLD.names, "other", "at"]
    assert plain(by_python(where)) == [ONE, TWO, {**ONE, "id": 5, "other": "o"}]


class Killed(BaseException):
    """The driver ended here."""


@pytest.mark.parametrize("is_done", [False, True])
@BOTH
def test_a_kill_leaves_columns_and_rows_or_neither(
    form: str, module: ModuleType, is_done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = table(form, tmp_path, "add")
    append(module, where, 0, OLD, ONE)
    with monkeypatch.context() as patched:
        _kill_at_commit(patched, form, is_done)
        with pytest.raises(Killed):
            append(module, where, 1, ADDED, TWO)
    assert ("at" in module.schema(where).names) == is_done
    assert plain(by_python(where)) == ([ONE, TWO] if is_done else [ONE])
    assert append(module, where, 1, ADDED, TWO) != is_done
    assert plain(by_python(where)) == [ONE, TWO]


def _kill_at_commit(patched: pytest.MonkeyPatch, form: str, is_done: bool) -> None:
    """Kill the driver right before or right after the one step that makes a commit."""
    from pyiceberg.catalog.sql import SqlCatalog

    holder, name = (SqlCatalog, "commit_table") if form == "iceberg" else (os, "link")
    step = getattr(holder, name)

    def killed(*arguments: Any) -> None:
        if is_done:
            step(*arguments)
        raise Killed

    patched.setattr(holder, name, killed)
