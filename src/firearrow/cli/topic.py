"""``firearrow topic``: list, create, describe, update, delete. Works on Apache's clusters too."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from firearrow.cli.cluster import AsJson, NameServers, ask, fail
from firearrow.cli.operate.listing import ShowOptions, Watch
from firearrow.cli.operate.pairs import pairs_of
from firearrow.cli.operate.topic_queues import grow_topic, route_topic, shrink_topic
from firearrow.cli.option_groups import grouped
from firearrow.cli.tables import print_table, time_text
from firearrow.model.flags import PERM_READ, PERM_WRITE, perm_text

if TYPE_CHECKING:
    from firearrow.admin import Admin, TopicDescription, TopicSummary

topic = typer.Typer(
    add_completion=False, help="List, create, describe, update and delete topics.", no_args_is_help=True
)
topic.command("route")(route_topic)
topic.command("grow")(grow_topic)
topic.command("shrink")(shrink_topic)

PERMISSIONS: Final = {"rw": PERM_READ | PERM_WRITE, "r": PERM_READ, "w": PERM_WRITE, "none": 0}

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
InCluster = Annotated[str, typer.Option("--cluster", "-c", help="On every master of this cluster.")]
OnBroker = Annotated[str, typer.Option("--broker", "-b", help="Only on this broker, given by name or address.")]
Queues = Annotated[int | None, typer.Option("--queues", "-q", min=1, help="Queues on each broker, to read and write.")]
ReadQueues = Annotated[int | None, typer.Option(min=1, help="Read queues, if not the same number as --queues.")]
WriteQueues = Annotated[int | None, typer.Option(min=1, help="Write queues, if not the same number as --queues.")]
Permission = Annotated[str | None, typer.Option("--perm", help="rw, r, w or none; or a number: 6, 4, 2, 0.")]
Ordered = Annotated[
    bool | None, typer.Option("--order/--no-order", help="Strict order: a send to a missing broker fails.")
]
Attributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", "-a", help="Topic attribute NAME=VALUE (brokers of 5.x), such as message.type=FIFO."),
]


@topic.command("list")
def list_topics(
    context: typer.Context,
    servers: NameServers = "",
    cluster: Annotated[str, typer.Option("--cluster", "-c", help="Only topics of this cluster.")] = "",
    broker: Annotated[str, typer.Option("--broker", "-b", help="Only topics of this broker.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Include retry, dead-letter and system topics.")] = False,
    as_json: AsJson = False,
    watch: Watch = None,
) -> None:
    """List topics with their queues and permissions."""

    async def ask(admin: "Admin") -> list["TopicSummary"]:
        found = await admin.topics.list(cluster=cluster, broker=broker)
        return [each for each in found if everything or each.kind == "normal"]

    ShowOptions(servers, as_json, watch).show(
        context, ask, fields=lambda found: [_summary(each) for each in found], tables=_print_list
    )


def _print_list(topics: list["TopicSummary"]) -> None:
    rows = [
        (each.name, each.kind, len(each.brokers), each.read_queues, each.write_queues, _perms(each)) for each in topics
    ]
    print_table("Topics", ["topic", "kind", "brokers", "read queues", "write queues", "perm"], rows)


@topic.command("describe")
@grouped
def describe_topic(context: typer.Context, name: Name, shown: ShowOptions) -> None:
    """Show a topic on each broker, its queues with their offsets, and who consumes it."""

    from firearrow.admin import TopicSummary

    shown.show(
        context,
        lambda admin: admin.topics.describe(name),
        fields=lambda found: {**_summary(TopicSummary(found.name, found.kind, found.brokers)), **_details(found)},
        tables=_print_description,
    )


def _print_description(found: "TopicDescription") -> None:
    rows = [
        (each.broker, each.read_queues, each.write_queues, perm_text(each.perm), "yes" if each.order else "no")
        for each in found.brokers
    ]
    print_table(f"Topic {found.name}", ["broker", "read queues", "write queues", "perm", "order"], rows)
    queues = [
        (q.queue.broker_name, q.queue.queue_id, q.first, q.end, q.messages, time_text(q.last_stored_ms))
        for q in found.queues
    ]
    print_table(f"{found.messages} messages", ["broker", "queue", "first", "end", "messages", "last stored"], queues)
    typer.echo(f"consumed by: {', '.join(found.groups) or 'nobody yet'}")
    if found.strict_order is not None:
        typer.echo(f"strict order over: {found.strict_order}")


@topic.command("create")
def create_topic(
    context: typer.Context,
    name: Name,
    servers: NameServers = "",
    cluster: InCluster = "",
    broker: OnBroker = "",
    queues: Queues = 8,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Permission = "rw",
    order: Ordered = False,
    attribute: Attributes = None,
) -> None:
    """Create a topic, and wait until name servers route it."""
    attributes, permission = pairs_of(context, attribute, "--attribute"), _permission(context, perm)
    ask(
        context,
        servers,
        lambda admin: admin.topics.create(
            name,
            cluster=cluster,
            broker=broker,
            queues=queues or 8,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=PERMISSIONS["rw"] if permission is None else permission,
            order=bool(order),
            attributes=attributes,
        ),
    )
    typer.echo(f"topic {name} is there")


@topic.command("update")
def update_topic(
    context: typer.Context,
    name: Name,
    servers: NameServers = "",
    cluster: InCluster = "",
    broker: OnBroker = "",
    queues: Queues = None,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Permission = None,
    order: Ordered = None,
    attribute: Attributes = None,
) -> None:
    """Change the given settings of a topic; the others stay as they are."""
    attributes, permission = pairs_of(context, attribute, "--attribute"), _permission(context, perm)
    if not any(each is not None for each in (queues, read_queues, write_queues, permission, order)) and not attributes:
        fail(context, "nothing to change is given; see --help for what can be changed")
    ask(
        context,
        servers,
        lambda admin: admin.topics.update(
            name,
            cluster=cluster,
            broker=broker,
            queues=queues,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=permission,
            order=order,
            attributes=attributes,
        ),
    )
    typer.echo(f"topic {name} is changed")


@topic.command("delete")
def delete_topic(
    context: typer.Context,
    name: Name,
    servers: NameServers = "",
    cluster: Annotated[
        str, typer.Option("--cluster", "-c", help="Delete it only from the brokers of this cluster.")
    ] = "",
    sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a topic with all its messages."""
    if not sure:
        found = ask(context, servers, lambda admin: admin.topics.describe(name))
        readers = f", consumed by {', '.join(found.groups)}" if found.groups else ""
        typer.confirm(f"Delete topic {name} with {found.messages} messages{readers}?", abort=True)
    ask(context, servers, lambda admin: admin.topics.delete(name, cluster=cluster))
    typer.echo(f"topic {name} is gone")


# ---- reading and showing


def _permission(context: typer.Context, text: str | None) -> int | None:
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    if text.lower() not in PERMISSIONS:
        fail(context, f"--perm {text} is not a permission; write rw, r, w or none")
    return PERMISSIONS[text.lower()]


def _perms(summary: "TopicSummary") -> str:
    return ", ".join(sorted({perm_text(each.perm) for each in summary.brokers}))


def _summary(summary: "TopicSummary") -> dict[str, object]:
    return {
        "topic": summary.name,
        "kind": summary.kind,
        "brokers": [
            {
                "broker": each.broker,
                "readQueues": each.read_queues,
                "writeQueues": each.write_queues,
                "perm": perm_text(each.perm),
                "order": each.order,
                "attributes": each.attributes,
            }
            for each in summary.brokers
        ],
    }


def _details(found: "TopicDescription") -> dict[str, object]:
    return {
        "messages": found.messages,
        "queues": [
            {
                "broker": each.queue.broker_name,
                "queue": each.queue.queue_id,
                "first": each.first,
                "end": each.end,
                "lastStored": each.last_stored_ms,
            }
            for each in found.queues
        ],
        "groups": found.groups,
        "strictOrder": found.strict_order,
    }
