"""Rows changed by key: the table is the fold of all changes, however they are cut into batches and wherever it died."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake import changes, delta, delta_changes, delta_log, iceberg, iceberg_changes
from firearrow.spark.lake.files import write_files
from firearrow.spark.lake.fit import DoesNotFit
from firearrow.spark.lake.iceberg import catalog
from firearrow.spark.lake.keys import DELETED
from firearrow.spark.lake.order import RowPlace
from firearrow.spark.lake.table import LakeTable

FORMATS = ("iceberg", "delta")
KEY = ("id", "shop")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLACES = [
    pa.field("_topic", pa.string()),
    pa.field("_broker", pa.string()),
    pa.field("_queue_id", pa.int32()),
    pa.field("_queue_offset", pa.int64()),
    pa.field("_store_timestamp", pa.timestamp("us", "UTC")),
]
FIELDS = [pa.field("id", pa.int64()), pa.field("shop", pa.string()), pa.field("name", pa.string())]
SCHEMA = pa.schema([*PLACES, pa.field("_version", pa.int64()), *FIELDS])
CHANGES = SCHEMA.append(pa.field(DELETED, pa.bool_()))
Change = dict[str, Any]


def table_at(form: str, directory: Path, **more: Any) -> LakeTable:
    named = "shop.orders" if form == "iceberg" else ""
    table = LakeTable(form, str(directory / form), named, **more)  # type: ignore[arg-type]
    module = {"iceberg": iceberg, "delta": delta}[form]
    module.ensure(table, SCHEMA)
    gone = changes.gone_columns(SCHEMA.names, KEY)
    module.ensure(changes.gone_table(table), pa.schema([SCHEMA.field(name) for name in gone]))
    return table


def rows_of(table: LakeTable) -> list[Change]:
    if table.format == "delta":
        from deltalake import DeltaTable

        found: list[Change] = DeltaTable(table.location).to_pyarrow_table().to_pylist()
        return found
    read: list[Change] = catalog(table).load_table(table.name).scan().to_arrow().to_pylist()
    return read


def change(chance: random.Random, number: int, queues: int, versioned: bool) -> Change:
    queue = chance.randrange(queues)
    return {
        "_topic": "t", "_broker": "b", "_queue_id": queue, "_queue_offset": number,
        "_store_timestamp": NOON + timedelta(milliseconds=number),
        "_version": chance.choice([None, *range(number + 1)]) if versioned else None,
        "id": chance.randrange(5), "shop": chance.choice("ab"), "name": f"n{number}", DELETED: chance.random() < 0.3,
    }  # fmt: skip


def place(row: Change) -> RowPlace:
    return RowPlace(row["_version"], "t", "b", row["_queue_id"], row["_queue_offset"], row["_store_timestamp"])


def fold(given: Sequence[Change]) -> dict[tuple[int, str], Change]:
    """The last change of every key, by hand."""
    last: dict[tuple[int, str], Change] = {}
    for row in given:
        name = (row["id"], row["shop"])
        if name not in last or place(row).is_after(place(last[name])):
            last[name] = row
    return last


def expected(given: Sequence[Change]) -> dict[tuple[int, str], str]:
    return {name: row["name"] for name, row in fold(given).items() if not row[DELETED]}


def apply(table: LakeTable, batch: Sequence[Change]) -> None:
    changes.apply(table, pa.Table.from_pylist(list(fold(batch).values()), CHANGES), KEY)


def held(table: LakeTable) -> dict[tuple[int, str], str]:
    rows = rows_of(table)
    found = {(row["id"], row["shop"]): row["name"] for row in rows}
    assert len(found) == len(rows), "a key stands in the table once"
    return found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("versioned", "by"), [(False, ""), (True, ""), (False, "shop"), (True, "_queue_id, shop")])
def test_the_table_is_the_fold_however_the_queues_are_cut(tmp_path: Path, form: str, versioned: bool, by: str) -> None:
    chance = random.Random(f"{form} {versioned}")
    table = table_at(form, tmp_path, partition_by=by)
    given = [change(chance, number, 3, versioned) for number in range(48)]
    # Each queue is read in its order, at its own speed: later versions of a key may come before earlier ones.
    queues = [[row for row in given if row["_queue_id"] == queue] for queue in range(3)]
    seen: list[Change] = []
    while any(queues):
        batch = [row for queue in queues for row in [queue.pop(0) for _ in range(min(len(queue), chance.randrange(8)))]]
        if batch:
            apply(table, batch)
            seen += batch
            assert held(table) == expected(seen)


@pytest.mark.parametrize("form", FORMATS)
def test_a_batch_is_applied_once_wherever_it_died(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(form)
    table, real, seen = table_at(form, tmp_path), changes.replace, []
    commits = [0]

    def dying(step: int, before: bool) -> Any:
        def replace(*given: Any, **more: Any) -> None:
            commits[0] += 1
            if commits[0] == step and before:
                raise ConnectionError("died")
            real(*given, **more)
            if commits[0] == step:
                raise ConnectionError("died")

        return replace

    deaths = 0
    for number in range(8):
        batch = [change(chance, 10 * number + each, 2, False) for each in range(10)]
        step, before = 1 + number % 2, number % 4 < 2
        commits[0] = 0
        monkeypatch.setattr(changes, "replace", dying(step, before))
        with pytest.raises(ConnectionError, match="died"):
            apply(table, batch)
        deaths += 1
        monkeypatch.setattr(changes, "replace", real)
        apply(table, batch)
        seen += batch
        assert held(table) == expected(seen), (number, step, before)
    assert deaths == 8


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_changes_again_commit_nothing(tmp_path: Path, form: str) -> None:
    chance = random.Random(7)
    table = table_at(form, tmp_path)
    batch = [change(chance, number, 2, False) for number in range(30)]
    apply(table, batch)

    def versions() -> list[Any]:
        if form == "delta":
            from deltalake import DeltaTable

            return [DeltaTable(each.location).version() for each in (table, changes.gone_table(table))]
        known = catalog(table)
        names = (table.name, changes.gone_table(table).name)
        return [len(known.load_table(name).metadata.snapshots) for name in names]

    before = versions()
    apply(table, batch)
    assert versions() == before


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("by", ["", "shop"])
@pytest.mark.parametrize("key", [("name",), ("_store_timestamp",), ("price",), ("id",)])
def test_rows_of_appended_files_are_found_by_their_keys(
    tmp_path: Path, form: str, by: str, key: tuple[str, ...]
) -> None:
    chance, schema = random.Random(form), SCHEMA.append(pa.field("price", pa.decimal128(9, 2)))
    table = LakeTable(form, str(tmp_path), "a.b" if form == "iceberg" else "", partition_by=by)  # type: ignore[arg-type]
    module = {"iceberg": iceberg, "delta": delta}[form]
    module.ensure(table, schema)
    given = [{**change(chance, n, 2, False), "id": n, "name": f"it's \"{n}", "price": Decimal(n)} for n in range(9)]
    for number, row in enumerate(given):
        made, rows = module.form(table, schema), pa.Table.from_pylist([row], schema)
        files = write_files(rows.to_batches(), made.directory, "f", made.rules)
        module.commit(table, f"writer-{number}", 0, files, schema)
    gone = pa.Table.from_pylist(given[2:8:5], schema).select(key)
    changes.replace(table, gone.append_column(DELETED, pa.array([True, True])), key)
    assert sorted(row["id"] for row in rows_of(table)) == [0, 1, 3, 4, 5, 6, 8]


@pytest.mark.parametrize("by", ["bucket(2, id), hour(_store_timestamp)", "truncate(2, name)"])
def test_rows_move_between_partitions_of_iceberg(tmp_path: Path, by: str) -> None:
    chance, table = random.Random(by), table_at("iceberg", tmp_path, partition_by=by)
    given = [change(chance, 400_000 * number, 2, False) for number in range(40)]
    for start in range(0, 40, 8):
        apply(table, given[start : start + 8])
        assert held(table) == expected(given[: start + 8])
    files = catalog(table).load_table(table.name).inspect.files().to_pylist()
    assert len({tuple(file["partition"].values()) for file in files}) > 1


def evolved(rows: Sequence[Change], form: str) -> pa.Table:
    """Changes with a column more, a field more inside a column, and for Iceberg a wider type."""
    kinds = {"inner": pa.struct([("a", pa.int32()), ("b", pa.string())]), "price": pa.float64()}
    if form == "iceberg":
        kinds["small"] = pa.int64()
    schema = pa.schema([*CHANGES, *(pa.field(name, kind) for name, kind in kinds.items())])
    more = {"inner": {"a": 1, "b": "x"}, "price": 2.5, "small": 1 << 40}
    return pa.Table.from_pylist([{**row, **more} for row in fold(rows).values()], schema)


@pytest.mark.parametrize("form", FORMATS)
def test_columns_come_with_the_changes_that_have_them(tmp_path: Path, form: str) -> None:
    chance, table = random.Random(form), table_at(form, tmp_path, evolve="widen" if form == "iceberg" else "add")
    first = [change(chance, number, 2, False) for number in range(20)]
    before = pa.schema([*CHANGES, pa.field("inner", pa.struct([("a", pa.int32())])), pa.field("small", pa.int32())])
    rows = [{**row, "inner": {"a": 1}, "small": 7} for row in fold(first).values()]
    changes.apply(table, pa.Table.from_pylist(rows, before), KEY)
    later = [change(chance, number, 2, False) for number in range(20, 24)]
    changes.apply(table, evolved(later, form), KEY)
    assert held(table) == expected(first + later)
    fresh = {(row["id"], row["shop"]) for row in fold(first + later).values() if row["_queue_offset"] >= 20}
    for row in rows_of(table):
        is_fresh = (row["id"], row["shop"]) in fresh
        assert row["inner"] == ({"a": 1, "b": "x"} if is_fresh else {"a": 1, "b": None})
        assert row["price"] == (2.5 if is_fresh else None)
        assert row["small"] == (None if form == "delta" and is_fresh else 1 << 40 if is_fresh else 7)


@pytest.mark.parametrize("form", FORMATS)
def test_columns_that_the_table_may_not_have_stop_before_a_change(tmp_path: Path, form: str) -> None:
    chance, table = random.Random(form), table_at(form, tmp_path)
    batch = [change(chance, number, 2, False) for number in range(9)]
    with pytest.raises(DoesNotFit, match="it has no column inner"):
        changes.apply(table, evolved(batch, form), KEY)
    assert held(table) == {}


@pytest.mark.parametrize("form", FORMATS)
def test_another_key_is_refused(tmp_path: Path, form: str) -> None:
    table = table_at(form, tmp_path)
    changes.require_order(table, CHANGES.names, ("shop", "id"))
    with pytest.raises(SettingsError, match=r"has the key id,shop, not id\. Give --key id,shop"):
        changes.require_order(table, CHANGES.names, ("id",))
    without_version = [name for name in CHANGES.names if name != "_version"]
    with pytest.raises(SettingsError, match="Give the same --version"):
        changes.require_order(table, without_version, ("shop", "id"))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("step", range(3))
def test_a_writer_that_crosses_another_changes_nothing_that_is_later(
    tmp_path: Path, form: str, is_there: bool, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive commits while rows of a quarantine come to the same table: before each look of theirs, and behind."""
    table, chance = table_at(form, tmp_path), random.Random(form)
    module = {"iceberg": iceberg_changes, "delta": delta_changes}[form]

    def row(offset: int, name: int, deleted: bool) -> Change:
        own = {"id": name, "shop": "a", "name": f"at {offset}", DELETED: deleted}
        return {**change(chance, offset, 1, False), "_queue_id": 0, **own}

    if is_there:
        apply(table, [row(1, 1, False), row(2, 2, False)])
    newest, looks = [row(20, 1, False), row(21, 2, True)], [0]

    def crossed(real: Any) -> Any:
        def look(*given: Any) -> Any:
            found = real(*given)
            looks[0] += 1
            if looks[0] == step + 1:
                apply(table, newest)
            return found

        return look

    with monkeypatch.context() as patched:
        for look in ("_rows_near", "version"):
            patched.setattr(module, look, crossed(getattr(module, look)))
        apply(table, [row(5, 1, False), row(6, 2, False)])
    if looks[0] <= step:
        pytest.fail(f"there were {looks[0]} looks")
    assert held(table) == {(1, "a"): "at 20"}


@pytest.mark.parametrize("what", ["update", "insert", "delete"])
def test_a_writer_that_adds_a_column_crosses_another_and_changes_nothing_that_is_later(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of Delta are added in a commit of their own, which goes behind that of the other writer."""
    table, chance = table_at("delta", tmp_path, evolve="add"), random.Random(what)
    real = delta_log.add_columns
    crossed: list[str] = []

    def row(offset: int, name: int, deleted: bool = False) -> Change:
        own = {"id": name, "shop": "a", "name": f"at {offset}", DELETED: deleted}
        return {**change(chance, offset, 1, False), "_queue_id": 0, **own}

    def crossing(found: Any, compared: Any) -> None:
        if not crossed:
            crossed.append(what)
            apply(table, [row(20, 1, what == "delete")])
        real(found, compared)

    if what != "insert":
        apply(table, [row(1, 1)])
    monkeypatch.setattr(delta_log, "add_columns", crossing)
    schema = CHANGES.append(pa.field("price", pa.float64()))
    batch = [{**row(5, 1), "price": 2.5}, {**row(6, 2), "price": 3.5}]
    changes.apply(table, pa.Table.from_pylist(batch, schema), KEY)
    assert crossed
    newest = {} if what == "delete" else {(1, "a"): "at 20"}
    assert held(table) == newest | {(2, "a"): "at 6"}
    assert {row["id"]: row["price"] for row in rows_of(table)}[2] == 3.5


@pytest.mark.parametrize("form", FORMATS)
def test_deleted_keys_are_read_once_a_batch(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, chance = table_at(form, tmp_path), random.Random(form)
    module = {"iceberg": iceberg_changes, "delta": delta_changes}[form]
    apply(table, [change(chance, number, 2, False) for number in range(20)])
    reads, real = [], module.rows_near

    def counted(read: LakeTable, *given: Any) -> Any:
        reads.append(read)
        return real(read, *given)

    monkeypatch.setattr(module, "rows_near", counted)
    batch = [change(chance, number, 2, False) for number in range(20, 40)]
    assert any(row[DELETED] for row in batch)
    apply(table, batch)
    assert reads == [changes.gone_table(table)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_that_was_filled_by_appends_is_not_changed_by_key(tmp_path: Path, form: str) -> None:
    changes.require_by_key(table_at(form, tmp_path / "by-key"))
    table = LakeTable(form, str(tmp_path / "new"), "a.b" if form == "iceberg" else "")  # type: ignore[arg-type]
    changes.require_by_key(table)
    {"iceberg": iceberg, "delta": delta}[form].ensure(table, CHANGES)
    with pytest.raises(SettingsError, match="was filled by appends"):
        changes.require_by_key(table)


def test_tables_whose_rows_cannot_change_are_refused() -> None:
    with pytest.raises(Unsupported, match="Parquet"):
        changes.require_changeable(LakeTable("parquet", "/t"))
    with pytest.raises(Unsupported, match="leave --native out"):
        changes.require_changeable(LakeTable("delta", "/t", native=True))
