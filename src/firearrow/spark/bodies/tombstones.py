"""Tombstones: messages without a body that delete the row of a key. The key is the message's property KEYS.

KEYS is the value of a single key column (``17``), or a JSON object with all of them (``{"id":17}``), as Debezium writes
it, wrapped with its schema or not.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from firearrow.spark.bodies.columns import fields
from firearrow.spark.bodies.debezium import unwrapped
from firearrow.spark.bodies.misfit import DecodedBody, Misfit, shown
from firearrow.spark.bodies.strict_json import Json, parse


class Tombstones:
    """Reads tombstones of rows with a key."""

    def __init__(self, schema: StructType, key: Sequence[str]) -> None:
        chosen = StructType([StructField(name, schema[name].dataType, nullable=False) for name in key])
        self._convert = fields(chosen)
        self._places = [schema.fieldNames().index(name) for name in key]
        self._width = len(schema.fields)
        self._name = key[0] if len(key) == 1 else ""
        self._is_text = bool(self._name) and isinstance(chosen[0].dataType, StringType)

    def decode(self, keys: str | None) -> DecodedBody:
        """The key of the row that is deleted, in its columns; every other column is null."""
        if not keys:
            raise Misfit("the body is empty, and no KEYS say which row is to be deleted")
        values: list[Any] = [None] * self._width
        for place, value in zip(self._places, self._convert(self._object(keys), {}), strict=True):
            values[place] = value
        return DecodedBody(tuple(values), None, True)

    def _object(self, keys: str) -> Json:
        if keys.startswith("{"):
            return unwrapped(parse(keys.encode()))
        if not self._name:
            raise Misfit(f"the body is empty, and KEYS are {shown(keys)}, not an object with every column of the key")
        if self._is_text:
            return {self._name: keys}
        try:
            return {self._name: parse(keys.encode())}
        except Misfit:
            return {self._name: keys}
