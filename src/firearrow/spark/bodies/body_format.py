"""How bodies are to be read: plain data that travels from the command to every task. `decoder` is what comes of it."""

from typing import TYPE_CHECKING, Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from firearrow.errors import SettingsError
from firearrow.spark.bodies.misfit import Decoded

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

RESCUED: Final = "_rescued_data"
"""The column for what a body has and the schema does not, unless another name is given."""

Kind = Literal["json", "debezium"]
KINDS: Final = ("json", "debezium")


class BodyFormat(Struct, frozen=True):
    """The format of bodies.

    ``schema`` is Spark's DDL, or a schema in Spark's JSON: of the body, or of the row in an event of Debezium.
    ``rescued`` names the column that takes what a body has and the schema does not, as JSON.
    """

    kind: Kind = "json"
    schema: str = ""
    rescued: str = RESCUED

    def checked(self) -> "BodyFormat":
        """Return this format; raise ``SettingsError`` if it cannot be read."""
        if self.kind not in KINDS:
            raise SettingsError(f"the format of bodies is one of {', '.join(KINDS)}, not {self.kind!r}")
        if not self.schema:
            raise SettingsError(
                f"{self.kind} bodies need a schema: give --body-schema, as 'id long NOT NULL, item string'"
            )
        if not self.rescued:
            raise SettingsError(f"the column of rescued data needs a name, as {RESCUED}")
        return self


class Decoder(Protocol):
    """Reads bodies of one format."""

    schema: "StructType"

    def decode(self, body: bytes) -> Decoded:
        """A body as values of the schema; raise `Misfit` if it is none."""


def resolved(how: BodyFormat) -> BodyFormat:
    """The format with all that only a driver can find out, so that tasks need nothing more."""
    from firearrow.spark.bodies.columns import schema_of

    return replace(how.checked(), schema=schema_of(how.schema).json())


def decoder(how: BodyFormat) -> Decoder:
    """The decoder of a resolved format."""
    from firearrow.spark.bodies.debezium import DebeziumEvents
    from firearrow.spark.bodies.json_bodies import JsonBodies

    return DebeziumEvents(how.schema) if how.kind == "debezium" else JsonBodies(how.schema)
