"""The tree of commands. A command is imported when it runs, so a question to a cluster loads no broker."""

import difflib
import os
from importlib import import_module
from typing import Annotated, Any, Final

import typer
import typer.core
import typer.main

from firearrow.cli.cluster import Given
from firearrow.cli.environment import Reach, unread
from firearrow.runtime.tls_settings import ClientTls

COMMANDS: Final = {
    "broker": "Run a broker: stores messages and delivers them to consumers.",
    "consume": "Print the messages of a topic: stored ones, or new ones as they arrive.",
    "dev": "Run a name server and a broker for development, reachable from this machine only.",
    "failover": "Groups with a coordinator: their state, elections by name.",
    "group": "List, describe and reset consumer groups.",
    "nameserver": "Run a name server: tells clients which broker holds which topic.",
    "pipeline": "Topics as tables: archive, replay, audit, stats, maintain, with the extra spark. To another cluster: "
    "mirror.",
    "produce": "Send messages from texts, files or standard input.",
    "recall": "Take back delayed messages that are not due yet.",
    "store": "Inspect a store directory, FireArrow's or Apache's.",
    "topic": "List, create, describe, update and delete topics.",
}
"""Commands with their help. A command is a module of this package with a function of the same name."""

SERVERS: Final = frozenset({"broker", "dev", "nameserver"})
ANYWHERE: Final = {"--tls": False, "--trust": True, "--access-key": True, "--secret-key": True}
"""Options of ``firearrow`` that may also be given after the command, and whether a value follows."""

EPILOG: Final = "TLS and keys: --tls, --trust, --access-key, --secret-key, as firearrow --help describes them."


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
    if name not in SERVERS | {"store"}:
        for leaf in _leaves(command):
            leaf.epilog = EPILOG
    return command


def _leaves(command: Any) -> list[Any]:  # noqa: ANN401
    children = getattr(command, "commands", None)
    return [command] if children is None else [leaf for child in children.values() for leaf in _leaves(child)]


def options_first(args: list[str]) -> list[str]:
    """Return the arguments with the options that may be given anywhere moved to the front."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(args)
    for word in words:
        name, sign, _ = word.partition("=")
        if word == "--":
            return [*front, *rest, word, *words]
        if name not in ANYWHERE:
            rest.append(word)
        elif ANYWHERE[name] and not sign:
            front += [word, *[value for value in [next(words, None)] if value is not None]]
        else:
            front.append(word)
    return [*front, *rest]


class _LateCommands(typer.core.TyperGroup):
    """A command group that imports a command when it runs; a listing needs only names and help texts."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002
        return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        return super().parse_args(ctx, options_first(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        if args and args[0] in COMMANDS:
            return args[0], load_command(args[0]), args[1:]
        near = difflib.get_close_matches(args[0], COMMANDS, n=1) if args else []
        if near and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_LateCommands,
    name="firearrow",
    help="A message platform compatible with Apache RocketMQ.",
    no_args_is_help=True,
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
    name_servers: Annotated[
        str, typer.Option("--name-servers", "-n", help="Name servers; may also be given after the command.")
    ] = "",
    tls: Annotated[bool, typer.Option("--tls", envvar="FIREARROW_TLS", help="Speak TLS to the cluster.")] = False,
    trust: Annotated[
        str,
        typer.Option(
            envvar="FIREARROW_TLS_TRUST",
            help="PEM file of certificate authorities; servers must have a certificate of one of them.",
        ),
    ] = "",
    access_key: Annotated[
        str, typer.Option(envvar="FIREARROW_ACCESS_KEY", help="Access key of the account that signs requests.")
    ] = "",
    secret_key: Annotated[
        str,
        typer.Option(
            envvar="FIREARROW_SECRET_KEY", help="Secret key of that account; better given in the environment."
        ),
    ] = "",
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A message platform compatible with Apache RocketMQ."""
    speaks_tls = ClientTls(enabled=tls or bool(trust), verify_server=bool(trust), trust_path=trust)
    context.obj = Given(Reach(tls=speaks_tls, access_key=access_key, secret_key=secret_key), name_servers)
    if not context.resilient_parsing:
        for line in unread(os.environ):
            typer.echo(f"warning: {line}", err=True)
