"""The tree of commands. A command is imported when it runs, so a question to a cluster loads no broker."""

import difflib
import os
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
import typer.core
import typer.main

from firearrow.cli.cluster import ProgramOptions
from firearrow.cli.environment import AccessOptions, unread
from firearrow.cli.operate.examples import EXAMPLES
from firearrow.errors import FireArrowError
from firearrow.model.signature import SignatureMethod
from firearrow.runtime.tls_settings import ClientTls

if TYPE_CHECKING:
    from firearrow.cli.operate.user_file import Profile

COMMANDS: Final = {
    "acl": "Create, list, delete and test the rules that say what users may do.",
    "audit": "Check the audit log of a server: who did what, and who was refused.",
    "bench": "Measure a cluster: sends, reads, and the way of a message.",
    "broker": "Run a broker: stores messages and delivers them to consumers.",
    "cluster": "List and describe clusters.",
    "consume": "Print the messages of a topic: stored ones, or new ones as they arrive.",
    "dev": "Run a name server and a broker for development, reachable from this machine only.",
    "dlq": "Dead letters: what failed, since when; and sent again.",
    "doctor": "Look for faults of a cluster: what is wrong, and what to do.",
    "failover": "Groups with a coordinator: state, elections by name, backups.",
    "group": "List, create, describe, update, reset and delete consumer groups.",
    "message": "Find single messages, send or consume them again.",
    "nameserver": "Run a name server: tells clients which broker holds which topic.",
    "pipeline": "Topics as tables: archive, replay, audit, stats, maintain, with the extra spark. To another cluster: "
    "mirror.",
    "profile": "Names for clusters: name servers, TLS and keys, for --profile NAME.",
    "produce": "Send messages from texts, files or standard input.",
    "recall": "Take back delayed messages that are not due yet.",
    "store": "Inspect a store directory, FireArrow's or Apache's.",
    "topic": "List, create, describe, update and delete topics.",
    "user": "Create, list, update and delete the users that brokers let in.",
}
"""Commands with their help. A command is a module of this package with a function of the same name, or in `PLACES`."""

PLACES: Final = {
    "bench": "firearrow.cli.messages.bench",
    "acl": "firearrow.cli.operate.access",
    "audit": "firearrow.cli.operate.audit",
    "cluster": "firearrow.cli.operate.cluster",
    "dlq": "firearrow.cli.jobs.dead_letters",
    "doctor": "firearrow.cli.operate.doctor",
    "failover": "firearrow.cli.failover.commands",
    "message": "firearrow.cli.operate.message",
    "profile": "firearrow.cli.operate.profile",
    "user": "firearrow.cli.operate.access",
}
OPERATIONS: Final = {
    "broker": ("firearrow.cli.operate.brokers", "brokers"),
    "nameserver": ("firearrow.cli.operate.name_servers", "nameservers"),
}
"""Commands that run a server, and where the commands below them are, about running servers."""

SERVERS: Final = frozenset({"broker", "dev", "nameserver"})
ANYWHERE: Final = {"--tls": False, "--trust": True, "--access-key": True, "--secret-key": True, "--profile": True}
"""Options of ``firearrow`` that may also be given after the command, and whether a value follows."""

EPILOG: Final = (
    "TLS, keys and profiles: --tls, --trust, --access-key, --secret-key, --profile, as firearrow --help describes them."
)


def load_command(name: str) -> Any:  # noqa: ANN401 - a command of whichever click is inside typer
    """Import a command, with everything below it."""
    found = getattr(import_module(PLACES.get(name, f"firearrow.cli.{name}")), name)
    if name in OPERATIONS:
        command = _server_command(name, found)
    elif isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
    else:
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        command = typer.main.get_command(single)
    command.name = name
    _add_examples(command, name)
    return command


def load_operations(name: str) -> Any:  # noqa: ANN401
    """Import the commands about running servers, without the server."""
    module, operations = OPERATIONS[name]
    command = typer.main.get_command(getattr(import_module(module), operations))
    command.name = name
    _add_examples(command, name)
    return command


def _server_command(name: str, serve: Any) -> Any:  # noqa: ANN401
    """Return a command that runs a server, unless one of the commands below it is given."""
    server = typer.Typer(add_completion=False, cls=_ServerCommand)
    server.callback(invoke_without_command=True)(serve)
    command: Any = typer.main.get_command(server)
    command.commands.update(load_operations(name).commands)
    return command


def _add_examples(command: Any, path: str) -> None:  # noqa: ANN401
    command.rich_markup_mode = None  # rich takes longer to import than most commands take
    children = getattr(command, "commands", None)
    for name, child in (children or {}).items():
        _add_examples(child, f"{path} {name}")
    if children is None or path in SERVERS:
        runs_here = path in SERVERS or path.startswith(("store ", "audit "))
        example = f"Example: {EXAMPLES[path]}" if path in EXAMPLES else ""
        command.epilog = "\n\n".join(filter(None, (example, "" if runs_here else EPILOG)))


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


class _ServerCommand(typer.core.TyperGroup):
    """A command that runs a server; options of the server do not go with the commands below it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        found = super().resolve_command(ctx, args)
        if not ctx.resilient_parsing:
            ctx.fail(f"{args[0]!r} comes first: write `{ctx.command_path} {args[0]} ...`, and its options behind it.")
        return found


class _LateCommands(typer.core.TyperGroup):
    """A command group that imports a command when it runs; a listing needs only names and help texts."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002
        return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        return super().parse_args(ctx, options_first(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        if len(args) > 1 and args[0] in OPERATIONS and not args[1].startswith("-"):
            return args[0], load_operations(args[0]), args[1:]
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
    rich_markup_mode=None,
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
    signature_method: Annotated[
        SignatureMethod,
        typer.Option(
            envvar="FIREARROW_SIGNATURE_METHOD",
            help="How requests are signed; HmacSHA256 cannot be replayed, but only FireArrow's servers know it.",
        ),
    ] = SignatureMethod.SHA1,
    profile: Annotated[
        str,
        typer.Option(
            envvar="FIREARROW_PROFILE",
            help="Reach the cluster that `firearrow profile add` kept under this name; options given too are stronger.",
        ),
    ] = "",
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A message platform compatible with Apache RocketMQ."""
    fault = ""
    if profile and context.invoked_subcommand != "profile":
        try:
            known = _profile(profile)
        except FireArrowError as error:
            fault = str(error)  # said by a command that reaches a cluster
        else:
            tls = tls if _is_given(context, "tls") else known.tls
            trust = trust if _is_given(context, "trust") else known.trust
            access_key = access_key if _is_given(context, "access_key") else known.access_key
            secret_key = secret_key if _is_given(context, "secret_key") else known.secret_key
            given = _is_given(context, "signature_method")
            signature_method = signature_method if given else known.signature_method
            name_servers = name_servers or known.name_servers
    speaks_tls = ClientTls(enabled=tls or bool(trust), verify_server=bool(trust), trust_path=trust)
    reach = AccessOptions(
        tls=speaks_tls, access_key=access_key, secret_key=secret_key, signature_method=signature_method
    )
    context.obj = ProgramOptions(reach, name_servers, fault)
    if not context.resilient_parsing:
        for line in unread(os.environ):
            typer.echo(f"warning: {line}", err=True)


def _profile(name: str) -> "Profile":
    from firearrow.cli.operate.user_file import chosen_profile, profiles_file

    return chosen_profile(name, profiles_file(os.environ))


def _is_given(context: typer.Context, option: str) -> bool:
    """Whether an option stands on the command line; a profile is stronger than the environment."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"
