"""Options of pipeline commands that say how bodies are read."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from firearrow.spark.bodies.body_format import BodyFormat


class BodyGiven(NamedTuple):
    """The options about bodies, as given."""

    kind: str
    schema: str
    file: Path | None
    message: str
    registry: str
    subject: str
    rescued: str


def body_format_of(given: BodyGiven, topics: str) -> "BodyFormat | None":
    """Return how bodies are read; None if they are not."""
    from firearrow.spark.bodies.body_format import BY_DDL, BodyFormat, resolved

    if given.kind in BY_DDL and not given.schema:
        if given.kind != "json" or given.file or given.registry:
            raise SettingsError(f"{given.kind} bodies need --body-schema, as 'id long NOT NULL, item string'")
        return None
    schema = given.schema
    if given.file is not None:
        try:
            content = given.file.read_bytes()
            schema = base64.b64encode(content).decode() if given.kind == "protobuf" else content.decode()
        except (OSError, UnicodeDecodeError) as wrong:
            raise SettingsError(f"--body-schema-file cannot be read: {wrong}") from None
    is_one = bool(topics) and "," not in topics
    subject = given.subject or (f"{topics}-value" if given.registry and is_one else "")
    how = BodyFormat(given.kind, schema, given.rescued, given.message, given.registry, subject)  # type: ignore[arg-type]
    # A registry that does not answer is told before Spark starts.
    return resolved(how) if how.registry and how.kind not in BY_DDL else how.checked()
