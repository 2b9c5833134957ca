"""Rows that do not fit a table are refused before anything is written; partitions are kept."""

from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake import delta, iceberg
from firearrow.spark.lake.files import CommitRefused, write_files
from firearrow.spark.lake.fit import DoesNotFit, Fit, compare, delta_widening, iceberg_widening, require
from firearrow.spark.lake.partitioning import PartitionRule
from firearrow.spark.lake.sink import committer
from firearrow.spark.lake.storage import delta_settings, filesystem, for_python, for_spark
from firearrow.spark.lake.table import LakeTable

BOTH = pytest.mark.parametrize(("form", "module"), [("iceberg", iceberg), ("delta", delta)])
ORDERS = pa.schema([("id", pa.int64()), ("item", pa.string())])
HOUR = 3_600


def table(form: str, directory: Path) -> LakeTable:
    return LakeTable(form, str(directory / form), "shop.orders" if form == "iceberg" else "").checked()  # type: ignore[arg-type]


def files_below(directory: Path) -> list[Path]:
    return sorted(directory.rglob("data/*.parquet"))


@BOTH
@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (pa.schema([("id", pa.string()), ("item", pa.string())]), "column id is long there and string in the rows"),
        (pa.schema([*ORDERS, ("price", pa.float64())]), r"it has no column price \(double\)"),
    ],
)
def test_rows_of_another_schema_are_refused(
    form: str, module: ModuleType, changed: pa.Schema, says: str, tmp_path: Path
) -> None:
    where = table(form, tmp_path)
    module.ensure(where, ORDERS)
    with pytest.raises(DoesNotFit, match=f"(?s)Nothing was written.*{says}"):
        module.ensure(where, changed)
    with pytest.raises(DoesNotFit, match=says):
        module.commit(where, "q", 0, [], changed)
    module.ensure(where, pa.schema([("item", pa.string())]))


def test_differences_of_any_type() -> None:
    nested = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    rows = pa.schema([("s", nested), ("m", pa.map_(pa.string(), pa.int32())), ("t", pa.timestamp("us", "UTC"))])
    assert compare(rows, rows, iceberg_widening) == Fit(rows)
    wide = pa.schema(
        [
            ("s", pa.struct([("a", pa.int32()), ("b", pa.large_list(pa.large_string()))])),
            ("m", pa.map_(pa.large_string(), pa.int32())),
            ("t", pa.timestamp("us", "Etc/UTC")),
        ]
    )
    assert compare(rows, wide, iceberg_widening) == Fit(rows)
    other = pa.schema(
        [
            ("s", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int8()))])),
            ("m", pa.map_(pa.string(), pa.string())),
            pa.field("t", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("more", pa.int32(), nullable=False),
        ]
    )
    found = compare(rows, other, iceberg_widening)
    assert list(found.wrong) == [
        "column s.b.element is byte there and string in the rows",
        "column m.value is string there and int in the rows",
        "column t must not be null there, and may be null in the rows",
        "column more must not be null there, and the rows do not have it",
    ]
    assert found.cast == ("s.a",)


OLD = pa.schema(
    [
        ("id", pa.int32()),
        ("gone", pa.string()),
        ("inner", pa.struct([("a", pa.int32()), ("gone", pa.string())])),
        ("many", pa.list_(pa.struct([("x", pa.float32())]))),
        ("by", pa.map_(pa.string(), pa.struct([("y", pa.int32())]))),
        ("price", pa.decimal128(6, 2)),
    ]
)
NEW = pa.schema(
    [
        ("extra", pa.struct([("deep", pa.timestamp("us", "UTC"))])),
        ("by", pa.map_(pa.string(), pa.struct([("z", pa.string()), ("y", pa.int32())]))),
        ("inner", pa.struct([("b", pa.string()), ("a", pa.int64())])),
        ("id", pa.int64()),
        ("many", pa.list_(pa.struct([("x", pa.float64()), ("n", pa.int64())]))),
        ("price", pa.decimal128(9, 2)),
    ]
)


def test_the_target_has_the_columns_of_both() -> None:
    found = compare(NEW, OLD, iceberg_widening)
    assert [change.path for change in found.added] == [
        ("inner", "b"), ("many", "element", "n"), ("by", "value", "z"), ("extra",),
    ]  # fmt: skip
    assert [change.path for change in found.widened] == [
        ("id",), ("inner", "a"), ("many", "element", "x"), ("price",),
    ]  # fmt: skip
    assert found.wrong == ()
    assert found.target.names == [*OLD.names, "extra"]
    assert found.target.field("inner").type == pa.struct([("a", pa.int64()), ("gone", pa.string()), ("b", pa.string())])
    assert compare(NEW, found.target, iceberg_widening).is_change is False
    assert compare(OLD, found.target, iceberg_widening).cast == ("id", "inner.a", "many.element.x", "price")


def test_what_may_change_is_said_in_three_lines() -> None:
    found = compare(NEW, OLD, iceberg_widening)
    require(found, "widen", "t")
    for evolve, says in (("add", "Give --evolve widen"), ("fail", "Give --evolve widen")):
        with pytest.raises(DoesNotFit) as caught:
            require(found, evolve, "t")  # type: ignore[arg-type]
        lines = str(caught.value).splitlines()
        assert len(lines) == 3
        assert lines[2].startswith(says)
    only_added = compare(pa.schema([*OLD, ("new", pa.string())]), OLD, iceberg_widening)
    require(only_added, "add", "t")
    with pytest.raises(DoesNotFit, match=r"(?s)it has no column new \(string\).*Give --evolve add"):
        require(only_added, "fail", "t")


def test_what_no_change_can_mend() -> None:
    retyped = compare(pa.schema([("id", pa.string())]), OLD, iceberg_widening)
    with pytest.raises(DoesNotFit, match=r"(?s)id is int there and string in the rows.*fill another table"):
        require(retyped, "widen", "t")
    assert compare(pa.schema([("ID", pa.int32())]), OLD, iceberg_widening).wrong == (
        "column ID differs from column id only by case",
    )
    twice = compare(pa.schema([("new", pa.int32()), ("NEW", pa.int32())]), OLD, iceberg_widening)
    assert twice.wrong == ("column NEW differs from column new only by case",)
    assert compare(pa.schema([("price", pa.decimal128(9, 3))]), OLD, iceberg_widening).wrong
    assert not compare(pa.schema([("price", pa.decimal128(9, 3))]), OLD, delta_widening).wrong
    by_id = compare(pa.schema([("id", pa.int64())]), OLD, iceberg_widening, {"id"})
    assert by_id.wrong == ("column id is int there and long in the rows, and the table is partitioned by it",)
    keys = pa.schema([("m", pa.map_(pa.int64(), pa.string()))])
    assert compare(keys, pa.schema([("m", pa.map_(pa.int32(), pa.string()))]), iceberg_widening).wrong


def timed(count: int, step_s: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {"topic": f"t{n % 2}", "n": n, "store_timestamp": datetime.fromtimestamp(n * step_s, UTC)}
            for n in range(count)
        ],
        schema=pa.schema([("topic", pa.string()), ("n", pa.int64()), ("store_timestamp", pa.timestamp("us", "UTC"))]),
    )


def test_a_delta_table_by_topic_keeps_its_partitions(tmp_path: Path) -> None:
    from deltalake import DeltaTable, Schema

    rows, where = timed(10, 1), table("delta", tmp_path)
    DeltaTable.create(where.location, schema=Schema.from_arrow(rows.schema), partition_by=["topic"])
    delta.ensure(where, rows.schema)
    rules = delta.form(where, rows.schema).rules
    assert rules == (PartitionRule("topic"),)
    files = write_files([rows], delta.form(where, rows.schema).directory, "q", rules)
    assert sorted(file.partition for file in files) == [("t0",), ("t1",)]
    assert delta.commit(where, "q", 0, files, rows.schema)
    read = DeltaTable(where.location).to_pyarrow_table()
    found = sorted(zip(read["n"].to_pylist(), read["topic"].to_pylist(), strict=True))
    assert found == [(n, f"t{n % 2}") for n in range(10)]
    assert [len(pq.read_table(file.removeprefix("file://"))) for file in delta.live_files(where).whole] == [5, 5]
    with pytest.raises(CommitRefused, match="another partitioning"):
        delta.commit(where, "q", 1, write_files([rows], delta.form(where, rows.schema).directory, "q"), rows.schema)


def test_an_iceberg_table_by_hour_takes_rows_of_several_hours(tmp_path: Path) -> None:
    from pyiceberg.transforms import HourTransform

    rows, where = timed(10, HOUR // 4), table("iceberg", tmp_path)
    iceberg.ensure(where, rows.schema)
    found = iceberg.catalog(where).load_table(where.name)
    with found.update_spec() as change:
        change.add_field("store_timestamp", HourTransform())
    iceberg.ensure(where, rows.schema)
    rules = iceberg.form(where, rows.schema).rules
    assert rules == (PartitionRule("store_timestamp", "hour"),)
    files = write_files([rows], iceberg.form(where, rows.schema).directory, "q", rules)
    assert len(files) == 3, "ten quarters of an hour are in three hours"
    assert iceberg.commit(where, "q", 0, files, rows.schema)
    assert len(files_below(tmp_path)) == 3
    assert sorted(iceberg.catalog(where).load_table(where.name).scan().to_arrow()["n"].to_pylist()) == list(range(10))


def test_partitions_that_are_not_written_here_are_refused(tmp_path: Path) -> None:
    from pyiceberg.transforms import IdentityTransform

    rows, where = timed(1, 1), table("iceberg", tmp_path)
    iceberg.ensure(where, rows.schema)
    with iceberg.catalog(where).load_table(where.name).update_spec() as change:
        change.add_field("store_timestamp", IdentityTransform())
    with pytest.raises(Unsupported, match=r"partitioned by store_timestamp, a column of .* Nothing was written"):
        iceberg.ensure(where, rows.schema)


def test_names_of_icebergs_own_columns_are_refused_before_a_file_is_written(tmp_path: Path) -> None:
    where, rows = table("iceberg", tmp_path), pa.schema([("id", pa.int64()), ("_row_id", pa.string())])
    with pytest.raises(SettingsError, match=r"columns of its own called _row_id.*Rename the fields"):
        iceberg.ensure(where, rows)
    assert not committer(where).exists(where)


def test_delta_tables_with_rules_of_their_own_are_refused(tmp_path: Path) -> None:
    from deltalake import DeltaTable, Schema

    where = table("delta", tmp_path)
    made = DeltaTable.create(where.location, schema=Schema.from_arrow(ORDERS))
    made.alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(Unsupported, match=r"has delta.constraints.positive = id > 0"):
        delta.ensure(where, ORDERS)


def test_so_many_files_are_open_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firearrow.spark.lake.files.MOST_OPEN", 2)
    files = write_files([timed(8, HOUR)], str(tmp_path), "p", (PartitionRule("store_timestamp", "hour"),))
    assert sorted(file.rows for file in files) == [1] * 8


def test_places_are_called_as_each_library_calls_them() -> None:
    for place in ("s3://lake/a", "s3a://lake/a", "s3n://lake/a"):
        assert (for_spark(place), for_python(place)) == ("s3a://lake/a", "s3://lake/a")
    assert for_spark("/data/lake") == for_python("/data/lake") == "/data/lake"
    settings = {"s3.endpoint": "http://127.0.0.1:9000", "s3.access-key-id": "k", "s3.secret-access-key": "s"}
    found, path = filesystem("s3a://lake/orders/", {**settings, "s3.region": "us-east-1"})
    assert (found.type_name, path) == ("s3", "lake/orders")
    assert delta_settings(settings) == {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    assert delta_settings({}) is None
