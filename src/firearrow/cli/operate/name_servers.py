"""``firearrow nameserver config`` and ``kv``: settings and named texts of running name servers, Apache's too."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.cluster import AsJson, NameServers, admin_of, run
from firearrow.cli.operate.listing import Watch, show
from firearrow.cli.operate.pairs import pairs_of
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
def get_config(context: typer.Context, servers: NameServers = "", as_json: AsJson = False, watch: Watch = None) -> None:
    """Show the settings of every name server."""

    async def ask(admin: "Admin") -> dict[str, dict[str, str]]:
        names = admin.name_servers
        return {str(server): await names.settings(server) for server in names.addresses}

    _show_by_server(context, servers, ask, "Settings", as_json=as_json, watch=watch)


@config.command("set")
def set_config(
    context: typer.Context,
    changes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="The settings to change.")],
    servers: NameServers = "",
) -> None:
    """Change settings of every name server; they outlast a restart."""
    wanted = pairs_of(context, changes)

    async def change() -> int:
        async with admin_of(context, servers) as admin:
            await admin.name_servers.change_settings(wanted)
            return len(admin.name_servers.addresses)

    typer.echo(f"changed at {run(context, change)} name servers: {', '.join(changes)}")


@kv.command("list")
def list_texts(
    context: typer.Context,
    namespace: Annotated[
        str, typer.Argument(metavar="[NAMESPACE]", help="The namespace; strict order is kept in the default one.")
    ] = "ORDER_TOPIC_CONFIG",
    servers: NameServers = "",
    as_json: AsJson = False,
    watch: Watch = None,
) -> None:
    """List the texts of a namespace at every name server."""

    async def ask(admin: "Admin") -> dict[str, dict[str, str]]:
        names = admin.name_servers
        return {str(server): await names.texts(server, namespace) for server in names.addresses}

    _show_by_server(context, servers, ask, namespace, as_json=as_json, watch=watch)


@kv.command("set")
def set_text(
    context: typer.Context,
    namespace: Namespace,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The text.")],
    servers: NameServers = "",
) -> None:
    """Set a text at every name server."""

    async def put() -> None:
        async with admin_of(context, servers) as admin:
            await admin.name_servers.put_text(namespace, key, value)

    run(context, put)
    typer.echo(f"{namespace} {key} is {value}")


@kv.command("delete")
def delete_text(context: typer.Context, namespace: Namespace, key: Key, servers: NameServers = "") -> None:
    """Delete a text at every name server."""

    async def forget() -> None:
        async with admin_of(context, servers) as admin:
            await admin.name_servers.delete_text(namespace, key)

    run(context, forget)
    typer.echo(f"{namespace} {key} is gone")


def _show_by_server(
    context: typer.Context,
    servers: str,
    ask: Callable[["Admin"], Awaitable[dict[str, dict[str, str]]]],
    title: str,
    *,
    as_json: bool,
    watch: float | None,
) -> None:
    """Show names and values, a column of servers before them."""
    show(
        context,
        servers,
        ask,
        fields=lambda found: found,
        tables=lambda found: print_table(
            title,
            ["name server", "name", "value"],
            [(server, name, value) for server, pairs in found.items() for name, value in sorted(pairs.items())],
        ),
        as_json=as_json,
        watch=watch,
    )
