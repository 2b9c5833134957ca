"""``firearrow audit``: whether the audit log of a broker or name server is as it was written."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from msgspec.structs import replace

from firearrow.access.audit_lines import Fault, verify
from firearrow.access.audit_log import ALLOWED, DIRECTORY, REFUSED, file_number

if TYPE_CHECKING:
    from firearrow.access.audit_lines import AuditVerification

SETS: Final = {ALLOWED: "requests that were allowed", REFUSED: "requests that were refused"}
"""The contents of the two sets of files."""
GONE: Final = "no file of this set is left, and a server makes one when it starts: the files were removed"
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

    A directory must hold both sets of files, about allowed and about refused requests: a set without a file is a fault.
    An unfinished last line is told, and is no fault: the server was killed while it wrote.
    """
    try:
        found = {which: _verified(which, files, known) for which, files in _files(path).items()}
    except OSError as error:
        typer.echo(f"firearrow audit: {path} cannot be read: {error.strerror or error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        for which, verified in found.items():
            _print(which, verified)
    has_hash = _has_hash(found, known, silent=as_json)
    if any(verified.faults for verified in found.values()) or not has_hash:
        raise typer.Exit(CHANGED)


def _has_hash(found: Mapping[str, "AuditVerification"], known: str, *, silent: bool) -> bool:
    """Say whether a hash is in one of the chains; ``silent`` says no more than that it is not."""
    having = [which for which, verified in found.items() if verified.has_hash]
    if not having:
        chains = " and not in that of ".join(f"{which}-*" for which in found)
        text = f"the hash {known} is not in the chain of {chains}: lines were cut off, or the log was written anew"
        typer.echo(f"firearrow audit: {text}", err=True)
    elif known and not silent:
        chains = " and of ".join(f"{which}-* ({SETS[which]})" for which in having)
        typer.echo(f"the hash {known} is in the chain of {chains}")
    return bool(having)


def _files(path: Path) -> dict[str, list[Path]]:
    """Return the audit files that a path names by their set, the oldest first."""
    if path.is_file():
        return {ALLOWED if file_number(path.name, REFUSED) is None else REFUSED: [path]}
    directory = path / DIRECTORY if (path / DIRECTORY).is_dir() else path
    names = sorted(directory.iterdir())
    sets = {which: [file for file in names if file_number(file.name, which) is not None] for which in SETS}
    if not any(sets.values()):
        typer.echo(f"firearrow audit: there is no audit file in {directory}: give the directory audit/", err=True)
        raise typer.Exit(UNREADABLE)
    return sets


def _verified(which: str, files: list[Path], known: str) -> "AuditVerification":
    """Verify the files of one set; a set without a file has a fault."""
    if not files:
        return replace(verify([], known), faults=(Fault(f"{which}-*", 1, GONE),))
    return verify([(file.name, file.read_bytes()) for file in files], known)


def _print(which: str, found: "AuditVerification") -> None:
    for fault in found.faults[:FAULTS_SHOWN]:
        typer.echo(str(fault))
    if len(found.faults) > FAULTS_SHOWN:
        typer.echo(f"and {len(found.faults) - FAULTS_SHOWN} more")
    if found.torn:
        typer.echo(f"{found.torn}: unfinished; the server was killed while it wrote, which is not tampering")
    if found.first > 1:
        typer.echo(f"{which}: the log begins with line {found.first}: older files are gone, as rotation removes them")
    for why, count in found.lost.items():
        typer.echo(f"{which}: {count} events are counted and not told: {why}")
    judged = f"{len(found.faults)} faults" if found.faults else "as they were written"
    typer.echo(f"{which}: {found.lines} lines, {judged}; the last is line {found.last}, hash {found.hash}")
