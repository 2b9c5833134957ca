"""The tree of commands. Each is imported when it is run: a question to a cluster loads no broker."""

from importlib import import_module
from typing import Annotated, Any, Final

import typer
import typer.core
import typer.main

from firearrow.cli.reaching import Reach
from firearrow.runtime.tlssettings import ClientTls

COMMANDS: Final = {
    "broker": "Run a broker: takes messages, keeps them, hands them out.",
    "consume": "Print the messages of a topic: those that are there, or those that come.",
    "dev": "Run a name server and a broker on this machine alone, for developing against.",
    "group": "List, describe and reset consumer groups.",
    "nameserver": "Run a name server: knows which broker holds which topic, and tells whoever asks.",
    "pipeline": "Topics as tables: archive, replay, audit. Needs the extra spark.",
    "produce": "Send messages: from texts, files or standard input.",
    "store": "Look at a store directory, ours or Apache's.",
    "topic": "List, create, describe, update and delete topics.",
}
"""The commands. Each is a module of this package, and what runs in it has the command's own name."""


def load_command(name: str) -> Any:  # noqa: ANN401 - a command of whichever click is inside typer
    """Import a command."""
    found = getattr(import_module(f"firearrow.cli.{name}"), name)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
    else:
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        command = typer.main.get_command(single)
    command.name = name
    return command


class _LateCommands(typer.core.TyperGroup):
    """A group whose commands are imported when they are run; to list them their names and help suffice."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002
        return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        if args and args[0] in COMMANDS:
            return args[0], load_command(args[0]), args[1:]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_LateCommands,
    name="firearrow",
    help="A message platform compatible with Apache RocketMQ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"firearrow {version('firearrow')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    tls: Annotated[bool, typer.Option("--tls", envvar="FIREARROW_TLS", help="Speak TLS to the cluster.")] = False,
    trust: Annotated[
        str, typer.Option(envvar="FIREARROW_TLS_TRUST", help="PEM file of authorities; servers are checked with it.")
    ] = "",
    access_key: Annotated[str, typer.Option(envvar="FIREARROW_ACCESS_KEY", help="Account to sign requests with.")] = "",
    secret_key: Annotated[
        str, typer.Option(envvar="FIREARROW_SECRET_KEY", help="Its secret; better in the environment.")
    ] = "",
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A message platform compatible with Apache RocketMQ."""
    speaks_tls = ClientTls(enabled=tls or bool(trust), verify_server=bool(trust), trust_path=trust)
    context.obj = Reach(tls=speaks_tls, access_key=access_key, secret_key=secret_key)
