"""Output: tables for people, JSON for programs, times that both can read."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from firearrow.cli.output import standard_output

BODY_SHOWN: Final = 80


def print_json(value: object) -> None:
    """Print one JSON document, indented."""
    standard_output().write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def print_table(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; numbers are right-aligned."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    listed = list(rows)
    for place, name in enumerate(names):
        is_number = bool(listed) and all(isinstance(row[place], int) for row in listed)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in listed:
        table.add_row(*(_cell(each) for each in row))
    console = Console()
    if not console.is_terminal:
        console.width = 10_000  # a file or a pipe has no width
    console.print(table)


def _cell(value: object) -> str:
    from rich.markup import escape

    return escape(str(value))


def time_text(ms: int) -> str:
    """Return a time in UTC, or a dash for no time."""
    if ms <= 0:
        return "-"
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(ms)


def body_text(body: bytes, limit: int = BODY_SHOWN) -> str:
    """Return a body as one line, shortened."""
    shown = body[:limit].decode("utf-8", "backslashreplace").translate(_ESCAPED)
    return shown if len(body) <= limit else f"{shown}... ({len(body)} bytes)"


_ESCAPED: Final = {number: f"\\x{number:02x}" for number in (*range(32), 127)} | {9: "\\t", 10: "\\n", 13: "\\r"}


def body_fields(body: bytes) -> Mapping[str, Any]:
    """Return a body as fields for JSON: as text if it is text, else in base64."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"bodyBase64": body}
