"""``firearrow broker list`` and the other commands about running brokers, Apache's too."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from firearrow.cli.cluster import AsJson, NameServers, ask, fail, told_when_interrupted
from firearrow.cli.operate.listing import ShowOptions, Watch
from firearrow.cli.operate.pairs import pairs_of, print_pairs
from firearrow.cli.operate.states import print_states, state_fields
from firearrow.cli.option_groups import grouped
from firearrow.cli.tables import print_table
from firearrow.cli.times import wait_ms
from firearrow.errors import PartlyDone, SettingsError

if TYPE_CHECKING:
    from firearrow.admin import Admin, BrokerMember
    from firearrow.admin.broker_state import BrokerState

ROUTE_WAIT: Final = "40s"
"""Stock producers look for routes every thirty seconds."""
QUIET_S: Final = 5.0
"""A broker that has stored nothing for so long is drained."""

brokers = typer.Typer(add_completion=False, help="Run a broker, or operate running ones.")
config = typer.Typer(add_completion=False, help="Read and change the settings of a running broker.")
brokers.add_typer(config, name="config", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="BROKER", help="The broker, by name or by address.")]


@brokers.command("list")
def list_brokers(
    context: typer.Context,
    servers: NameServers = "",
    cluster: Annotated[str, typer.Option("--cluster", "-c", help="Only brokers of this cluster.")] = "",
    as_json: AsJson = False,
    watch: Watch = None,
) -> None:
    """List brokers with their versions, messages a second, disk and time since start."""

    async def ask(admin: "Admin") -> "Sequence[BrokerState]":
        return await admin.operations.states(await admin.brokers.list(cluster))

    ShowOptions(servers, as_json, watch).show(
        context,
        ask,
        fields=lambda found: [state_fields(state) for state in found],
        tables=lambda found: print_states("Brokers", found),
    )


@brokers.command("describe")
@grouped
def describe_broker(context: typer.Context, name: Name, shown: ShowOptions) -> None:
    """Show everything that a broker says of itself, and how far its slaves are."""

    async def ask(admin: "Admin") -> tuple[dict[str, str], list[tuple[str, int, str]]]:
        member = await _broker(admin, name)
        table = await admin.operations.runtime(member)
        replication = await admin.operations.replication_if_told(member)
        slaves = [] if replication is None else replication.ha_connection_info
        return table, [(each.addr or "", each.diff, "yes" if each.in_sync else "no") for each in slaves]

    names = ["slave", "bytes behind", "in sync"]

    def tables(found: tuple[dict[str, str], list[tuple[str, int, str]]]) -> None:
        print_pairs(f"Broker {name}", found[0])
        if found[1]:
            print_table("Slaves", names, found[1])

    shown.show(
        context,
        ask,
        fields=lambda found: {"state": found[0], "slaves": [dict(zip(names, row, strict=True)) for row in found[1]]},
        tables=tables,
    )


@config.command("get")
@grouped
def get_config(
    context: typer.Context,
    name: Name,
    settings: Annotated[list[str] | None, typer.Argument(metavar="[SETTINGS]...", help="Only these settings.")] = None,
    *,
    shown: ShowOptions,
) -> None:
    """Show the settings of a running broker."""

    async def ask(admin: "Admin") -> dict[str, str]:
        found = await admin.operations.settings(await _broker(admin, name))
        missing = [each for each in settings or [] if each not in found]
        if missing:
            raise SettingsError(f"broker {name} has no setting {missing[0]!r}; without a name all settings are shown")
        return {each: found[each] for each in settings or sorted(found)}

    shown.show(context, ask, fields=lambda found: found, tables=lambda found: print_pairs(f"Settings of {name}", found))


@config.command("set")
def set_config(
    context: typer.Context,
    name: Name,
    changes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="The settings to change.")],
    servers: NameServers = "",
) -> None:
    """Change settings of a running broker; they outlast a restart."""
    wanted = pairs_of(context, changes)

    async def change(admin: "Admin") -> dict[str, str]:
        return await admin.operations.change_settings(await _broker(admin, name), wanted)

    for each, value in ask(context, servers, change).items():
        typer.echo(f"{each}={value} on {name}")


@brokers.command("wipe-write")
def wipe_write(context: typer.Context, name: Name, servers: NameServers = "") -> None:
    """Take the write permission from a broker's queues, at every name server: producers move to other brokers."""
    known, act = _at_name_servers(context, servers, name, lambda admin, known: admin.operations.wipe_write(known))
    for server, topics in act.items():
        typer.echo(f"{known} takes no more messages of {topics} topics, says name server {server}")


@brokers.command("restore-write")
def restore_write(context: typer.Context, name: Name, servers: NameServers = "") -> None:
    """Give a broker's queues write permission again, at every name server."""
    known, act = _at_name_servers(context, servers, name, lambda admin, known: admin.operations.restore_write(known))
    for server, topics in act.items():
        typer.echo(f"{known} takes messages of {topics} topics again, says name server {server}")


def _at_name_servers(
    context: typer.Context, servers: str, broker: str, act: "Callable[[Admin, str], Awaitable[dict[str, int]]]"
) -> tuple[str, dict[str, int]]:
    """Change a registered broker at every name server; return its name, and how many topics each has changed."""

    async def changed(admin: "Admin") -> tuple[str, dict[str, int]]:
        name = (await _broker(admin, broker)).name
        return name, await act(admin, name)

    return ask(context, servers, changed)


@brokers.command("drain")
def drain(
    context: typer.Context,
    name: Name,
    wait: Annotated[
        str, typer.Option(help="Wait at least so long: stock producers look for routes every 30 s.")
    ] = ROUTE_WAIT,
    timeout: Annotated[str, typer.Option(help="Give up if messages still come after so long.")] = "5m",
    servers: NameServers = "",
) -> None:
    """Take a broker's write permission and wait until it stores no more messages, so that it can be stopped."""
    try:
        least_s, most_s = wait_ms(wait) / 1000, wait_ms(timeout) / 1000
    except SettingsError as error:
        fail(context, str(error))

    if most_s < least_s + QUIET_S:
        fail(context, f"--timeout {timeout} is too short: it takes --wait {wait}, and {QUIET_S:g} s without a message")

    async def empty(admin: "Admin") -> bool:
        member = await _broker(admin, name)
        await admin.operations.wipe_write(member.name)
        typer.echo(f"{member.name} takes no more messages; producers have {wait} to notice")
        undone = f"{member.name} still takes no messages; firearrow broker restore-write {member.name} undoes that"
        with told_when_interrupted(undone):
            await asyncio.sleep(least_s)
            return await _is_quiet(admin, member, most_s - least_s)

    if not ask(context, servers, empty):
        fail(
            context,
            f"messages still come after {timeout}: a producer sends to {name} whatever its route says. Find it with "
            f"firearrow broker describe {name}, or stop the broker nevertheless; restore-write undoes this",
        )
    typer.echo(f"{name} is drained: stop it, start it again, then firearrow broker restore-write {name}")


async def _is_quiet(admin: "Admin", member: "BrokerMember", most_s: float) -> bool:
    """Whether a broker stores no message for a while, within so many seconds."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + most_s
    stored = -1
    while loop.time() < ends or stored < 0:
        state = (await admin.operations.states([member]))[0]
        if state.fault:
            raise PartlyDone(
                f"{member.name} takes no more messages by the name servers, but does not answer: {state.fault}. "
                f"Look what became of it; firearrow broker restore-write {member.name} undoes this"
            )
        if state.put_total == stored:
            return True
        stored = state.put_total
        await asyncio.sleep(QUIET_S)
    return False


async def _broker(admin: "Admin", name: str) -> "BrokerMember":
    return (await admin.brokers.readable(broker=name))[0]
