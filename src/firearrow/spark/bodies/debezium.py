"""Debezium's change events as JSON: the row that an event is about, and whether the event deletes it.

An event is an object with ``op`` (c create, r read of a snapshot, u update, d delete), the row ``before`` and ``after``
it, ``ts_ms`` and ``source``; with ``schemas.enable`` it is wrapped as ``{"schema": ..., "payload": ...}``. The columns
of a row are preceded by ``_op``, ``_ts_ms`` and ``_source`` (as JSON). Of a deleted row Debezium knows its key and,
depending on the database, no more: NOT NULL is asked of other columns only where a row lives on.
"""

from typing import Any, Final

from pyspark.sql.types import LongType, StringType, StructField, StructType

from firearrow.spark.bodies.columns import Rest, fields, schema_of
from firearrow.spark.bodies.misfit import DecodedBody, Misfit, shown
from firearrow.spark.bodies.strict_json import Json, parse, text_of

EVENT: Final = (
    StructField("_op", StringType()),
    StructField("_ts_ms", LongType()),
    StructField("_source", StringType()),
)
ROW_STAYS: Final = ("c", "r", "u")
DELETE: Final = "d"


class DebeziumEvents:
    """Reads change events whose rows have a schema."""

    def __init__(self, ddl: str) -> None:
        row = schema_of(ddl)
        self.schema = StructType([*EVENT, *row.fields])
        self._row = fields(row)
        self._gone = fields(StructType([StructField(field.name, field.dataType) for field in row.fields]))
        self._event = fields(StructType([StructField("ts_ms", LongType())]))

    def decode(self, body: bytes) -> DecodedBody:
        """The row of an event; for a delete what is known of the row that it deletes."""
        event = unwrapped(parse(body))
        if not isinstance(event, dict) or "op" not in event:
            raise Misfit("the body is not an event of Debezium: it has no field op")
        op = event["op"]
        if op not in (*ROW_STAYS, DELETE):
            raise Misfit(f"op {shown(text_of(op))} is about no row; rows are changed by c, r, u and d")
        is_delete = op == DELETE
        side = "before" if is_delete else "after"
        row = event.get(side)
        if row is None:
            raise Misfit(f"the event has op {op} and no row {side} it")
        rest: Rest = {}
        values: tuple[Any, ...] = (self._gone if is_delete else self._row)(row, rest)
        source = event.get("source")
        (moment,) = self._event({"ts_ms": event.get("ts_ms")}, {})
        return DecodedBody(
            (op, moment, None if source is None else text_of(source), *values),
            text_of(rest) if rest else None,
            is_delete,
        )


def unwrapped(value: Json) -> Json:
    """The payload of a value that has its schema beside it; another value as it is."""
    is_wrapped = isinstance(value, dict) and "payload" in value and value.keys() <= {"schema", "payload"}
    return value["payload"] if is_wrapped else value
