"""``firearrow message``: single messages, found by id, key or time, and sent or consumed again."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from firearrow.cli.cluster import NameServers, admin_of, fail, name_servers, reach_of, run
from firearrow.cli.messages.message_printer import message_fields
from firearrow.cli.operate.listing import ShowOptions
from firearrow.cli.operate.pairs import print_pairs
from firearrow.cli.option_groups import grouped
from firearrow.cli.tables import body_text, print_table, time_text
from firearrow.cli.times import time_ms
from firearrow.errors import FireArrowError, NoSuchName, SettingsError
from firearrow.model import MessageQueue, StoredMessage
from firearrow.model.names import TOOLS_CONSUMER_GROUP
from firearrow.runtime.clock import SystemClock

if TYPE_CHECKING:
    from firearrow.admin import Admin
    from firearrow.admin.messages import FoundMessage

PRODUCER_GROUP: Final = "firearrow-resend"
COLUMNS: Final = ["stored", "broker", "queue", "offset", "message id", "tag", "keys", "body"]


class NotConsumed(FireArrowError):
    """The handler of a member failed, or asked for a retry."""


message = typer.Typer(
    add_completion=False, help="Find single messages, send or consume them again.", no_args_is_help=True
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of its producer (with --topic) or of its broker.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
OfTopic = Annotated[str, typer.Option("--topic", "-t", help="The topic; ids made by producers are found by topic.")]
Since = Annotated[str, typer.Option("--from", help="Stored then or later: 2026-11-15T10:00, -1h.")]
Until = Annotated[str, typer.Option("--to", help="Stored before: 2026-11-15T11:00, -30m, now.")]
Most = Annotated[int, typer.Option("--limit", "-l", min=1, help="Most messages shown.")]


@message.command("get")
@grouped
def get(context: typer.Context, message_id: Id, topic: OfTopic = "", *, shown: ShowOptions) -> None:
    """Show a message with everything that its record holds."""

    async def ask(admin: "Admin") -> Sequence["FoundMessage"]:
        return await admin.messages.get(message_id, topic)

    def tables(found: Sequence["FoundMessage"]) -> None:
        for each in found:
            shown = {name: value for name, value in _fields(each).items() if name != "bodyBase64"}
            print_pairs("Message", {**shown, "body": body_text(each.stored.body, 1000)})

    shown.show(context, ask, fields=lambda found: [_fields(each) for each in found], tables=tables)


@message.command("query")
@grouped
def query(
    context: typer.Context,
    topic: Topic,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key of the messages.")],
    start: Since = "",
    to: Until = "",
    limit: Most = 64,
    *,
    shown: ShowOptions,
) -> None:
    """List the messages of a topic that have a key."""
    begin_ms, end_ms = _span(context, start, to)

    async def ask(admin: "Admin") -> Sequence["FoundMessage"]:
        last_ms = end_ms - 1  # brokers count the end in
        return await admin.messages.query(topic, key, begin_ms=begin_ms, end_ms=last_ms, most=limit)

    shown.show(
        context,
        ask,
        fields=lambda found: [_fields(each) for each in found],
        tables=lambda found: _print(f"{topic}, key {key}", [(each.stored, each.queue) for each in found]),
    )


@message.command("by-time")
@grouped
def by_time(
    context: typer.Context,
    topic: Topic,
    start: Since = "-10m",
    to: Until = "now",
    limit: Most = 64,
    *,
    shown: ShowOptions,
) -> None:
    """List the messages of a topic that were stored between two times."""
    _span(context, start, to)
    where, reach = name_servers(context, shown.servers), reach_of(context)

    async def ask(_admin: "Admin") -> list[tuple[StoredMessage, MessageQueue]]:
        from firearrow.cli.messages.topic_reader import Reader, ReadOrder
        from firearrow.client import PullConsumer

        look = ReadOrder(topic, start, to, limit=limit)
        async with (
            PullConsumer(where, group=TOOLS_CONSUMER_GROUP, **reach) as consumer,
            aclosing(Reader(consumer, look).messages()) as found,
        ):
            return [each async for each in found]

    shown.show(
        context,
        ask,
        fields=lambda found: [message_fields(*each) for each in found],
        tables=lambda found: _print(f"{topic} from {start} to {to}", found),
    )


@message.command("resend")
def resend(
    context: typer.Context,
    message_id: Id,
    topic: OfTopic = "",
    group: Annotated[
        str, typer.Option("--group", "-g", help="Let a member of this group consume it now, instead of sending it.")
    ] = "",
    client: Annotated[str, typer.Option(help="The member of --group. [any]")] = "",
    servers: NameServers = "",
) -> None:
    """Send a copy of a message to its topic, or let one member of a group consume it again."""
    if client and not group:
        fail(context, "--client is a member of a group; give the group too: --group GROUP")
    where, reach = name_servers(context, servers), reach_of(context)

    async def again() -> str:
        from firearrow.admin.dead_letters import LEFT_BEHIND
        from firearrow.client import Message, Producer

        async with admin_of(context, servers) as admin:
            found = (await admin.messages.get(message_id, topic))[0]
            if group:
                return await _consume_again(admin, found, group, client)
        async with Producer(where, group=PRODUCER_GROUP, **reach) as producer:
            stored = found.stored
            properties = {name: value for name, value in stored.properties.items() if name not in LEFT_BEHIND}
            sent = await producer.send(Message(stored.topic, stored.body, properties, stored.flag))
            return f"sent again to {stored.topic}: {sent.message_id} at {sent.queue.broker_name}:{sent.queue.queue_id}"

    typer.echo(run(context, again))


async def _consume_again(admin: "Admin", found: "FoundMessage", group: str, client: str) -> str:
    from firearrow.protocol.bodies.group.running_info import ConsumeResult

    members = [each.client_id for each in (await admin.groups.describe(group)).members]
    if not members or (client and client not in members):
        there = ", ".join(members) or "none"
        raise NoSuchName(f"group {group!r} has no such member now; there are: {there}")
    chosen = client or members[0]
    result = await admin.messages.consume_again(found, group, chosen)
    remark = f", {result.remark}" if result.remark else ""
    said = f"{result.consume_result} in {result.spent_time_mills} ms{remark}"
    if result.consume_result not in (ConsumeResult.CR_SUCCESS.value, ConsumeResult.CR_COMMIT.value):
        raise NotConsumed(f"{chosen} did not consume it: {said}; its log says more. Offsets are as before")
    return f"{chosen} consumed it: {said}"


def _span(context: typer.Context, start: str, to: str) -> tuple[int, int]:
    from firearrow.admin.messages import LATEST_MS

    now_ms = SystemClock().now_ms()
    try:
        begin_ms, end_ms = time_ms(start, now_ms) if start else 0, time_ms(to, now_ms) if to else LATEST_MS
    except SettingsError as error:
        fail(context, str(error))
    if begin_ms > end_ms:
        fail(context, f"--from {start} is later than --to {to}; exchange them")
    return begin_ms, end_ms


def _fields(found: "FoundMessage") -> dict[str, object]:
    return {**message_fields(found.stored, found.queue), "offsetMessageId": found.offset_id}


def _print(title: str, found: Sequence[tuple[StoredMessage, MessageQueue]]) -> None:
    rows = [
        (
            time_text(stored.store_timestamp),
            queue.broker_name,
            queue.queue_id,
            stored.queue_offset,
            stored.unique_key,
            stored.tag,
            " ".join(stored.keys),
            f"(cannot be read: {stored.body_fault})" if stored.body_fault else body_text(stored.body),
        )
        for stored, queue in found
    ]
    print_table(title, COLUMNS, rows)
