"""The tree of commands."""

from importlib.metadata import version
from typing import Annotated

import typer

from firearrow.cli import broker, dev, nameserver, store

app = typer.Typer(
    name="firearrow",
    help="A message platform compatible with Apache RocketMQ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command("nameserver")(nameserver.nameserver)
app.command("broker")(broker.broker)
app.command("dev")(dev.dev)
app.add_typer(store.store, name="store")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"firearrow {version('firearrow')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A message platform compatible with Apache RocketMQ."""
