"""``firearrow audit``: whether the audit log of a broker or name server is as it was written."""

import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from firearrow.access.audit_lines import Verified, verify
from firearrow.access.audit_log import DIRECTORY, file_number

CHANGED: Final = 1
UNREADABLE: Final = 2
FAULTS_SHOWN: Final = 20

audit = typer.Typer(
    add_completion=False,
    help="Check the audit log of a server: who did what, and who was refused.",
    no_args_is_help=True,
)


@audit.callback()
def group() -> None:
    """Check the audit log of a server: who did what, and who was refused."""


@audit.command("verify")
def verify_log(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A directory of audit files, the store above it, or one file.")
    ],
    known: Annotated[
        str, typer.Option("--hash", help="A hash of this log that was kept elsewhere: it must be in the chain.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Find lines that were changed, removed, added or moved. Exits with 1 if there are any, with 2 if nothing is there.

    An unfinished last line is told, and is no fault: the server was killed while it wrote.
    """
    try:
        found = verify([(file.name, file.read_bytes()) for file in _files(path)], known)
    except OSError as error:
        typer.echo(f"firearrow audit: {path} cannot be read: {error.strerror or error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        _print(found)
    if not found.has_hash:
        text = f"the hash {known} is not in the chain: lines were cut off, or the log was written anew"
        typer.echo(f"firearrow audit: {text}", err=True)
    if found.faults or not found.has_hash:
        raise typer.Exit(CHANGED)


def _files(path: Path) -> list[Path]:
    """Return the audit files that a path names, the oldest first."""
    if path.is_file():
        return [path]
    directory = path / DIRECTORY if (path / DIRECTORY).is_dir() else path
    files = sorted(file for file in directory.iterdir() if file_number(file.name) is not None)
    if not files:
        typer.echo(f"firearrow audit: there is no audit file in {directory}: give the directory audit/", err=True)
        raise typer.Exit(UNREADABLE)
    return files


def _print(found: Verified) -> None:
    for fault in found.faults[:FAULTS_SHOWN]:
        typer.echo(str(fault))
    if len(found.faults) > FAULTS_SHOWN:
        typer.echo(f"and {len(found.faults) - FAULTS_SHOWN} more")
    if found.torn:
        typer.echo(f"{found.torn}: unfinished; the server was killed while it wrote, which is not tampering")
    if found.first > 1:
        typer.echo(f"the log begins with line {found.first}: older files are gone, as rotation removes them")
    judged = f"{len(found.faults)} faults" if found.faults else "as they were written"
    typer.echo(f"{found.lines} lines, {judged}; the last is line {found.last}, hash {found.hash}")
