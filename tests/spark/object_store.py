"""Delta and Iceberg tables in an object store, reached by settings that no environment holds.

    python -m tests.spark.object_store ENDPOINT DIRECTORY

makes a bucket at a server that speaks S3, writes a table of each format into it, and prints what its own reader finds.
"""

import json
import os
import sys

import pyarrow as pa
from pyarrow import fs

from firearrow.spark.lake import delta, iceberg
from firearrow.spark.lake.files import write_files
from firearrow.spark.lake.storage import delta_settings
from firearrow.spark.lake.table import LakeTable

SCHEMA = pa.schema([("topic", pa.string()), ("n", pa.int64())])
ROWS = pa.RecordBatch.from_pylist([{"topic": "orders", "n": n} for n in range(10)], schema=SCHEMA)


def delta_rows(place: str, storage: dict[str, str]) -> list[int]:
    """Write a Delta table, and read it with deltalake."""
    from deltalake import DeltaTable

    where = LakeTable("delta", place, storage=storage).checked()
    delta.ensure(where, SCHEMA)
    files = write_files([ROWS], delta.form(where, SCHEMA).directory, "q", settings=where.storage_settings)
    delta.commit(where, "q", 0, files, SCHEMA)
    delta.commit(where, "q", 0, files, SCHEMA)
    read = DeltaTable(place.replace("s3a://", "s3://"), storage_options=delta_settings(storage)).to_pyarrow_table()
    return sorted(read["n"].to_pylist())


def iceberg_rows(place: str, catalog: dict[str, str], storage: dict[str, str]) -> list[int]:
    """Write an Iceberg table, and read it with pyiceberg."""
    where = LakeTable("iceberg", place, "shop.orders", catalog, storage=storage).checked()
    iceberg.ensure(where, SCHEMA)
    files = write_files([ROWS], iceberg.form(where, SCHEMA).directory, "q", settings=where.storage_settings)
    iceberg.commit(where, "q", 0, files, SCHEMA)
    return sorted(iceberg.catalog(where).load_table(where.name).scan().to_arrow()["n"].to_pylist())


def main() -> None:
    """Write and read all of them."""
    endpoint, directory = sys.argv[1:3]
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    storage = {
        "s3.endpoint": endpoint, "s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "us-east-1",
    }  # fmt: skip
    bare = {"endpoint_override": endpoint, "access_key": "k", "secret_key": "s", "region": "us-east-1"}
    fs.S3FileSystem(**bare, allow_bucket_creation=True).create_dir("lake")
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
