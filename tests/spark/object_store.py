"""Delta and Iceberg tables in an object store, reached by settings that no environment holds.

    python -m tests.spark.object_store ENDPOINT DIRECTORY
    python -m tests.spark.object_store --catalog ADDRESS

writes tables of both formats into the bucket of a server that speaks S3, and prints what their own readers find; or one
table through a REST catalog, whose address is all that is known.
"""

import json
import os
import sys

import pyarrow as pa

from firearrow.runtime.clock import SystemClock
from firearrow.spark.lake import delta, iceberg
from firearrow.spark.lake.files import write_files
from firearrow.spark.lake.storage import delta_settings
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep.maintain import maintain
from firearrow.spark.upkeep.work import Upkeep
from judges.object_store import settings

NO_KEYS = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
SCHEMA = pa.schema([("topic", pa.string()), ("n", pa.int64())])
ROWS = pa.RecordBatch.from_pylist([{"topic": "orders", "n": n} for n in range(10)], schema=SCHEMA)


def environment() -> dict[str, str]:
    """An environment in which no library finds keys of a store by itself."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | NO_KEYS


def delta_rows(place: str, storage: dict[str, str]) -> list[int]:
    """Write a Delta table, and read it with deltalake."""
    from deltalake import DeltaTable

    where = LakeTable("delta", place, storage=storage).checked()
    delta.ensure(where, SCHEMA)
    form = delta.form(where, SCHEMA)
    files = write_files([ROWS], form.directory, "q", settings=form.storage)
    delta.commit(where, "q", 0, files, SCHEMA)
    delta.commit(where, "q", 0, files, SCHEMA)
    read = DeltaTable(place.replace("s3a://", "s3://"), storage_options=delta_settings(storage)).to_pyarrow_table()
    return sorted(read["n"].to_pylist())


def iceberg_rows(place: str, catalog: dict[str, str], storage: dict[str, str]) -> list[int]:
    """Write an Iceberg table, and read it with pyiceberg."""
    where = LakeTable("iceberg", place, "shop.orders", catalog, storage=storage).checked()
    iceberg.ensure(where, SCHEMA)
    form = iceberg.form(where, SCHEMA)
    files = write_files([ROWS], form.directory, "q", settings=form.storage)
    iceberg.commit(where, "q", 0, files, SCHEMA)
    return _numbers(where)


def _numbers(where: LakeTable) -> list[int]:
    return sorted(iceberg.catalog(where).load_table(where.name).scan().to_arrow()["n"].to_pylist())


def in_a_catalog(address: str) -> dict[str, list[int]]:
    """Write a table whose catalog alone is known, delete a row, remove orphan files, and read it."""
    catalog = {"type": "rest", "uri": address}
    rows = iceberg_rows("s3://lake/vended", catalog, {})
    where = LakeTable("iceberg", "s3://lake/vended", "shop.orders", catalog)
    work = Upkeep(delete_where="n = 0", expire_ms=0, orphans_ms=3_600_000).checked(where)
    list(maintain(where, work, SystemClock().now_ms()))
    return {"rows": rows, "after upkeep": _numbers(where)}


def main() -> None:
    """Write and read all of them."""
    if sys.argv[1] == "--catalog":
        print(json.dumps(in_a_catalog(sys.argv[2])))
        return
    endpoint, directory = sys.argv[1:3]
    storage = settings(endpoint)
    one, two = ({"type": "sql", "uri": f"sqlite:///{directory}/{name}.db"} for name in ("one", "two"))
    found = {
        "delta by s3": delta_rows("s3://lake/one", storage),
        "delta by s3a": delta_rows("s3a://lake/two", storage),
        "iceberg by its storage": iceberg_rows("s3a://lake/three", one, storage),
        "iceberg by its catalog": iceberg_rows("s3://lake/four", two | storage, {}),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
