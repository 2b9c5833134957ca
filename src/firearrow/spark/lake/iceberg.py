"""Iceberg tables through pyiceberg: made, compared with the rows, appended to exactly once, listed.

One commit adds the files of a batch and notes the batch in a property of the table, in one transaction:
``firearrow.sink.<writer>.last-batch``. A noted batch is not added again, however often Spark repeats it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from firearrow.errors import Unsupported
from firearrow.spark.lake import fit
from firearrow.spark.lake.files import DataFile
from firearrow.spark.lake.partitioning import Rule, Rules, require_supported
from firearrow.spark.lake.storage import filesystem, for_python
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ATTEMPTS: Final = 8
LOCAL_CATALOG: Final = "firearrow.db"


def catalog(table: LakeTable) -> "Catalog":
    """The catalog that knows the table."""
    from pyiceberg.catalog import load_catalog

    place = for_python(table.location)
    if table.catalog:
        return load_catalog("firearrow", **{"warehouse": place, **table.storage, **table.catalog})
    door, root = filesystem(place)
    door.create_dir(root, recursive=True)
    return load_catalog("firearrow", type="sql", uri=f"sqlite:///{root}/{LOCAL_CATALOG}?timeout=60", warehouse=place)


def ensure(table: LakeTable, schema: "pa.Schema") -> None:
    """Create the table if it is missing; an existing table must accept rows of this schema."""
    known = catalog(table)
    known.create_namespace_if_not_exists(table.name.rpartition(".")[0])
    found = known.create_table_if_not_exists(table.name, schema=schema, properties={"format-version": "2"})
    _require_fit(found, table, schema)


def _require_fit(found: "Table", table: LakeTable, schema: "pa.Schema") -> None:
    fit.require_fit(fit.without_small_integers(schema), _schema(found), table.called)
    require_supported(_rules(found), schema, table.called)


def data_directory(table: LakeTable) -> str:
    """Where files of the table go."""
    return f"{catalog(table).load_table(table.name).location()}/data"


def partitioning(table: LakeTable) -> Rules:
    """What the table is partitioned by."""
    return _rules(catalog(table).load_table(table.name))


def _rules(found: "Table") -> Rules:
    columns = found.schema()
    return tuple(Rule(columns.find_field(field.source_id).name, str(field.transform)) for field in found.spec().fields)


def commit(table: LakeTable, writer: str, batch: int, files: Sequence[DataFile], schema: "pa.Schema") -> bool:
    """Add the files of a batch unless the table has the batch already; return whether they were added."""
    from pyiceberg.exceptions import CommitFailedException

    for attempt in range(ATTEMPTS):
        found = catalog(table).load_table(table.name)
        if last_batch(found, writer) >= batch:
            return False
        _require_fit(found, table, schema)
        try:
            _add(found, writer, batch, files)
        except CommitFailedException:
            # Another writer committed meanwhile: check again, it may have been an earlier attempt of this batch.
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return True
    raise AssertionError("unreachable: the last attempt returns or raises")


def last_batch(found: "Table", writer: str) -> int:
    """The last batch of a writer that the table holds, or -1."""
    return int(found.properties.get(_key(writer), "-1"))


def _key(writer: str) -> str:
    return f"firearrow.sink.{writer}.last-batch"


def _add(found: "Table", writer: str, batch: int, files: Sequence[DataFile]) -> None:
    scheme = found.location().partition("://")[0] if "://" in found.location() else "file"
    with found.transaction() as change:
        if files:
            change.add_files(
                [file.path if "://" in file.path else f"{scheme}://{file.path}" for file in files],
                snapshot_properties={"firearrow.writer": writer, "firearrow.batch": str(batch)},
                check_duplicate_files=False,
            )
        change.set_properties({_key(writer): str(batch)})


def data_files(table: LakeTable) -> list[str]:
    """The files that hold the rows of the table now."""
    found = catalog(table).load_table(table.name)
    planned = list(found.scan().plan_files())
    if any(file.delete_files for file in planned):
        raise Unsupported(f"table {table.name} has delete files, which only Iceberg's own runtime in Spark can apply")
    return [file.file.file_path for file in planned]


def schema(table: LakeTable) -> "pa.Schema":
    """The columns of the table."""
    return _schema(catalog(table).load_table(table.name))


def _schema(found: "Table") -> "pa.Schema":
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(found.schema(), include_field_ids=False)
