"""``firearrow recall``: take back delayed messages before they are due. Works on Apache's clusters from 5.3 on too."""

from typing import Annotated, Final

import msgspec
import typer

from firearrow.cli.cluster import AsJson, NameServers, fail, name_servers, reach_of, run
from firearrow.cli.output import standard_output
from firearrow.errors import FireArrowError, IllegalMessage
from firearrow.record.recall_handle import decode_handle

GROUP: Final = "firearrow-recall"


def recall(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic that the messages were sent to.")],
    handles: Annotated[
        list[str], typer.Argument(metavar="HANDLES", help="Recall handles, as produce --json prints them.")
    ],
    group: Annotated[str, typer.Option("--group", "-g", help="Producer group.")] = GROUP,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Take back delayed messages that are not due yet.

    They were sent with --delay or --at, and produce --json printed their handles.
    The broker must allow it (recallMessageEnable=true). The first message that cannot be recalled ends the command.
    """
    where, reach = name_servers(context, servers), reach_of(context)
    for handle in handles:
        _check(context, handle)

    async def take_back() -> None:
        from firearrow.client import Producer

        async with Producer(where, group=group, **reach) as producer:
            for done, handle in enumerate(handles):
                try:
                    message_id = await producer.recall(topic, handle)
                except FireArrowError as error:
                    if done:
                        error.add_note(f"{_counted(done)} recalled before it.")
                    raise
                if as_json:
                    line = msgspec.json.encode({"messageId": message_id, "recallHandle": handle}).decode()
                    standard_output().write(line + "\n")

    run(context, take_back)
    if not as_json:
        typer.echo(f"{_counted(len(handles))} recalled from {topic}")


def _check(context: typer.Context, handle: str) -> None:
    """Fail for a text that is not a handle, before the first message is recalled."""
    try:
        decode_handle(handle)
    except IllegalMessage:
        fail(context, f"{handle[:80]!r} is not a recall handle; give one that produce --json printed as recallHandle")


def _counted(count: int) -> str:
    """Return a count of messages with its verb: ``1 message was``."""
    return "1 message was" if count == 1 else f"{count} messages were"
