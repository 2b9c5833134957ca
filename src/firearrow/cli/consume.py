"""``firearrow consume``: look at a topic, or take part in a group. Works on Apache's clusters too.

Without a group nothing is consumed: queues are read from where one likes, by store time, and no offset moves. With a
group the command is a member of it: it gets its share, and what it printed is acknowledged. So is a message whose body
cannot be read, where bodies alone are printed: it is left out, which standard error tells. When nothing can be printed
any more, the rest is neither acknowledged nor sent to the retry topic: the command leaves the group and ends.
"""

import asyncio
from contextlib import aclosing
from typing import Annotated, Final

import typer

from firearrow.cli.looking import Look, Reader
from firearrow.cli.printing import JSON, TABLE, Printer
from firearrow.cli.reaching import NameServers, Reach, fail, name_servers, reach_of, run
from firearrow.client import Consumer, PullConsumer
from firearrow.client.consumer.subscription import doubt, subscription
from firearrow.errors import SettingsError
from firearrow.model.names import TOOLS_CONSUMER_GROUP

IDLE_SECONDS: Final = 5.0


def consume(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Take part in this group; without one nothing moves.")
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", help="first, last, an offset, or a time (-1h). [first; last with --follow and without a group]"
        ),
    ] = "",
    to: Annotated[str, typer.Option("--to", help="Up to this offset or time. [what is there now]")] = "",
    queue: Annotated[str, typer.Option(help="Only BROKER:NUMBER.")] = "",
    tag: Annotated[str, typer.Option("--tag", help="Only these tags: 'A || B'.")] = "*",
    limit: Annotated[int, typer.Option("--limit", "-l", min=0, help="Messages at most; 0 is no limit.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on with what comes, until interrupted.")] = False,
    idle: Annotated[
        float, typer.Option(min=0.1, help="A member without --follow leaves after so many quiet seconds.")
    ] = IDLE_SECONDS,
    form: Annotated[
        str, typer.Option("--format", "-f", help="table, raw (bodies alone), json, or fields: '%o %k %s\\n'.")
    ] = TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    servers: NameServers = "",
) -> None:
    """Print the messages of a topic: those that are there, or those that come."""
    where, reach = name_servers(context, servers), reach_of(context)
    try:
        printer = Printer(JSON if as_json else form)
    except SettingsError as error:
        fail(context, str(error))
    if group == "":
        fail(context, "--group is empty; give the name of a group, or leave --group out to look without one")
    if group:
        if to or queue:
            fail(context, "--to and --queue are for looking at a topic; a member of a group takes what is its share")
        if start not in ("", "first", "last"):
            fail(
                context,
                "a group goes on where it is; --from first or last is for new ones. firearrow group reset moves one",
            )
        begin = start or "first"
        patience = None if follow else idle
        run(context, lambda: _take_part(where, reach, topic, group, begin, tag, limit, patience, printer))
        return
    look = Look(topic, start, to, queue, tag, limit, follow)
    run(context, lambda: _look(where, reach, look, printer))


async def _look(where: str, reach: Reach, look: Look, printer: Printer) -> None:
    if reason := doubt(subscription(look.topic, look.tag, version=0)):
        typer.echo(f"firearrow consume: {reason}", err=True)
    async with (
        PullConsumer(where, group=TOOLS_CONSUMER_GROUP, **reach) as consumer,
        aclosing(Reader(consumer, look).messages()) as found,
    ):
        async for message, queue in found:
            printer.print(message, queue)


async def _take_part(
    where: str,
    reach: Reach,
    topic: str,
    group: str,
    start: str,
    tag: str,
    limit: int,
    idle: float | None,
    printer: Printer,
) -> None:
    async with PullConsumer(where, group=TOOLS_CONSUMER_GROUP, **reach) as visitor:
        await visitor.queues(topic)  # says so when there is no such topic; a group would wait for it
    consumer = Consumer(where, group=group, topics={topic: tag}, start=start, **reach)
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
