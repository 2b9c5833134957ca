"""Options of pipeline commands that say how bodies are read, and how they become rows of a typed table."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.option_groups import OptionGroup
from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from firearrow.spark.bodies.body_format import BodyFormat
    from firearrow.spark.pipelines.upserts import Upsert


@dataclass(frozen=True)
class BodyOptions(OptionGroup):
    """The format of bodies and their schema."""

    body_format: Annotated[
        str, typer.Option(help="Format of bodies: json, debezium (its events in JSON), avro or protobuf.")
    ] = "json"
    body_schema: Annotated[
        str, typer.Option(help="Schema of JSON bodies (DDL); also fills a table of typed columns.")
    ] = ""
    body_schema_file: Annotated[
        Path | None, typer.Option(help="Avro: the reader's schema (.avsc). Protobuf: a descriptor set of protoc.")
    ] = None
    body_message: Annotated[str, typer.Option(help="Protobuf: full name of the message.")] = ""
    registry: Annotated[
        str, typer.Option(help="Schema registry, http://host:8081: bodies begin with the id of their schema.")
    ] = ""
    subject: Annotated[str, typer.Option(help="Subject of the registry; else the topic's name and -value.")] = ""
    rescued_column: Annotated[
        str, typer.Option(help="Column for what a body has and the schema does not, as JSON.")
    ] = "_rescued_data"


@dataclass(frozen=True)
class UpsertOptions(OptionGroup):
    """The rules by which rows become changes of a typed table."""

    mode: Annotated[
        str, typer.Option(help="The typed table has every message (append), or each key once (upsert).")
    ] = "append"
    key: Annotated[str, typer.Option(help="Upsert: columns of the key, separated by commas.")] = ""
    delete_when: Annotated[str, typer.Option(help="Upsert: SQL condition on typed columns that deletes a row.")] = ""
    version: Annotated[
        str,
        typer.Option(help="Upsert: SQL expression that orders versions of a row, before their place in the topic."),
    ] = ""

    @property
    def upsert(self) -> "Upsert | None":
        """The rules by which rows become changes; None if they are appended. Raises ``SettingsError`` for a
        contradiction."""
        from firearrow.spark.pipelines.upserts import MODES, UPSERT, Upsert

        if self.mode not in MODES:
            raise SettingsError(f"--mode is one of {', '.join(MODES)}, not {self.mode!r}")
        names = tuple(name.strip() for name in self.key.split(",") if name.strip())
        if self.mode == UPSERT:
            if not names:
                raise SettingsError("--mode upsert needs --key: the columns that tell rows apart, as --key id")
            return Upsert(names, self.delete_when, self.version)
        if names or self.delete_when or self.version:
            raise SettingsError("--key, --delete-when and --version belong to --mode upsert; give it too")
        return None


def body_format_of(given: BodyOptions, topics: str) -> "BodyFormat | None":
    """Return how bodies are read; None if they are not."""
    from firearrow.spark.bodies.body_format import BY_DDL, BodyFormat, resolved

    kind = given.body_format
    if kind in BY_DDL and not given.body_schema:
        if kind != "json" or given.body_schema_file or given.registry:
            raise SettingsError(f"{kind} bodies need --body-schema, as 'id long NOT NULL, item string'")
        return None
    schema = _schema(given)
    is_one = bool(topics) and "," not in topics
    subject = given.subject or (f"{topics}-value" if given.registry and is_one else "")
    how = BodyFormat(kind, schema, given.rescued_column, given.body_message, given.registry, subject)  # type: ignore[arg-type]
    # A registry that does not answer is told before Spark starts.
    return resolved(how) if how.registry and how.kind not in BY_DDL else how.checked()


def _schema(given: BodyOptions) -> str:
    if given.body_schema_file is None:
        return given.body_schema
    try:
        content = given.body_schema_file.read_bytes()
        return base64.b64encode(content).decode() if given.body_format == "protobuf" else content.decode()
    except (OSError, UnicodeDecodeError) as wrong:
        raise SettingsError(f"--body-schema-file cannot be read: {wrong}") from None
