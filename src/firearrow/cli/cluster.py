"""The connections of commands to a cluster, and their report of a failure.

The name servers come from ``-n``, before or after the command, else from the environment (`environment`). TLS and keys
are options of ``firearrow`` itself, given before or after the command, or variables of the environment.

A failure is one line on standard error, which says what happened, why, and what to do next; the exit status is 1.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn, TypeVar

import typer

from firearrow.cli.environment import NAME_SERVERS, AccessOptions
from firearrow.errors import FireArrowError

if TYPE_CHECKING:
    from firearrow.admin import Admin

T = TypeVar("T")

ENDED_BY_SIGNAL: Final = 128
"""The exit status after a signal is this plus the signal's number, as in shells."""

NameServers = Annotated[
    str,
    typer.Option(
        "--name-servers",
        "-n",
        envvar=NAME_SERVERS,
        help="Name servers as host:port, separated by semicolons.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class ProgramOptions(NamedTuple):
    """The options given to ``firearrow`` itself."""

    reach: AccessOptions
    name_servers: str = ""
    fault: str = ""
    """The reason why the profile cannot be used."""


def reach_of(context: typer.Context) -> AccessOptions:
    """Return the TLS options and keys of this command line."""
    found = context.find_object(ProgramOptions)
    return AccessOptions() if found is None else found.reach


def admin_of(context: typer.Context, servers: str) -> "Admin":
    """Return an ``Admin`` of the cluster."""
    from firearrow.admin import Admin  # imported here, because servers do not need it

    return Admin(name_servers(context, servers), **reach_of(context))


def name_servers(context: typer.Context, given: str) -> str:
    """Return the name servers given after the command, before it, or in the environment; fail if there are none."""
    root = context.find_object(ProgramOptions)
    if root is not None and root.fault:
        fail(context, root.fault)
    source = context.get_parameter_source("servers")
    if root is not None and root.name_servers and (source is None or source.name != "COMMANDLINE"):
        given = root.name_servers
    if not given.strip():
        fail(
            context,
            "no name server is given, so there is no cluster to ask. Write -n HOST:PORT, or set FIREARROW_NAMESRV; "
            "`firearrow dev` starts a cluster on 127.0.0.1:9876.",
        )
    return given


def fail(context: typer.Context, why: str) -> NoReturn:
    """End the command with status 1 and a line that says why."""
    typer.echo(f"{context.command_path}: {why}", err=True)
    raise typer.Exit(1)


def run(context: typer.Context, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command's coroutine; a failure or a signal ends the command with a line and an exit status."""
    try:
        return asyncio.run(until_terminated(work))
    except FireArrowError as error:
        fail(context, told(error))
    except KeyboardInterrupt:
        raise typer.Exit(ENDED_BY_SIGNAL + signal.SIGINT) from None
    except ClusterTerminated:
        raise typer.Exit(ENDED_BY_SIGNAL + signal.SIGTERM) from None


def ask(context: typer.Context, servers: str, work: Callable[["Admin"], Awaitable[T]]) -> T:
    """Run work that needs the administration of the cluster, as `run` does."""

    async def asked() -> T:
        async with admin_of(context, servers) as admin:
            return await work(admin)

    return run(context, asked)


@contextmanager
def only_reading() -> Iterator[None]:
    """Within the block nothing is changed, so a failure is not told as a change that may have happened."""
    try:
        yield
    except FireArrowError as error:
        error.may_have_happened = False
        raise


@contextmanager
def told_when_interrupted(state: str) -> Iterator[None]:
    """Say in which state an interruption or SIGTERM within the block leaves what the command changes."""
    try:
        yield
    except asyncio.CancelledError:
        typer.echo(f"interrupted: {state}", err=True)
        raise


class ClusterTerminated(Exception):
    """SIGTERM came."""


async def until_terminated(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Cancel the work at SIGTERM, as asyncio does at SIGINT, so that a group is left and offsets are committed."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await work()
    except asyncio.CancelledError:
        if not terminated:
            raise
        raise ClusterTerminated from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def told(error: FireArrowError) -> str:
    """Return what a command says of an error."""
    text = " ".join([f"{error}.", *getattr(error, "__notes__", [])]).replace("..", ".")
    if error.may_have_happened:
        return f"{text} It may have happened nevertheless: check before you repeat it."
    if error.retryable:
        return f"{text} Nothing was changed; trying again later may help."
    return text
