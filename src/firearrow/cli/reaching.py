"""How commands reach a cluster, and how they tell that they could not.

The name servers come from ``-n``, else from the environment: ``FIREARROW_NAMESRV``, or ``NAMESRV_ADDR`` as Apache's
tools read it. TLS and keys are options of ``firearrow`` itself, before the command, or of the environment.

A failure is one line on standard error, which says what happened, why, and what to do next; the exit status is 1.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypedDict, TypeVar, cast

import typer

from firearrow.errors import FireArrowError
from firearrow.runtime.tlssettings import ClientTls

if TYPE_CHECKING:
    from firearrow.admin import Admin

T = TypeVar("T")

ENVIRONMENT: Final = ["FIREARROW_NAMESRV", "NAMESRV_ADDR"]
EXIT_INTERRUPTED: Final = 130

NameServers = Annotated[
    str,
    typer.Option(
        "--name-servers",
        "-n",
        envvar=ENVIRONMENT,
        help="Name servers, host:port divided by semicolons.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class Reach(TypedDict, total=False):
    """What servers are shown: TLS and keys, the same for every command and every client."""

    tls: ClientTls
    access_key: str
    secret_key: str


def reach_of(context: typer.Context) -> Reach:
    """What was given before the command."""
    found = context.find_object(dict)
    return Reach() if found is None else cast("Reach", found)


def admin_of(context: typer.Context, servers: str) -> "Admin":
    """An administrator of the cluster."""
    from firearrow.admin import Admin  # here, because servers do without it

    return Admin(name_servers(context, servers), **reach_of(context))


def name_servers(context: typer.Context, given: str) -> str:
    """The name servers; ends the command when none is given."""
    if not given.strip():
        fail(
            context,
            "no name server is given, so there is no cluster to ask. Write -n HOST:PORT, or set FIREARROW_NAMESRV; "
            "`firearrow dev` starts a cluster on 127.0.0.1:9876.",
        )
    return given


def fail(context: typer.Context, why: str) -> NoReturn:
    """End the command with a line that says why."""
    typer.echo(f"{context.command_path}: {why}", err=True)
    raise typer.Exit(1)


def run(context: typer.Context, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command's coroutine; a failure ends the command with its own words."""
    try:
        return asyncio.run(work())
    except FireArrowError as error:
        fail(context, _told(error))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stderr.close()
        raise typer.Exit(0) from None


def _told(error: FireArrowError) -> str:
    text = " ".join([f"{error}.", *getattr(error, "__notes__", [])]).replace("..", ".")
    if error.may_have_happened:
        return f"{text} It may have happened all the same: look before you repeat it."
    if error.retryable:
        return f"{text} Nothing was changed; trying again later may help."
    return text
