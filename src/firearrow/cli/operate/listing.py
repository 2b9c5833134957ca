"""Listings: tables for people or JSON for programs, shown once or again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from firearrow.cli.cluster import admin_of, only_reading, run, told
from firearrow.cli.output import flush, standard_output
from firearrow.cli.tables import print_json
from firearrow.errors import FireArrowError

if TYPE_CHECKING:
    from firearrow.admin import Admin

T = TypeVar("T")

CLEAR = "\x1b[H\x1b[2J"
"""Empties the screen of a terminal."""

Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        "-w",
        min=0.1,
        metavar="SECONDS",
        help="Show it again every so many seconds, until interrupted; with --json one line each time.",
    ),
]


def show(
    context: typer.Context,
    servers: str,
    ask: Callable[["Admin"], Awaitable[T]],
    *,
    fields: Callable[[T], object],
    tables: Callable[[T], None],
    as_json: bool,
    watch: float | None,
) -> None:
    """Ask the cluster and print the answer, as ``tables`` or as the JSON of ``fields``.

    With ``watch`` it is asked again and again; a failure after the first answer is a line on standard error.
    """

    async def look() -> None:
        async with admin_of(context, servers) as admin:
            await shown_again(context, lambda: ask(admin), fields=fields, tables=tables, as_json=as_json, watch=watch)

    run(context, look)


async def shown_again(
    context: typer.Context,
    ask: Callable[[], Awaitable[T]],
    *,
    fields: Callable[[T], object],
    tables: Callable[[T], None],
    as_json: bool,
    watch: float | None,
) -> None:
    """Print an answer, with ``watch`` again and again, as `show` does."""

    def print_it(found: T) -> None:
        if not as_json:
            tables(found)
        elif watch is None:
            print_json(fields(found))
        else:
            standard_output().write(msgspec.json.encode(fields(found)).decode() + "\n")
        flush()

    with only_reading():
        print_it(await ask())
    while watch is not None:
        await asyncio.sleep(watch)
        try:
            with only_reading():
                found = await ask()
        except FireArrowError as error:
            typer.echo(f"{context.command_path}: {told(error)}", err=True)
            continue
        if standard_output().isatty() and not as_json:
            standard_output().write(CLEAR)
        print_it(found)
