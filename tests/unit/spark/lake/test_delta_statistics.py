"""Statistics of files that we add to Delta tables: bounds hold, and no reader misses a row by them."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from firearrow.spark.lake import delta
from firearrow.spark.lake.files import write_files
from firearrow.spark.lake.statistics import LAST_CHARACTER, TEXT_CHARACTERS, high_bound, low_bound
from firearrow.spark.lake.table import LakeTable
from tests.spark.readers import by_duckdb, scanned_by_duckdb

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(20, 4)),
        ("weight", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("is_new", pa.bool_()),
        ("body", pa.binary()),
        ("inner", pa.struct([("a", pa.string()), ("b", pa.int32())])),
        ("tags", pa.list_(pa.string())),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)


def row(number: int) -> dict[str, Any]:
    is_odd = bool(number % 2)
    return {
        "id": number,
        "name": f"n{number:04}" + "é" * (60 if is_odd else 0),
        "price": Decimal(number) / 4,
        "weight": float("nan") if number == 15 else number / 2,
        "day": date(2026, 1, 1 + number),
        "at": datetime(2026, 1, 1, 0, 0, number, 123_456, UTC),
        "is_new": is_odd,
        "body": b"%d" % number,
        "inner": {"a": f"a{number:04}", "b": number},
        "tags": None if is_odd else [f"t{number}"],
        "properties": [("k", str(number))] if is_odd else None,
    }


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    """Two files of ten rows; one with a NaN, with an empty column of texts behind it."""
    where = LakeTable("delta", str(tmp_path / "t")).checked()
    delta.ensure(where, SCHEMA)
    for batch in range(2):
        rows = pa.RecordBatch.from_pylist([row(number) for number in range(10 * batch, 10 * batch + 10)], SCHEMA)
        files = write_files([rows], delta.form(where, SCHEMA).directory, f"b{batch}")
        assert delta.commit(where, "w", batch, files, SCHEMA)
    return where


def stats(where: LakeTable) -> list[dict[str, Any]]:
    found = []
    for path in sorted((Path(where.location) / "_delta_log").glob("*.json")):
        adds = [json.loads(line)["add"] for line in path.read_text().splitlines() if '"add"' in line]
        found += [json.loads(add["stats"]) for add in adds]
    return found


def test_every_column_has_nulls_counted_and_ordered_ones_have_bounds(table: LakeTable) -> None:
    first, second = stats(table)
    assert set(first["nullCount"]) == set(SCHEMA.names)
    assert first["nullCount"]["tags"] == first["nullCount"]["properties"] == 5
    assert first["nullCount"]["inner"] == {"a": 0, "b": 0}
    assert first["minValues"] == {
        "id": 0, "name": "n0000", "price": 0, "weight": 0, "day": "2026-01-01", "at": "2026-01-01T00:00:00.123Z",
        "is_new": False, "inner": {"a": "a0000", "b": 0},
    }  # fmt: skip
    assert first["maxValues"] == {
        "id": 9, "name": "n0009" + "é" * 27 + LAST_CHARACTER, "price": 2.25, "weight": 4.5, "day": "2026-01-10",
        "at": "2026-01-01T00:00:09.124Z", "is_new": True, "inner": {"a": "a0009", "b": 9},
    }  # fmt: skip
    assert "weight" not in second["minValues"], "there is a NaN"


FILTERS = [
    (name, number) for name in ("id", "name", "price", "day", "at", "is_new", "body") for number in (0, 9, 13, 19)
]


@pytest.mark.parametrize(("name", "number"), FILTERS)
def test_deltalake_finds_rows_by_every_column(table: LakeTable, name: str, number: int) -> None:
    value = row(number)[name]
    wanted = [each for each in range(20) if row(each)[name] == value]
    found = (
        DeltaTable(table.location)
        .to_pyarrow_dataset()
        .to_table(filter=pc.field(name) == pa.scalar(value, SCHEMA.field(name).type))
    )
    assert sorted(found.column("id").to_pylist()) == wanted


def test_deltalake_finds_rows_by_floats_nulls_and_fields_of_structures(table: LakeTable) -> None:
    rows = DeltaTable(table.location).to_pyarrow_dataset()

    def ids(condition: pc.Expression) -> list[int]:
        return sorted(rows.to_table(filter=condition).column("id").to_pylist())

    assert ids(pc.field("weight") == 4.5) == [9]
    assert ids(pc.field("tags").is_null()) == list(range(1, 20, 2))
    assert ids(pc.field("properties").is_valid()) == list(range(1, 20, 2))
    assert ids(pc.field("inner", "a") == "a0013") == [13]


def test_duckdb_finds_rows_and_skips_files_by_texts(table: LakeTable) -> None:
    for name in ("name", "day", "price"):
        found = by_duckdb(table, "id, " + name)
        assert sorted(each["id"] for each in found) == list(range(20))
    assert scanned_by_duckdb(table, "name < 'n0005'") == 1
    assert scanned_by_duckdb(table, "name >= 'n0009'") == 2


def test_texts_that_a_footer_leaves_out_have_bounds(tmp_path: Path) -> None:
    where, schema = LakeTable("delta", str(tmp_path / "t")).checked(), pa.schema([("text", pa.string())])
    delta.ensure(where, schema)
    texts = ["b" * 5000, "a" * 6000, "c", None]
    rows = pa.RecordBatch.from_pydict({"text": texts}, schema)
    delta.commit(where, "w", 0, write_files([rows], delta.form(where, schema).directory, "b"), schema)
    (found,) = stats(where)
    assert (found["minValues"], found["maxValues"]) == ({"text": "a" * 32}, {"text": "c"})
    there = DeltaTable(where.location).to_pyarrow_dataset()
    assert [there.to_table(filter=pc.field("text") == text).num_rows for text in texts[:3]] == [1, 1, 1]


@given(st.text(max_size=80), st.text(max_size=80))
def test_bounds_of_texts_are_never_tighter_than_the_text(text: str, other: str) -> None:
    for value in (text, other * 3, text + LAST_CHARACTER * 40 + other):
        low, high = low_bound(value), high_bound(value)
        assert low.encode("utf-8", "surrogatepass") <= value.encode("utf-8", "surrogatepass")
        assert value.encode("utf-8", "surrogatepass") <= high.encode("utf-8", "surrogatepass")
        assert len(low) <= TEXT_CHARACTERS
