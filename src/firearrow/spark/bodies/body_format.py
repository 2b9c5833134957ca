"""The format of bodies: plain data that travels from the command to every task. `decoder` makes a decoder of it."""

import base64
from typing import TYPE_CHECKING, Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from firearrow.errors import SettingsError
from firearrow.spark.bodies.misfit import DecodedBody
from firearrow.spark.bodies.registry import SchemaRegistry, split

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

RESCUED: Final = "_rescued_data"
"""The column for what a body has and the schema does not, unless another name is given."""

Kind = Literal["json", "debezium", "avro", "protobuf"]
KINDS: Final = ("json", "debezium", "avro", "protobuf")
BY_DDL: Final = ("json", "debezium")


class BodyFormat(Struct, frozen=True):
    """The format of bodies.

    ``schema`` of JSON is Spark's DDL or JSON: of the body, or of the row in an event of Debezium. Of Avro it is the
    reader's schema in Avro's JSON, of Protobuf a descriptor set in base64, with the full name of its ``message``.
    ``rescued`` names the column that takes what a body has and the schema does not, as JSON. With ``registry`` bodies
    begin with the id of a registered schema; without a schema the latest one of ``subject`` is the reader's.
    """

    kind: Kind = "json"
    schema: str = ""
    rescued: str = RESCUED
    message: str = ""
    registry: str = ""
    subject: str = ""

    def checked(self) -> "BodyFormat":
        """Return this format; raise ``SettingsError`` if it cannot be read."""
        if self.kind not in KINDS:
            raise SettingsError(f"--body-format is one of {', '.join(KINDS)}, not {self.kind!r}")
        if self.kind in BY_DDL and not self.schema:
            raise SettingsError(f"{self.kind} bodies need --body-schema, as 'id long NOT NULL, item string'")
        if not self.schema and not (self.registry and self.subject):
            raise SettingsError(f"{self.kind} bodies need --body-schema-file, or --registry and --subject")
        if self.message and self.kind != "protobuf":
            raise SettingsError("--body-message names a message of Protobuf; give --body-format protobuf too")
        if not self.rescued:
            raise SettingsError(f"the column of rescued data needs a name, as {RESCUED}")
        return self


class Decoder(Protocol):
    """Reads bodies of one format."""

    schema: "StructType"

    def decode(self, body: bytes) -> DecodedBody:
        """A body as values of the schema; raise `Misfit` if it is none."""


def resolved(how: BodyFormat) -> BodyFormat:
    """The format with all that only a driver can find out, so that tasks need nothing more."""
    how = how.checked()
    if how.kind in BY_DDL:
        from firearrow.spark.bodies.columns import schema_of

        return replace(how, schema=schema_of(how.schema).json())
    return how if how.schema else replace(how, schema=_registered(how))


def _registered(how: BodyFormat) -> str:
    registry = SchemaRegistry(how.registry)
    if how.kind == "avro":
        return registry.latest(how.subject).schema
    from firearrow.spark.bodies.protobuf_bodies import registered_descriptors

    return base64.b64encode(registered_descriptors(registry, how.subject)).decode()


def decoder(how: BodyFormat) -> Decoder:
    """The decoder of a resolved format."""
    if how.kind == "avro":
        from firearrow.spark.bodies.avro_bodies import AvroBodies

        return AvroBodies(how.schema, how.registry)
    if how.kind == "protobuf":
        from firearrow.spark.bodies.protobuf_bodies import ProtobufBodies

        return ProtobufBodies(how.schema, how.message, how.registry)
    from firearrow.spark.bodies.debezium import DebeziumEvents
    from firearrow.spark.bodies.json_bodies import JsonBodies

    made = DebeziumEvents(how.schema) if how.kind == "debezium" else JsonBodies(how.schema)
    return UnframedBodies(made) if how.registry else made


class UnframedBodies:
    """Reads registered bodies of JSON: what follows the schema's id; the columns hold it to the schema given here."""

    def __init__(self, inner: Decoder) -> None:
        self.schema = inner.schema
        self._inner = inner

    def decode(self, body: bytes) -> DecodedBody:
        """A body as values of the schema."""
        return self._inner.decode(split(body)[1])
