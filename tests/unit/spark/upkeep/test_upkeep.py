"""Upkeep of tables without Spark: compaction, deletion, expiry and orphan files, alone and beside another writer."""

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyiceberg.catalog import load_catalog

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake import delta, iceberg
from firearrow.spark.lake.files import CommitRefused, write_files
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep import delta as delta_upkeep
from firearrow.spark.upkeep import iceberg as iceberg_upkeep
from firearrow.spark.upkeep.maintain import maintain
from firearrow.spark.upkeep.work import MIN_ORPHAN_MS, StepResult, Upkeep
from tests.spark.readers import by_duckdb, by_python

BOTH = pytest.mark.parametrize("form", ["iceberg", "delta"])
MODULES = {"iceberg": iceberg, "delta": delta}
PARTED = pytest.mark.parametrize("by", ["", "topic"])
SCHEMA = pa.schema([("id", pa.int32()), ("topic", pa.string()), ("store_timestamp", pa.timestamp("us", "UTC"))])
BEGAN = datetime(2026, 5, 1, tzinfo=UTC)
COMPACT = Upkeep(compact=True, min_files=2)
DAY_MS = 86_400_000


def table(form: str, directory: Path, by: str = "") -> LakeTable:
    name = "shop.orders" if form == "iceberg" else ""
    return LakeTable(form, str(directory / form), name, partition_by=by, evolve="widen").checked()  # type: ignore[arg-type]


def row(number: int) -> dict[str, Any]:
    return {"id": number, "topic": (None, "a", "b%c")[number % 3], "store_timestamp": BEGAN + timedelta(days=number)}


def append(where: LakeTable, batch: int, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> bool:
    module = MODULES[where.format]
    target = module.ensure(where, schema)
    made = pa.RecordBatch.from_pylist(rows, schema=target if where.partition_by else schema)
    form = module.form(where, made.schema)
    added: bool = module.commit(where, "q", batch, write_files([made], form.directory, "q", form.rules), made.schema)
    return added


def filled(where: LakeTable, batches: int) -> LakeTable:
    """A table of batches with three rows each."""
    for batch in range(batches):
        assert append(where, batch, [row(3 * batch + number) for number in range(3)])
    return where


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda each: int(each["id"]))


def do(where: LakeTable, work: Upkeep, now: datetime | None = None) -> list[StepResult]:
    now_ms = int((now or datetime.now(UTC)).timestamp() * 1000)
    return list(maintain(where, work, now_ms))


def live(where: LakeTable) -> list[str]:
    module = MODULES[where.format]
    files = module.live_files(where)
    return [file.removeprefix("file://") for file in (*files.whole, *files.bare)]


def on_disk(where: LakeTable) -> list[str]:
    return sorted(str(path) for path in Path(where.location).rglob("*.parquet") if "_delta_log" not in str(path))


def require_rows(where: LakeTable, numbers: list[int]) -> None:
    for read in (by_python, by_duckdb):
        assert by_id(read(where)) == [row(number) for number in numbers], read


@BOTH
@PARTED
def test_small_files_become_few_and_rows_stay(form: str, by: str, tmp_path: Path) -> None:
    where = filled(table(form, tmp_path, by), 8)
    partitions = 3 if by else 1
    assert len(live(where)) == 8 * partitions
    assert do(where, COMPACT) == [StepResult("compact", 8 * partitions, partitions)]
    assert len(live(where)) == partitions
    require_rows(where, list(range(24)))
    assert do(where, COMPACT) == [StepResult("compact")], "nothing is left to do"
    assert not append(where, 7, [row(0)]), "batches are still known"
    assert append(where, 8, [row(24)])
    require_rows(where, list(range(25)))


@BOTH
def test_files_with_older_columns_are_compacted_too(form: str, tmp_path: Path) -> None:
    where = table(form, tmp_path)
    append(where, 0, [{"id": 1, "topic": "a"}], SCHEMA)
    wide = pa.schema([("id", pa.int64() if form == "iceberg" else pa.int32()), ("more", pa.string())])
    append(where, 1, [{"id": 2, "more": "m"}], wide)
    assert do(where, COMPACT) == [StepResult("compact", 2, 1)]
    wanted = [
        {"id": 1, "topic": "a", "store_timestamp": None, "more": None},
        {"id": 2, "topic": None, "store_timestamp": None, "more": "m"},
    ]
    for read in (by_python, by_duckdb):
        assert by_id(read(where)) == wanted, read


@BOTH
@PARTED
def test_a_deleted_key_is_in_no_live_file_and_then_in_none(form: str, by: str, tmp_path: Path) -> None:
    where = filled(table(form, tmp_path, by), 4)
    append(where, 4, [{"id": 99, "topic": None, "store_timestamp": None}])
    (done,) = do(where, Upkeep(delete_where="id = 7 or id = 8"))
    assert (done.step, done.rows) == ("delete", 2)

    def ids(files: list[str]) -> list[int]:
        return sorted(number for file in files for number in pq.ParquetFile(file).read(["id"])["id"].to_pylist())

    kept = [number for number in range(12) if number not in (7, 8)]
    assert ids(live(where)) == [*kept, 99]
    assert {7, 8} <= set(ids(on_disk(where))), "older versions still have it"
    (again,) = do(where, Upkeep(delete_where="id = 7 or id = 8"))
    assert again == StepResult("delete")
    do(where, Upkeep(expire_ms=0), datetime.now(UTC) + timedelta(seconds=5))
    assert ids(on_disk(where)) == [*kept, 99]
    assert by_id(by_duckdb(where))[:-1] == [row(number) for number in kept]
    assert not append(where, 4, [row(0)]), "batches are still known"


@BOTH
@PARTED
def test_rows_grow_old(form: str, by: str, tmp_path: Path) -> None:
    where = filled(table(form, tmp_path, by), 4)
    now = BEGAN + timedelta(days=20)
    (done,) = do(where, Upkeep(ttl_ms=15 * DAY_MS), now)
    assert (done.step, done.rows) == ("ttl", 5)
    require_rows(where, list(range(5, 12)))
    with pytest.raises(SettingsError, match=r"has no column born_at; name a column of times"):
        do(where, Upkeep(ttl_ms=1, ttl_column="born_at"))


@BOTH
def test_expired_versions_leave_no_files(form: str, tmp_path: Path) -> None:
    where = filled(table(form, tmp_path), 6)
    do(where, COMPACT)
    assert len(on_disk(where)) == 7
    do(where, Upkeep(expire_ms=DAY_MS))
    assert len(on_disk(where)) == 7, "younger than a day"
    (done,) = do(where, Upkeep(expire_ms=0), datetime.now(UTC) + timedelta(seconds=5))
    assert done.step == "expire"
    assert done.files >= 6
    assert on_disk(where) == live(where)
    require_rows(where, list(range(18)))
    assert not append(where, 5, [row(0)])
    assert append(where, 6, [row(18)])
    require_rows(where, list(range(19)))


@BOTH
@PARTED
def test_orphan_files_are_removed_when_they_are_old(form: str, by: str, tmp_path: Path) -> None:
    where = filled(table(form, tmp_path, by), 3)
    do(where, COMPACT)
    directory = MODULES[form].form(where, SCHEMA).directory
    made = pa.RecordBatch.from_pylist([row(1)], schema=SCHEMA)
    (old,), (young,) = (write_files([made], directory, "killed") for _ in range(2))
    known = on_disk(where)
    month_ago = datetime.now(UTC).timestamp() - 30 * 86_400
    for path in Path(where.location).rglob("*"):
        if path.is_file() and str(path) != young.path and path.suffix != ".db":
            os.utime(path, (month_ago, month_ago))
    (done,) = do(where, Upkeep(orphans_ms=3 * DAY_MS))
    assert done == StepResult("orphans", 1)
    assert on_disk(where) == [path for path in known if path != old.path], "files of older versions stay"
    require_rows(where, list(range(9)))
    with pytest.raises(SettingsError, match="at least 1h"):
        do(where, Upkeep(orphans_ms=MIN_ORPHAN_MS - 1))


@BOTH
@PARTED
def test_a_stream_of_small_batches_is_compacted_and_cleaned_beside_it(form: str, by: str, tmp_path: Path) -> None:
    where, least = filled(table(form, tmp_path, by), 1), 30
    done: list[list[StepResult]] = []
    refused = 0
    stream = Stream(where, until=lambda batch: batch >= least and len(done) >= 3)
    with stream:
        while stream.is_going:
            try:
                done.append(do(where, replace(COMPACT, delete_where="id = 4", expire_ms=0)))
            except CommitRefused:  # on a busy machine: it says to run again when fewer batches are written
                stream.interval_s *= 2
                refused += 1
    assert sum(each.files for steps in done for each in steps if each.step == "compact") >= 2, done
    assert sum(each.rows for steps in done for each in steps) == 1 or refused, done
    do(where, replace(COMPACT, expire_ms=0), datetime.now(UTC) + timedelta(seconds=5))
    assert len(live(where)) <= (3 if by else 1)
    assert on_disk(where) == sorted(live(where))
    require_rows(where, [number for number in range(3 * stream.batches) if number != 4])


class Stream:
    """A writer in a thread that commits batches of three rows, one after the other."""

    def __init__(self, where: LakeTable, until: Callable[[int], bool]) -> None:
        self._where, self._until = where, until
        self._ended, self._thread = threading.Event(), threading.Thread(target=self._run)
        self.batches, self._failures = 1, list[BaseException]()
        self.interval_s = 0.05

    @property
    def is_going(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._ended.set()
        self._thread.join()
        assert self._failures == []

    def _run(self) -> None:
        try:
            while not self._until(self.batches) and not self._ended.wait(self.interval_s):
                rows = [row(3 * self.batches + number) for number in range(3)]
                assert append(self._where, self.batches, rows)
                self.batches += 1
        except BaseException as wrong:  # noqa: BLE001 - told by the test
            self._failures.append(wrong)


def test_a_table_of_another_writer_is_compacted_and_read(tmp_path: Path) -> None:
    where = table("iceberg", tmp_path)
    Path(where.location).mkdir()
    place = {"uri": f"sqlite:///{where.location}/{iceberg.LOCAL_CATALOG}", "warehouse": where.location}
    known = load_catalog("firearrow", type="sql", **place)
    known.create_namespace("shop")
    made = known.create_table(where.name, SCHEMA)
    for number in range(3):
        made.append(pa.Table.from_pylist([row(number)], schema=SCHEMA))
    assert do(where, COMPACT) == [StepResult("compact", 3, 1)]
    require_rows(where, [0, 1, 2])


def crossing(monkeypatch: pytest.MonkeyPatch, holder: object, name: str, first: Callable[[], object]) -> None:
    """Do something else right before a function is called for the first time."""
    step, calls = getattr(holder, name), []

    def crossed(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            first()
        return step(*arguments, **named)

    monkeypatch.setattr(holder, name, crossed)


def test_a_batch_that_crosses_a_compaction_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = filled(table("iceberg", tmp_path), 4)
    crossing(monkeypatch, iceberg_upkeep, "_commit", lambda: append(where, 4, [row(12)]))
    assert do(where, COMPACT) == [StepResult("compact", 4, 1)]
    assert len(live(where)) == 2
    assert len(on_disk(where)) == 6, "the second attempt wrote no file"
    require_rows(where, list(range(13)))


def test_two_compactions_that_cross_keep_every_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = filled(table("iceberg", tmp_path), 4)
    crossing(monkeypatch, iceberg_upkeep, "_replace", lambda: do(where, COMPACT))
    assert do(where, COMPACT) == [StepResult("compact")], "its files are gone already"
    assert len(live(where)) == 1
    assert len(on_disk(where)) == 5, "what it wrote in vain is removed"
    require_rows(where, list(range(12)))


def test_a_row_that_comes_while_rows_are_deleted_is_deleted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = filled(table("iceberg", tmp_path), 4)
    crossing(monkeypatch, iceberg_upkeep, "_commit", lambda: append(where, 4, [row(7), row(12)]))
    (done,) = do(where, Upkeep(delete_where="id = 7"))
    assert (done.files, done.rows) == (2, 2)
    require_rows(where, [number for number in range(13) if number != 7])


@BOTH
def test_what_cannot_be_done_is_said(form: str, tmp_path: Path) -> None:
    where = filled(table(form, tmp_path), 1)
    for wrong in ("no_such = 1", "id =", "id = 'x'"):
        with pytest.raises(SettingsError) as caught:
            do(where, Upkeep(delete_where=wrong))
        assert len(str(caught.value).splitlines()) == 1
    require_rows(where, [0, 1, 2])
    with pytest.raises(SettingsError, match="nothing to do: give --compact"):
        do(where, Upkeep())
    with pytest.raises(SettingsError, match="--ttl-column is about --ttl"):
        do(where, Upkeep(compact=True, ttl_column="id"))
    missing = LakeTable(where.format, str(tmp_path / "no"), "shop.no" if where.name else "")
    with pytest.raises(SettingsError, match=f"there is no {form} table"):
        do(missing, COMPACT)
    with pytest.raises(Unsupported, match="plain Parquet"):
        do(LakeTable("parquet", "/x"), COMPACT)


def test_a_deletion_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for form, upkeep in (("iceberg", iceberg_upkeep), ("delta", delta_upkeep)):
        where = filled(table(form, tmp_path), 1)
        monkeypatch.setattr(upkeep, "PASSES", 0)
        with pytest.raises(Unsupported, match="came as fast as they were deleted"):
            do(where, Upkeep(delete_where="id = 1"))


def test_a_table_that_changes_all_the_time_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = filled(table("iceberg", tmp_path), 2)
    batches = iter(range(2, 100))
    step = iceberg_upkeep._commit

    def crossed(*arguments: Any) -> None:
        number = next(batches)
        append(where, number, [row(4 + number)])
        step(*arguments)

    monkeypatch.setattr(iceberg_upkeep, "_commit", crossed)
    monkeypatch.setattr(iceberg_upkeep, "ATTEMPTS", 3)
    with pytest.raises(CommitRefused, match="before every attempt to commit"):
        do(where, COMPACT)
    require_rows(where, list(range(9)))


class Killed(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("is_done", [False, True])
def test_a_kill_at_the_commit_leaves_every_row_once(
    is_done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    where, step = filled(table("iceberg", tmp_path), 4), SqlCatalog.commit_table

    def killed(*arguments: Any) -> None:
        if is_done:
            step(*arguments)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", killed)
        with pytest.raises(Killed):
            do(where, COMPACT)
    require_rows(where, list(range(12)))
    assert len(live(where)) == (1 if is_done else 4)
    assert do(where, COMPACT) == [StepResult("compact") if is_done else StepResult("compact", 4, 1)]
    require_rows(where, list(range(12)))


def test_what_deltalake_rebases_on_a_batch_that_came_meanwhile(tmp_path: Path) -> None:
    from deltalake.exceptions import CommitFailedError

    where = filled(table("delta", tmp_path), 4)
    before = delta.opened(where)
    append(where, 4, [row(12)])
    before.optimize.compact()
    require_rows(where, list(range(13)))
    before = delta.opened(where)
    append(where, 5, [row(13)])
    before.delete(f"store_timestamp < '{BEGAN + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}'")
    require_rows(where, list(range(2, 14)))
    before = delta.opened(where)
    append(where, 6, [row(16)])
    with pytest.raises(CommitFailedError):  # by its statistics the new file may have a row that matches
        before.delete("topic = 'a'")
    (done,) = do(where, Upkeep(delete_where="topic = 'a'"))
    assert done.rows == 5
    require_rows(where, [number for number in range(2, 14) if number % 3 != 1])


def test_conditions_on_inner_fields_and_nulls(tmp_path: Path) -> None:
    where = table("iceberg", tmp_path)
    schema = pa.schema([("id", pa.int32()), ("inner", pa.struct([("a", pa.int32())]))])
    append(where, 0, [{"id": n, "inner": {"a": n % 3} if n else None} for n in range(6)], schema)
    (done,) = do(where, Upkeep(delete_where="inner.a = 1"))
    assert done.rows == 2
    assert [each["id"] for each in by_id(by_python(where))] == [0, 2, 3, 5]
    (done,) = do(where, Upkeep(delete_where="id > 1 and id not in (2, 5)"))
    assert [each["id"] for each in by_id(by_duckdb(where))] == [0, 2, 5]


@BOTH
@pytest.mark.parametrize("where", ["topic not in ('a', 'c')", "not (topic in ('a', 'c'))", "not (topic = 'a')"])
def test_rows_of_which_a_condition_is_null_stay(tmp_path: Path, form: str, where: str) -> None:
    orders = filled(table(form, tmp_path), 1)
    list(maintain(orders, Upkeep(delete_where=where), 0))
    assert {each["topic"] for each in by_python(orders)} == {None, "a"}


def test_orphans_leaves_what_is_none_of_the_tables_files(tmp_path: Path) -> None:
    where = filled(table("delta", tmp_path), 1)
    for name in ("checkpoint/offsets/0", "other/data/f.parquet"):
        strange = tmp_path / "delta" / name
        strange.parent.mkdir(parents=True)
        strange.write_bytes(b"v1")
        os.utime(strange, (0, 0))
        with pytest.raises(SettingsError, match=f"{name} lies below .* Nothing was removed"):
            do(where, Upkeep(orphans_ms=30 * DAY_MS))
        assert strange.exists()
        strange.unlink()
