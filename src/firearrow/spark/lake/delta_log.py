"""A commit to Delta's log that adds columns and files at once, which deltalake has no call for.

A commit is a file ``_delta_log/<version, 20 digits>.json`` with one JSON action a line, and belongs to the writer that
creates it first. Here it is written under another name and linked to its own: a link fails if the name exists, and the
file is whole whenever the name exists. That is how deltalake commits to local file systems, too.
"""

import os
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from firearrow.runtime.clock import SystemClock
from firearrow.spark.lake.fit import Change, Fit

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction


class Batch(Struct, frozen=True):
    """The writer and number of the batch that a commit adds, and the commit's notes."""

    writer: str
    number: int
    notes: dict[str, str]


def is_local(location: str) -> bool:
    """Whether a location is on a local file system."""
    return "://" not in location or location.startswith("file://")


def append(root: str, found: "DeltaTable", batch: Batch, files: "Sequence[AddAction]", compared: Fit) -> None:
    """Commit files and columns as the version after the found one; raise ``FileExistsError`` if another did."""
    lines = list(_actions(found, batch, files, compared))
    log = os.path.join(root, "_delta_log")
    fresh = os.path.join(log, f".firearrow-{random.Random().getrandbits(64):016x}.tmp")
    try:
        with open(fresh, "wb") as stream:
            stream.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        os.link(fresh, os.path.join(log, f"{found.version() + 1:020d}.json"))
    finally:
        os.unlink(fresh)


def _actions(
    found: "DeltaTable", batch: Batch, files: "Sequence[AddAction]", compared: Fit
) -> Iterator[dict[str, Any]]:
    now, known = SystemClock().now_ms(), found.metadata()
    parameters = {"mode": "Append", "partitionBy": msgspec.json.encode(known.partition_columns).decode()}
    yield {"commitInfo": {"timestamp": now, "operation": "WRITE", "operationParameters": parameters, **batch.notes}}
    yield {
        "metaData": {
            "id": str(known.id),
            "name": known.name,
            "description": known.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": evolved(found.schema().to_json(), compared.added),
            "partitionColumns": known.partition_columns,
            "createdTime": known.created_time,
            "configuration": known.configuration,
        }
    }
    for file in files:
        yield {
            "add": {
                "path": file.path,
                "partitionValues": file.partition_values,
                "size": file.size,
                "modificationTime": file.modification_time,
                "dataChange": True,
                "stats": file.stats,
            }
        }
    yield {"txn": {"appId": batch.writer, "version": batch.number, "lastUpdated": now}}


def evolved(schema: str, added: Sequence[Change]) -> str:
    """A schema of Delta (JSON) with more columns at its end, or at the end of structures inside of it."""
    found = msgspec.json.decode(schema)
    for change in added:
        _at(found, change.path[:-1])["fields"].append(_field(change))
    return msgspec.json.encode(found).decode()


def _at(schema: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The structure to which a path leads."""
    at = schema
    for name in path:
        if at["type"] == "struct":
            at = next(field["type"] for field in at["fields"] if field["name"] == name)
        else:
            at = at["elementType" if at["type"] == "array" else "valueType"]
    return at


def _field(change: Change) -> dict[str, Any]:
    from deltalake import Schema

    made = Schema.from_arrow(pa.schema([pa.field(change.path[-1], change.type)])).to_json()
    field: dict[str, Any] = msgspec.json.decode(made)["fields"][0]
    return field


def add_columns(found: "DeltaTable", compared: Fit) -> None:
    """Add columns in a commit of their own."""
    from deltalake import Field, Schema

    top = {change.path[0] for change in compared.added}
    whole = Schema.from_arrow(pa.schema([compared.target.field(name) for name in sorted(top)]))
    fields: list[Field] = list(whole.fields)
    found.alter.add_columns(fields)


def has_local_times(kind: pa.DataType) -> bool:
    """Whether a type is, or has inside of it, a time without a zone."""
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(has_local_times(kind.field(number).type) for number in range(kind.num_fields))


def generated(schema: str) -> dict[str, str]:
    """The columns of a schema (JSON) that Delta's own runtime computes, with their expressions."""
    key = "delta.generationExpression"
    fields = msgspec.json.decode(schema)["fields"]
    return {f"{field['name']}.{key}": str(field["metadata"][key]) for field in fields if key in field["metadata"]}
