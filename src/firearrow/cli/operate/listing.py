"""Listings: tables for people or JSON for programs, shown once or again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from firearrow.cli.cluster import AsJson, NameServers, admin_of, only_reading, run, told
from firearrow.cli.option_groups import OptionGroup
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


@dataclass(frozen=True)
class ShowOptions(OptionGroup):
    """The cluster that is asked, and the form of what it answers."""

    servers: NameServers = ""
    as_json: AsJson = False
    watch: Watch = None

    def show(
        self,
        context: typer.Context,
        ask: Callable[["Admin"], Awaitable[T]],
        *,
        fields: Callable[[T], object],
        tables: Callable[[T], None],
    ) -> None:
        """Ask the cluster and print the answer, as ``tables`` or as the JSON of ``fields``.

        With ``watch`` it is asked again and again; a failure after the first answer is a line on standard error.
        """

        async def look() -> None:
            async with admin_of(context, self.servers) as admin:
                await self.again(context, lambda: ask(admin), fields=fields, tables=tables)

        run(context, look)

    async def again(
        self,
        context: typer.Context,
        ask: Callable[[], Awaitable[T]],
        *,
        fields: Callable[[T], object],
        tables: Callable[[T], None],
    ) -> None:
        """Print an answer, with ``watch`` again and again."""

        def print_it(found: T) -> None:
            if not self.as_json:
                tables(found)
            elif self.watch is None:
                print_json(fields(found))
            else:
                standard_output().write(msgspec.json.encode(fields(found)).decode() + "\n")
            flush()

        with only_reading():
            print_it(await ask())
        while self.watch is not None:
            await asyncio.sleep(self.watch)
            try:
                with only_reading():
                    found = await ask()
            except FireArrowError as error:
                typer.echo(f"{context.command_path}: {told(error)}", err=True)
                continue
            if standard_output().isatty() and not self.as_json:
                standard_output().write(CLEAR)
            print_it(found)
