"""``firearrow nameserver config`` and ``kv``: settings and named texts of running name servers, Apache's too."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.cluster import NameServers, ask
from firearrow.cli.operate.listing import ShowOptions
from firearrow.cli.operate.pairs import pairs_of
from firearrow.cli.option_groups import grouped
from firearrow.cli.tables import print_table

if TYPE_CHECKING:
    from firearrow.admin import Admin

nameservers = typer.Typer(add_completion=False, help="Run a name server, or operate running ones.")
config = typer.Typer(add_completion=False, help="Read and change the settings of running name servers.")
kv = typer.Typer(add_completion=False, help="Texts that name servers keep, by namespace and key.")
nameservers.add_typer(config, name="config", no_args_is_help=True)
nameservers.add_typer(kv, name="kv", no_args_is_help=True)

Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace, such as ORDER_TOPIC_CONFIG.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]


@config.command("get")
@grouped
def get_config(context: typer.Context, shown: ShowOptions) -> None:
    """Show the settings of every name server."""

    async def pairs(admin: "Admin") -> dict[str, dict[str, str]]:
        names = admin.name_servers
        return {str(server): await names.settings(server) for server in names.addresses}

    _show_by_server(context, shown, pairs, "Settings")


@config.command("set")
def set_config(
    context: typer.Context,
    changes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="The settings to change.")],
    servers: NameServers = "",
) -> None:
    """Change settings of every name server; they outlast a restart."""
    wanted = pairs_of(context, changes)

    async def change(admin: "Admin") -> int:
        await admin.name_servers.change_settings(wanted)
        return len(admin.name_servers.addresses)

    typer.echo(f"changed at {ask(context, servers, change)} name servers: {', '.join(changes)}")


@kv.command("list")
@grouped
def list_texts(
    context: typer.Context,
    namespace: Annotated[
        str, typer.Argument(metavar="[NAMESPACE]", help="The namespace; strict order is kept in the default one.")
    ] = "ORDER_TOPIC_CONFIG",
    *,
    shown: ShowOptions,
) -> None:
    """List the texts of a namespace at every name server."""

    async def pairs(admin: "Admin") -> dict[str, dict[str, str]]:
        names = admin.name_servers
        return {str(server): await names.texts(server, namespace) for server in names.addresses}

    _show_by_server(context, shown, pairs, namespace)


@kv.command("set")
def set_text(
    context: typer.Context,
    namespace: Namespace,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The text.")],
    servers: NameServers = "",
) -> None:
    """Set a text at every name server."""
    ask(context, servers, lambda admin: admin.name_servers.put_text(namespace, key, value))
    typer.echo(f"{namespace} {key} is {value}")


@kv.command("delete")
def delete_text(context: typer.Context, namespace: Namespace, key: Key, servers: NameServers = "") -> None:
    """Delete a text at every name server."""
    ask(context, servers, lambda admin: admin.name_servers.delete_text(namespace, key))
    typer.echo(f"{namespace} {key} is gone")


def _show_by_server(
    context: typer.Context,
    shown: ShowOptions,
    work: Callable[["Admin"], Awaitable[dict[str, dict[str, str]]]],
    title: str,
) -> None:
    """Show names and values, a column of servers before them."""
    shown.show(
        context,
        work,
        fields=lambda found: found,
        tables=lambda found: print_table(
            title,
            ["name server", "name", "value"],
            [(server, name, value) for server, pairs in found.items() for name, value in sorted(pairs.items())],
        ),
    )
