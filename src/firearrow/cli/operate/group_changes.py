"""``firearrow group create``, ``update``, ``delete`` and ``skip``."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from firearrow.cli.cluster import AsJson, NameServers, admin_of, fail, run
from firearrow.cli.operate.moves import print_moves, queue_of
from firearrow.errors import NoSuchName, SettingsError

if TYPE_CHECKING:
    from firearrow.admin import QueueMove

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
InCluster = Annotated[str, typer.Option("--cluster", "-c", help="On every master of this cluster.")]
OnBroker = Annotated[str, typer.Option("--broker", "-b", help="Only on this broker, given by name or address.")]
Retries = Annotated[int | None, typer.Option(min=-1, help="How often a message is tried again. [16]")]
RetryQueues = Annotated[int | None, typer.Option(min=1, help="Queues of the retry topic. [1]")]
Broadcast = Annotated[
    bool | None, typer.Option("--broadcast/--no-broadcast", help="Members may consume by broadcasting. [yes]")
]
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Members may consume. [yes]")]
Ordered = Annotated[
    bool | None, typer.Option("--order/--no-order", help="Consume in order (members that pop, 5.x). [no]")
]


class Wanted(NamedTuple):
    """The settings of a group that a command line gives, and the brokers that they are for."""

    group: str
    given: Mapping[str, Any]
    cluster: str
    broker: str


def _with_settings(act: Callable[[typer.Context, str, Wanted], None]) -> Callable[..., None]:
    """Return a command that takes the settings of a group as options."""

    def command(
        context: typer.Context,
        name: Name,
        retries: Retries = None,
        retry_queues: RetryQueues = None,
        broadcast: Broadcast = None,
        enable: Enabled = None,
        order: Ordered = None,
        cluster: InCluster = "",
        broker: OnBroker = "",
        servers: NameServers = "",
    ) -> None:
        given = {
            "retry_max_times": retries,
            "retry_queue_nums": retry_queues,
            "consume_broadcast_enable": broadcast,
            "consume_enable": enable,
            "consume_message_orderly": order,
        }
        changes = {setting: value for setting, value in given.items() if value is not None}
        act(context, servers, Wanted(name, changes, cluster, broker))

    command.__doc__ = act.__doc__
    return command


@_with_settings
def create_group(context: typer.Context, servers: str, wanted: Wanted) -> None:
    """Create a consumer group, on brokers that do not make groups by themselves."""
    from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig

    async def make() -> None:
        async with admin_of(context, servers) as admin:
            config = SubscriptionGroupConfig(group_name=wanted.group, **wanted.given)
            await admin.members.create(config, cluster=wanted.cluster, broker=wanted.broker)

    run(context, make)
    typer.echo(f"group {wanted.group} is there")


@_with_settings
def update_group(context: typer.Context, servers: str, wanted: Wanted) -> None:
    """Change the given settings of a group; the others stay as they are."""
    if not wanted.given:
        fail(context, "nothing to change is given; see --help for what can be changed")

    async def change() -> None:
        async with admin_of(context, servers) as admin:
            await admin.members.update(wanted.group, wanted.given, cluster=wanted.cluster, broker=wanted.broker)

    run(context, change)
    typer.echo(f"group {wanted.group} is changed")


def delete_group(
    context: typer.Context,
    name: Name,
    cluster: Annotated[
        str, typer.Option("--cluster", "-c", help="Delete it only from the brokers of this cluster.")
    ] = "",
    keep_offsets: Annotated[bool, typer.Option("--keep-offsets", help="Keep its offsets.")] = False,
    sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    servers: NameServers = "",
) -> None:
    """Delete a group without members: its settings, offsets and retry topic; dead letters stay."""

    async def behind() -> int | None:
        async with admin_of(context, servers) as admin:
            await admin.members.settings(name, cluster)
            return await admin.groups.lag(name)

    async def forget() -> None:
        async with admin_of(context, servers) as admin:
            await admin.members.delete(name, cluster=cluster, keep_offsets=keep_offsets)

    lag = run(context, behind)
    if not sure:
        typer.confirm(f"Delete group {name}, which is {lag or 0} messages behind?", abort=True)
    run(context, forget)
    typer.echo(f"group {name} is gone")


def skip_group(
    context: typer.Context,
    name: Name,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic whose messages are skipped.")],
    queue: Annotated[
        str, typer.Option(help="Only in this queue: BROKER:NUMBER; stop the group's members first. [all queues]")
    ] = "",
    count: Annotated[int | None, typer.Option(min=1, help="So many messages of --queue. [1]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the new offsets; change nothing.")] = False,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Skip a backlog: everything that waits in a topic, or so many messages of one queue."""
    try:
        place = queue_of(topic, queue) if queue else None
    except SettingsError as error:
        fail(context, str(error))
    if place is None and count is not None:
        fail(context, "--count is of one queue; give it too, --queue BROKER:NUMBER, or leave --count out to skip all")

    async def skip() -> Sequence["QueueMove"]:
        from firearrow.admin.groups import LAST

        async with admin_of(context, servers) as admin:
            groups = admin.groups
            if place is None:
                return await (groups.planned(name, topic, LAST) if dry_run else groups.reset(name, topic, LAST))
            progress = {each.queue: each for each in (await groups.describe(name)).queues}
            if place not in progress:
                raise NoSuchName(
                    f"group {name!r} has no offset in queue {queue} of {topic!r}, so there is none to skip"
                )
            target = max(progress[place].committed, 0) + (count or 1)
            if dry_run:
                return [await groups.planned_offset(name, place, target)]
            return [await groups.reset_offset(name, place, target)]

    print_moves(run(context, skip), name, topic, as_json=as_json, dry_run=dry_run)
