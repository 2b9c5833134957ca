"""``firearrow topic route``, ``grow`` and ``shrink``."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.cluster import NameServers, ask, fail, told_when_interrupted
from firearrow.cli.operate.listing import ShowOptions
from firearrow.cli.option_groups import grouped
from firearrow.cli.tables import print_table
from firearrow.cli.times import wait_ms
from firearrow.errors import FireArrowError, NoSuchName, NotNow, PartlyDone, SettingsError
from firearrow.model.flags import perm_text

if TYPE_CHECKING:
    from firearrow.admin import Admin
    from firearrow.protocol.bodies.naming.route import TopicRouteData

LOOK_S = 1.0

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Queues = Annotated[int, typer.Option("--queues", "-q", min=1, help="Queues on each broker afterwards.")]
InCluster = Annotated[str, typer.Option("--cluster", "-c", help="On every master of this cluster.")]
OnBroker = Annotated[str, typer.Option("--broker", "-b", help="Only on this broker, given by name or address.")]


@grouped
def route_topic(context: typer.Context, name: Name, shown: ShowOptions) -> None:
    """Show where name servers send clients: brokers with addresses, queues and permission."""

    async def ask(admin: "Admin") -> Sequence["TopicRouteData"]:
        if await admin.brokers.route(name) is None:
            raise NoSuchName(f"no name server knows a topic {name!r}; firearrow topic list shows those that are there")
        return [route for route in await admin.brokers.routes(name) if route is not None]

    def tables(found: Sequence["TopicRouteData"]) -> None:
        rows = [tuple(row.values()) for row in _rows(found[0])]
        print_table(f"Route of {name}", ["broker", "cluster", "addresses", "read queues", "write queues", "perm"], rows)
        if any(_rows(other) != _rows(found[0]) for other in found[1:]):
            typer.echo("name servers disagree; firearrow doctor compares them")

    shown.show(context, ask, fields=lambda found: [_rows(route) for route in found], tables=tables)


def _rows(route: "TopicRouteData") -> list[dict[str, object]]:
    brokers = {data.broker_name: data for data in route.broker_datas}
    rows: list[dict[str, object]] = []
    for queues in sorted(route.queue_datas, key=lambda each: each.broker_name or ""):
        data = brokers.get(queues.broker_name)
        addresses = {} if data is None else data.broker_addrs
        rows.append(
            {
                "broker": queues.broker_name,
                "cluster": "" if data is None else data.cluster,
                "addresses": ", ".join(f"{number}={address}" for number, address in sorted(addresses.items())),
                "readQueues": queues.read_queue_nums,
                "writeQueues": queues.write_queue_nums,
                "perm": perm_text(queues.perm),
            }
        )
    return rows


def grow_topic(
    context: typer.Context,
    name: Name,
    queues: Queues,
    servers: NameServers = "",
    cluster: InCluster = "",
    broker: OnBroker = "",
) -> None:
    """Give a topic more queues. Messages of one sharding key may go to another queue from then on."""
    ask(context, servers, lambda admin: admin.sizes.grow(name, queues, cluster=cluster, broker=broker))
    typer.echo(f"topic {name} has {queues} queues on each broker")


def shrink_topic(
    context: typer.Context,
    name: Name,
    queues: Queues,
    wait: Annotated[
        str, typer.Option(help="Wait at least so long for producers: stock ones look for routes every 30 s.")
    ] = "40s",
    timeout: Annotated[
        str, typer.Option(help="Give up if groups still have messages to consume after so long.")
    ] = "10m",
    force: Annotated[
        bool, typer.Option("--force", help="Do not wait: what is not consumed is lost to groups.")
    ] = False,
    servers: NameServers = "",
    cluster: InCluster = "",
    broker: OnBroker = "",
) -> None:
    """Take queues from a topic: no more writes, then every group consumes them, then no more reads."""
    try:
        least_s, most_s = wait_ms(wait) / 1000, wait_ms(timeout) / 1000
    except SettingsError as error:
        fail(context, str(error))

    async def shrink(admin: "Admin") -> None:
        await admin.sizes.stop_writing(name, queues, cluster=cluster, broker=broker)
        closed = f"queues from {queues} on take no more messages"
        try:
            if not force:
                typer.echo(f"{closed}; producers have {wait} to notice")
                with told_when_interrupted(f"{closed}, and can be read; give the same command again to go on"):
                    await asyncio.sleep(least_s)
                    brokers = [member.name for member in await admin.brokers.masters(cluster, broker)]
                    await _until_read(admin, name, queues, brokers, most_s)
            await admin.sizes.stop_reading(name, queues, cluster=cluster, broker=broker)
        except FireArrowError as failure:
            raise PartlyDone(f"{closed}, but the rest is not done: {failure}") from failure

    ask(context, servers, shrink)
    typer.echo(f"topic {name} has {queues} queues on each broker")


async def _until_read(admin: "Admin", topic: str, queues: int, brokers: Sequence[str], most_s: float) -> None:
    loop = asyncio.get_running_loop()
    ends = loop.time() + most_s
    while unread := await admin.sizes.unread(topic, queues, brokers):
        if loop.time() >= ends:
            first = unread[0]
            raise NotNow(
                f"group {first.group!r} has not consumed {first.messages} messages of queue "
                f"{first.queue.broker_name}:{first.queue.queue_id}. Let the group go on and give the command again, or "
                "--force"
            )
        await asyncio.sleep(LOOK_S)
