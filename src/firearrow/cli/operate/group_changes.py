"""``firearrow group create``, ``update``, ``delete`` and ``skip``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firearrow.cli.cluster import AsJson, NameServers, ask, fail
from firearrow.cli.operate.moves import print_moves, queue_of
from firearrow.cli.option_groups import OptionGroup, grouped
from firearrow.errors import NoSuchName, SettingsError

if TYPE_CHECKING:
    from firearrow.admin import Admin, QueueMove

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
InCluster = Annotated[str, typer.Option("--cluster", "-c", help="On every master of this cluster.")]
OnBroker = Annotated[str, typer.Option("--broker", "-b", help="Only on this broker, given by name or address.")]


@dataclass(frozen=True)
class GroupSettings(OptionGroup):
    """The settings of a group that a command line gives."""

    retries: Annotated[int | None, typer.Option(min=-1, help="How often a message is tried again. [16]")] = None
    retry_queues: Annotated[int | None, typer.Option(min=1, help="Queues of the retry topic. [1]")] = None
    broadcast: Annotated[
        bool | None, typer.Option("--broadcast/--no-broadcast", help="Members may consume by broadcasting. [yes]")
    ] = None
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Members may consume. [yes]")] = None
    order: Annotated[
        bool | None, typer.Option("--order/--no-order", help="Consume in order (members that pop, 5.x). [no]")
    ] = None

    @property
    def given(self) -> Mapping[str, Any]:
        """The settings by their names at brokers."""
        named = {
            "retry_max_times": self.retries,
            "retry_queue_nums": self.retry_queues,
            "consume_broadcast_enable": self.broadcast,
            "consume_enable": self.enable,
            "consume_message_orderly": self.order,
        }
        return {setting: value for setting, value in named.items() if value is not None}


@grouped
def create_group(
    context: typer.Context,
    name: Name,
    wanted: GroupSettings,
    cluster: InCluster = "",
    broker: OnBroker = "",
    servers: NameServers = "",
) -> None:
    """Create a consumer group, on brokers that do not make groups by themselves."""
    from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig

    config = SubscriptionGroupConfig(group_name=name, **wanted.given)
    ask(context, servers, lambda admin: admin.members.create(config, cluster=cluster, broker=broker))
    typer.echo(f"group {name} is there")


@grouped
def update_group(
    context: typer.Context,
    name: Name,
    wanted: GroupSettings,
    cluster: InCluster = "",
    broker: OnBroker = "",
    servers: NameServers = "",
) -> None:
    """Change the given settings of a group; the others stay as they are."""
    if not wanted.given:
        fail(context, "nothing to change is given; see --help for what can be changed")
    ask(context, servers, lambda admin: admin.members.update(name, wanted.given, cluster=cluster, broker=broker))
    typer.echo(f"group {name} is changed")


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

    async def behind(admin: "Admin") -> int | None:
        await admin.members.settings(name, cluster)
        return await admin.groups.lag(name)

    lag = ask(context, servers, behind)
    if not sure:
        typer.confirm(f"Delete group {name}, which is {lag or 0} messages behind?", abort=True)
    ask(context, servers, lambda admin: admin.members.delete(name, cluster=cluster, keep_offsets=keep_offsets))
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

    async def skip(admin: "Admin") -> Sequence["QueueMove"]:
        from firearrow.admin.groups import LAST

        groups = admin.groups
        if place is None:
            return await (groups.planned(name, topic, LAST) if dry_run else groups.reset(name, topic, LAST))
        progress = {each.queue: each for each in (await groups.describe(name)).queues}
        if place not in progress:
            raise NoSuchName(f"group {name!r} has no offset in queue {queue} of {topic!r}, so there is none to skip")
        target = max(progress[place].committed, 0) + (count or 1)
        if dry_run:
            return [await groups.planned_offset(name, place, target)]
        return [await groups.reset_offset(name, place, target)]

    print_moves(ask(context, servers, skip), name, topic, as_json=as_json, dry_run=dry_run)
