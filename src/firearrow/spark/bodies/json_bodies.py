"""JSON bodies: one object each, held to a schema in Spark's DDL."""

from typing import TYPE_CHECKING

from firearrow.spark.bodies.columns import Rest, fields, schema_of
from firearrow.spark.bodies.misfit import DecodedBody
from firearrow.spark.bodies.strict_json import parse, text_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class JsonBodies:
    """Reads JSON bodies."""

    def __init__(self, ddl: str) -> None:
        self.schema: StructType = schema_of(ddl)
        self._convert = fields(self.schema)

    def decode(self, body: bytes) -> DecodedBody:
        """A body as values of the schema."""
        rest: Rest = {}
        values = self._convert(parse(body), rest)
        return DecodedBody(values, text_of(rest) if rest else None)
