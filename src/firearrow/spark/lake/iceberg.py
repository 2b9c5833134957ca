"""Iceberg tables through pyiceberg: made, compared with the rows, appended to exactly once, listed.

One commit adds the files of a batch, changes the columns if they may change, and notes the batch in a property of the
table, in one transaction: ``firearrow.sink.<writer>.last-batch``. A noted batch is not added again, however often Spark
repeats it.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from firearrow.errors import Unsupported
from firearrow.spark.lake import fit
from firearrow.spark.lake.catalogs import kind_of
from firearrow.spark.lake.files import DataFile, LiveFiles, TableForm, commit_attempts, require_cut
from firearrow.spark.lake.fit import Fit
from firearrow.spark.lake.partitioning import PartitionRule, Rules, iceberg_values, require_same, require_supported
from firearrow.spark.lake.storage import filesystem, for_python, known
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile as ManifestFile
    from pyiceberg.table import Table, Transaction

LOCAL_CATALOG: Final = "firearrow.db"


def catalog(table: LakeTable) -> "Catalog":
    """The catalog that knows the table. A catalog in a file must exist: nothing is made for what is only read."""
    from pyiceberg.exceptions import NoSuchTableError

    file = _file(table)
    if file and not os.path.exists(file):
        raise NoSuchTableError(f"there is no Iceberg table {table.name}: its catalog would be {file}, which is missing")
    return _opened(table)


def _opened(table: LakeTable) -> "Catalog":
    from pyiceberg.catalog import load_catalog

    place = for_python(table.location)
    if table.is_placed_by_catalog:  # servers know warehouses by name: --catalog warehouse=NAME
        return load_catalog("firearrow", **{**table.storage, **table.catalog})
    if table.catalog:
        return load_catalog("firearrow", **{"warehouse": place, **table.storage, **table.catalog})
    return load_catalog("firearrow", type="sql", uri=f"sqlite:///{_file(table)}?timeout=60", warehouse=place)


def _file(table: LakeTable) -> str:
    """The file of a catalog that is one; empty for others."""
    if not table.catalog:
        return f"{filesystem(for_python(table.location))[1]}/{LOCAL_CATALOG}"
    uri = table.catalog.get("uri", "")
    if kind_of(table.catalog) != "sql" or not uri.startswith("sqlite"):
        return ""
    from sqlalchemy.engine import make_url

    named = make_url(uri).database or ""
    return "" if named == ":memory:" or named.startswith("file:") else named


def exists(table: LakeTable) -> bool:
    """Whether the table was created."""
    file = _file(table)
    return (not file or os.path.exists(file)) and _opened(table).table_exists(table.name)


def ensure(table: LakeTable, schema: "pa.Schema") -> "pa.Schema":
    """Create the table if it is missing; return the columns that it will have when it takes rows of this schema."""
    from pyiceberg.exceptions import NoSuchTableError

    if not table.catalog:
        door, root = filesystem(for_python(table.location))
        door.create_dir(root, recursive=True)
    kept_in = _opened(table)
    try:
        found = kept_in.load_table(table.name)
    except NoSuchTableError:
        found = _created(kept_in, table, fit.as_iceberg(schema))
    require_same(table.rules, rules_of(found), table.called)
    return fitting(found, table, schema).target


def _created(kept_in: "Catalog", table: LakeTable, schema: "pa.Schema") -> "Table":
    from pyiceberg.exceptions import TableAlreadyExistsError
    from pyiceberg.transforms import parse_transform

    require_supported(table.rules, schema, table.called)
    kept_in.create_namespace_if_not_exists(table.name.rpartition(".")[0])
    making = kept_in.create_table_transaction(table.name, schema=schema, properties={"format-version": "2"})
    with making.update_spec() as change:
        for rule in table.rules:
            change.add_field(rule.column, parse_transform(rule.transform))
    try:
        return making.commit_transaction()
    except TableAlreadyExistsError:  # another job made the table meanwhile
        return kept_in.load_table(table.name)


def fitting(found: "Table", table: LakeTable, schema: "pa.Schema") -> Fit:
    """Compare rows with the table; raise unless they fit or the table may change so that they do."""
    rules, rows = rules_of(found), fit.as_iceberg(schema)
    compared = fit.compare(rows, _schema(found), fit.iceberg_widening, {rule.column for rule in rules})
    fit.require(compared, table.evolve, table.called)
    require_supported(rules, compared.target, table.called)
    return compared


def form(table: LakeTable, schema: "pa.Schema") -> TableForm:
    """Return the directory and rules of files with rows of this schema; raise if the table cannot take them."""
    found = catalog(table).load_table(table.name)
    fitting(found, table, schema)
    return TableForm(f"{found.location()}/data", rules_of(found), storage_of(found))


def storage_of(found: "Table") -> dict[str, str]:
    """The settings of the table's storage: those that its catalog vends with the table, else those that were given."""
    return known(found.io.properties)


def rules_of(found: "Table") -> Rules:
    """Return the rules that the table is partitioned by."""
    columns = found.schema()
    named = ((columns.find_column_name(field.source_id), str(field.transform)) for field in found.spec().fields)
    return tuple(PartitionRule(name or "", transform) for name, transform in named)


def commit(table: LakeTable, writer: str, batch: int, files: Sequence[DataFile], schema: "pa.Schema") -> bool:
    """Add the files of a batch unless the table has the batch already; return whether they were added."""
    from pyiceberg.exceptions import CommitFailedException

    for _ in commit_attempts(table.called):
        found = catalog(table).load_table(table.name)
        if last_batch(found, writer) >= batch:
            return False
        compared = fitting(found, table, schema)
        require_cut(files, rules_of(found), table.called)
        try:
            _add(found, writer, batch, files, compared)
        except CommitFailedException:
            continue  # another writer committed meanwhile, perhaps an earlier attempt of this batch: look again
        return True
    raise AssertionError("unreachable: the attempts end with an error")


def last_batch(found: "Table", writer: str) -> int:
    """The last batch of a writer that the table holds, or -1."""
    return int(found.properties.get(_key(writer), "-1"))


def _key(writer: str) -> str:
    return f"firearrow.sink.{writer}.last-batch"


def _add(found: "Table", writer: str, batch: int, files: Sequence[DataFile], compared: Fit) -> None:
    notes = {"firearrow.writer": writer, "firearrow.batch": str(batch)}
    with once(found) as change:
        take_columns(change, compared)
        snapshot = change.update_snapshot(snapshot_properties=notes)
        merges = found.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
        with snapshot.merge_append() if merges else snapshot.fast_append() as appended:
            for file in files:
                appended.append_data_file(manifest_file(change, found, file))
        change.set_properties({_key(writer): str(batch)})


def once(found: "Table") -> "Transaction":
    """A transaction that tries once to commit: pyiceberg would try again without looking for the batch first."""
    found.metadata.properties["commit.retry.num-retries"] = "0"  # of this copy alone: only updates are sent
    return found.transaction()


def take_columns(change: "Transaction", compared: Fit) -> None:
    """Give the table the columns of the rows, and names to the columns of files, which have no numbers."""
    if compared.is_change:
        with change.update_schema() as columns:
            columns.union_by_name(compared.target)
    if change.table_metadata.name_mapping() is None:
        names = change.table_metadata.schema().name_mapping.model_dump_json()
        change.set_properties({"schema.name-mapping.default": names})


def manifest_file(change: "Transaction", found: "Table", file: DataFile) -> "ManifestFile":
    """A file as a manifest lists it: its statistics from its footer, its partition from the task that wrote it."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile as ManifestFile
    from pyiceberg.manifest import DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    scheme = found.location().partition("://")[0] if "://" in found.location() else "file"
    path = file.path if "://" in file.path else f"{scheme}://{file.path}"
    columns, rules = change.table_metadata.schema(), rules_of(found)
    with found.io.new_input(path).open() as stream:
        footer = pq.read_metadata(stream)
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer,
        stats_columns=compute_statistics_plan(columns, change.table_metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(columns),
    )
    return ManifestFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*iceberg_values(rules, file.partition)),
        file_size_in_bytes=file.size,
        sort_order_id=None,
        spec_id=change.table_metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def live_files(table: LakeTable) -> LiveFiles:
    """The files that hold the rows of the table now."""
    found = catalog(table).load_table(table.name)
    planned = list(found.scan().plan_files())
    if any(file.delete_files for file in planned):
        raise Unsupported(f"table {table.name} has delete files, which only Iceberg's own runtime in Spark can apply")
    return LiveFiles([file.file.file_path for file in planned], storage=storage_of(found))


def schema(table: LakeTable) -> "pa.Schema":
    """The columns of the table."""
    return _schema(catalog(table).load_table(table.name))


def _schema(found: "Table") -> "pa.Schema":
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(found.schema(), include_field_ids=False)
