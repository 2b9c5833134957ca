"""Committers without Spark: a batch is added once, whatever is repeated, and in any format."""

import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import CommitFailedError
from pyiceberg.exceptions import CommitFailedException

from firearrow.errors import SettingsError
from firearrow.spark.lake import delta, files, iceberg
from firearrow.spark.lake.files import CommitRefused, write_files
from firearrow.spark.lake.table import LakeTable, beside, table_of

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("queue_offset", pa.int64()),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("store_timestamp", pa.timestamp("us", "UTC")),
    ]
)


CONFLICTS = [("iceberg", iceberg, CommitFailedException), ("delta", delta, CommitFailedError)]


def rows(start: int, count: int) -> list[pa.RecordBatch]:
    offsets = list(range(start, start + count))
    return [
        pa.RecordBatch.from_pydict(
            {
                "topic": ["t"] * count,
                "queue_offset": offsets,
                "body": [str(offset).encode() for offset in offsets],
                "properties": [[("k", str(offset))] for offset in offsets],
                "store_timestamp": [datetime.fromtimestamp(offset, UTC) for offset in offsets],
            },
            schema=SCHEMA,
        )
    ]


def table(form: str, directory: Path) -> LakeTable:
    name = "shop.orders" if form == "iceberg" else ""
    return LakeTable(form, str(directory / form), name).checked()  # type: ignore[arg-type]


def stored(module: ModuleType, where: LakeTable) -> list[int]:
    found: list[int] = []
    for file in module.live_files(where).whole:
        found += pq.read_table(file.removeprefix("file://"), columns=["queue_offset"])["queue_offset"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize(("form", "module"), [("iceberg", iceberg), ("delta", delta)])
def test_a_batch_is_added_once(form: str, module: ModuleType, tmp_path: Path) -> None:
    where = table(form, tmp_path)
    module.ensure(where, SCHEMA)
    module.ensure(where, SCHEMA)
    directory = module.form(where, SCHEMA).directory
    first = write_files(rows(0, 10), directory, "q-0")
    again = write_files(rows(0, 10), directory, "q-0")
    assert module.commit(where, "q", 0, first, SCHEMA)
    assert not module.commit(where, "q", 0, again, SCHEMA), "a repeat of batch 0 adds nothing"
    assert module.commit(where, "q", 1, write_files(rows(10, 5), directory, "q-1"), SCHEMA)
    assert not module.commit(where, "q", 0, again, SCHEMA), "nor does one that comes late"
    other = write_files(rows(15, 1), directory, "o-0")
    assert module.commit(where, "other", 0, other, SCHEMA), "another writer counts apart"
    assert stored(module, where) == list(range(16))
    assert module.schema(where).names == SCHEMA.names


@pytest.mark.parametrize(("form", "module"), [("iceberg", iceberg), ("delta", delta)])
def test_a_commit_that_meets_another_looks_again(
    form: str, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = table(form, tmp_path)
    module.ensure(where, SCHEMA)
    directory = module.form(where, SCHEMA).directory
    files = write_files(rows(0, 3), directory, "q")
    add, calls = module._add, []

    def crossed(*arguments: object) -> None:
        calls.append(1)
        if len(calls) == 1:
            add(*arguments)  # an earlier life of the batch lands between the look and the commit
            raise _conflict(form)
        add(*arguments)

    monkeypatch.setattr(module, "_add", crossed)
    assert not module.commit(where, "q", 0, files, SCHEMA)
    assert stored(module, where) == [0, 1, 2]


@pytest.mark.parametrize(("form", "module"), [("iceberg", iceberg), ("delta", delta)])
def test_a_batch_that_two_drivers_commit_at_once_is_added_once(
    form: str, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = table(form, tmp_path)
    module.ensure(where, SCHEMA)
    directory = module.form(where, SCHEMA).directory
    one, two = (write_files(rows(0, 3), directory, "q") for _ in range(2))
    with monkeypatch.context() as patched:
        holder, name = _last_step(form)
        step, calls = getattr(holder, name), []

        def crossed(*arguments: object, **named: object) -> object:
            calls.append(1)
            if len(calls) == 1:  # the files are in the commit, and another driver is faster with its own
                assert module.commit(where, "q", 0, two, SCHEMA)
            return step(*arguments, **named)

        patched.setattr(holder, name, crossed)
        assert not module.commit(where, "q", 0, one, SCHEMA)
    assert stored(module, where) == [0, 1, 2]


def _last_step(form: str) -> tuple[type, str]:
    if form == "delta":
        from deltalake import DeltaTable

        return DeltaTable, "create_write_transaction"
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog, "commit_table"


def _conflict(form: str) -> Exception:
    if form == "delta":
        from deltalake.exceptions import CommitFailedError

        return CommitFailedError("crossed")
    from pyiceberg.exceptions import CommitFailedException

    return CommitFailedException("crossed")


def test_files_say_what_is_in_them_and_never_share_a_name(tmp_path: Path) -> None:
    (one,) = write_files(rows(5, 100), str(tmp_path), "p")
    (two,) = write_files(rows(5, 100), str(tmp_path), "p")
    assert one.path != two.path
    assert (one.rows, one.size) == (100, Path(one.path).stat().st_size)
    bounds = one.bounds["queue_offset",]
    assert (bounds.low, bounds.high, bounds.nulls) == (5, 104, 0)
    assert one.bounds["store_timestamp",].high == datetime.fromtimestamp(104, UTC)
    assert write_files([], str(tmp_path), "p") == []


def test_large_writes_are_cut_into_row_groups_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firearrow.spark.lake.files.ROW_GROUP_BYTES", 4_000)
    monkeypatch.setattr("firearrow.spark.lake.files.FILE_BYTES", 8_000)
    pieces = (batch for start in range(0, 3_000, 100) for batch in rows(start, 100))
    files = write_files(pieces, str(tmp_path), "p")
    assert len(files) > 1
    assert sum(file.rows for file in files) == 3_000
    assert files[0].bounds["queue_offset",].low == 0
    assert files[-1].bounds["queue_offset",].high == 2_999


def test_tables_travel_as_options() -> None:
    where = LakeTable(
        "iceberg", "/w", "shop.orders", {"uri": "sqlite:////w/c.db"}, storage={"s3.endpoint": "http://h:1"}
    )
    assert table_of(where.options()) == where
    assert beside(where, "typed").name == "shop.orders_typed"
    assert beside(where, "typed").storage == where.storage
    assert beside(LakeTable("delta", "/d/"), "typed").location == "/d_typed"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (LakeTable("iceberg", "/w", "orders"), "name with its namespace"),
        (LakeTable("delta"), "needs a location"),
        (LakeTable("delta", "lake/orders"), "absolute path"),
        (LakeTable("iceberg", native=True), "name in Spark's catalog"),
        (LakeTable("iceberg", "s3://lake/w", "a.b"), "needs a catalog"),
        (LakeTable("delta", "/d", storage={"s3.region": "x", "region": "y"}), "no storage setting region"),
        (LakeTable("iceberg", name="c.a.b", native=True, storage={"s3.region": "x"}), "settings of Spark's catalog"),
        (LakeTable("orc", "/x"), "not 'orc'"),  # type: ignore[arg-type]
    ],
)
def test_tables_that_say_too_little_are_refused(wrong: LakeTable, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        wrong.checked()


@pytest.mark.parametrize(("form", "module", "error"), CONFLICTS)
def test_a_commit_goes_on_while_other_writers_come_first(
    form: str, module: ModuleType, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = table(form, tmp_path)
    module.ensure(where, SCHEMA)
    made = write_files(rows(0, 3), module.form(where, SCHEMA).directory, "q")
    add = module._add
    lost: list[float] = []

    def late(*given: object) -> None:
        if len(lost) < 12:
            lost.append(time.monotonic())
            raise error("another writer was first")
        add(*given)

    monkeypatch.setattr(module, "_add", late)
    monkeypatch.setattr(files, "LONGEST_PAUSE_S", 0.1)
    assert module.commit(where, "q", 0, made, SCHEMA)
    assert stored(module, where) == [0, 1, 2]
    pauses = [later - earlier for earlier, later in pairwise(lost)]
    assert min(pauses) >= files.FIRST_PAUSE_S / 2, "writers that meet wait before they try again"


@pytest.mark.parametrize(("form", "module", "error"), CONFLICTS)
def test_a_commit_that_others_prevent_for_good_says_what_to_do(
    form: str, module: ModuleType, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = table(form, tmp_path)
    module.ensure(where, SCHEMA)
    made = write_files(rows(0, 3), module.form(where, SCHEMA).directory, "q")

    def never(*_: object) -> None:
        raise error("another writer was first")

    monkeypatch.setattr(module, "_add", never)
    monkeypatch.setattr(files, "LONGEST_PAUSE_S", 0.01)
    with pytest.raises(CommitRefused, match=r"before each of 20 attempts.*nothing is lost: start the job again"):
        module.commit(where, "q", 0, made, SCHEMA)
    assert stored(module, where) == []
