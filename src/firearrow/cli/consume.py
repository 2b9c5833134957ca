"""``firearrow consume``: read a topic, or join a consumer group. Works on Apache's clusters too.

Without a group the command reads queues from any offset, merged by store time, and commits nothing. With a group the
command is a member: it gets its share of the queues and acknowledges the messages it has printed. With ``--format raw``
it also acknowledges a message whose body cannot be read: the message is left out, with a line on standard error. When
standard output cannot be written, the command leaves the group; unprinted messages are neither acknowledged nor sent to
the retry topic.
"""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from firearrow.cli.cluster import NameServers, fail, name_servers, only_reading, reach_of, run
from firearrow.cli.environment import AccessOptions
from firearrow.cli.messages.message_printer import FIELDS_HELP, JSON, TABLE, Printer
from firearrow.cli.option_groups import OptionGroup, grouped
from firearrow.errors import SettingsError
from firearrow.model.names import TOOLS_CONSUMER_GROUP

if TYPE_CHECKING:
    from firearrow.cli.messages.topic_reader import ReadOrder
    from firearrow.client.consumer.subscription import Expression

IDLE_SECONDS: Final = 5.0

Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help=f"table, raw (bodies only), json, or text with fields, such as '%o %k %s\\n': {FIELDS_HELP}; "
        "\\n, \\t, \\r and \\0 are characters. Nothing is added after a message.",
    ),
]


@dataclass(frozen=True)
class ChoiceOptions(OptionGroup):
    """The messages of a topic that are wanted."""

    tag: Annotated[str, typer.Option("--tag", help="Only these tags: 'A || B'.")] = "*"
    condition: Annotated[
        str | None,
        typer.Option("--sql", help="Only messages whose properties match: \"amount > 100 AND city = 'Köln'\"."),
    ] = None
    body_condition: Annotated[
        str | None,
        typer.Option(
            "--cel",
            help='Only messages whose JSON body and properties match: "body.amount > 100"; not on Apache\'s brokers.',
        ),
    ] = None

    @property
    def expression(self) -> "Expression":
        """The expression; raises ``SettingsError`` for several."""
        from firearrow.client import cel, sql
        from firearrow.client.consumer.subscription import EVERYTHING

        if (self.condition is not None) + (self.body_condition is not None) + (self.tag != EVERYTHING) > 1:
            raise SettingsError(
                "--tag, --sql and --cel do not go together; write the tag into the condition: "
                "--sql \"TAGS = 'A' AND ...\" or --cel \"tag == 'A' && ...\""
            )
        if self.body_condition is not None:
            return cel(self.body_condition)
        return self.tag if self.condition is None else sql(self.condition)


@grouped
def consume(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Join this consumer group; without a group no offset is committed."),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", help="first, last, an offset, or a time (-1h). [first; last with --follow and without a group]"
        ),
    ] = "",
    to: Annotated[str, typer.Option("--to", help="Read up to this offset or time. [the present end]")] = "",
    queue: Annotated[str, typer.Option(help="Only this queue: BROKER:NUMBER.")] = "",
    *,
    chosen: ChoiceOptions,
    limit: Annotated[int, typer.Option("--limit", "-l", min=0, help="Stop after so many messages; 0 is no limit.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Wait for new messages until interrupted.")] = False,
    idle: Annotated[
        float,
        typer.Option(min=0.1, help="With --group, without --follow: leave after so many seconds without a message."),
    ] = IDLE_SECONDS,
    form: Format = TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    servers: NameServers = "",
) -> None:
    """Print the messages of a topic: stored ones, or new ones as they arrive."""
    where, reach = name_servers(context, servers), reach_of(context)
    try:
        printer, wanted = Printer(JSON if as_json else form), chosen.expression
    except SettingsError as error:
        fail(context, str(error))
    if group == "":
        fail(context, "--group is empty; give the name of a group, or leave --group out to read without a group")
    if group:
        if to or queue:
            fail(
                context,
                "--to and --queue do not work with --group: a member reads the queues it is assigned; leave them out",
            )
        if start not in ("", "first", "last"):
            fail(
                context,
                "with --group, --from takes first or last, for a new group; firearrow group reset moves another",
            )
        begin = start or "first"
        patience = None if follow else idle
        run(context, lambda: _take_part(where, reach, topic, group, begin, wanted, limit, patience, printer))
        return
    from firearrow.cli.messages.topic_reader import ReadOrder

    look = ReadOrder(topic, start, to, queue, wanted, limit, follow)
    run(context, lambda: _look(where, reach, look, printer))


async def _look(where: str, reach: AccessOptions, look: "ReadOrder", printer: Printer) -> None:
    from firearrow.cli.messages.topic_reader import Reader
    from firearrow.client import PullConsumer
    from firearrow.client.consumer.subscription import doubt, subscription

    if reason := doubt(subscription(look.topic, look.expression, version=0)):
        typer.echo(f"firearrow consume: {reason}", err=True)
    with only_reading():
        async with (
            PullConsumer(where, group=TOOLS_CONSUMER_GROUP, **reach) as consumer,
            aclosing(Reader(consumer, look).messages()) as found,
        ):
            async for message, queue in found:
                printer.print(message, queue)


async def _take_part(
    where: str,
    reach: AccessOptions,
    topic: str,
    group: str,
    start: str,
    wanted: "Expression",
    limit: int,
    idle: float | None,
    printer: Printer,
) -> None:
    from firearrow.client import Consumer, PullConsumer

    async with PullConsumer(where, group=TOOLS_CONSUMER_GROUP, **reach) as visitor:
        await visitor.queues(topic)  # says so when there is no such topic; a group would wait for it
    consumer = Consumer(where, group=group, topics={topic: wanted}, start=start, **reach)
    taken = 0
    async with consumer:
        while not limit or taken < limit:
            try:
                async with asyncio.timeout(idle):
                    message = await anext(consumer)
            except (TimeoutError, StopAsyncIteration):
                return
            try:
                printer.print(message.stored, message.queue)
                await message.ack()
            finally:
                message.release()  # one that was not printed: the group's next member gets it
            taken += 1
