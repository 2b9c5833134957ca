"""``firearrow produce``: send lines, JSON lines or files. Works on Apache's clusters too.

Many sends are under way at once, up to ``AT_ONCE``; with ``--rate`` they are spread evenly. A message that could not be
sent ends the command with its words; what was sent before it is sent.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import msgspec
import typer

from firearrow.cli.inputs import InputFormat, Parts, messages
from firearrow.cli.reaching import AsJson, NameServers, fail, name_servers, reach_of, run
from firearrow.cli.times import wait_ms
from firearrow.client import Message, Producer, SendResult
from firearrow.errors import FireArrowError, SettingsError
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, parse_delay_levels

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

AT_ONCE: Final = 256
GROUP: Final = "firearrow-produce"


def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILES]...", help="Files; - or none is standard input.")
    ] = None,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="Send this text; may be repeated.")
    ] = None,
    form: Annotated[
        InputFormat,
        typer.Option("--format", "-f", help="A message for every line, for every line of JSON, or for every file."),
    ] = InputFormat.LINES,
    tag: Annotated[str, typer.Option("--tag", help="Tag of every message.")] = "",
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="Key of every message; may be repeated.")] = None,
    prop: Annotated[list[str] | None, typer.Option("--property", "-p", help="NAME=VALUE; may be repeated.")] = None,
    sharding_key: Annotated[str, typer.Option(help="Equal ones go to one queue, in order.")] = "",
    delay_level: Annotated[int, typer.Option(min=0, help="Deliver later, by the broker's levels: 3 is 10s.")] = 0,
    delay: Annotated[str, typer.Option(help="The same by its wait: 1s, 5s, 10s, 30s, 1m, ... 2h.")] = "",
    rate: Annotated[float, typer.Option(min=0, help="Messages a second at most; 0 is as fast as possible.")] = 0,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show how it goes. [if there is a terminal]")
    ] = None,
    group: Annotated[str, typer.Option("--group", "-g", help="Producer group.")] = GROUP,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Send messages: from texts, files or standard input. Prints how many, or one JSON result a line."""
    where, reach = name_servers(context, servers), reach_of(context)
    properties = _properties(context, prop or [])
    try:
        level = _level(delay) if delay else delay_level
    except SettingsError as error:
        fail(context, str(error))
    parts = Parts(topic, tag, tuple(key or ()), sharding_key, level, properties)
    waiting = messages(parts, files or [], message or [], form)
    shown = sys.stderr.isatty() if progress is None else progress

    async def send() -> tuple[int, float]:
        async with Producer(where, group=group, **reach) as producer:
            results = sys.stdout if as_json else None
            sending = _Sending(producer, rate, results, waits_for_input=not (files or message))
            return await sending.run(waiting, shown=shown)

    sent, seconds = run(context, send)
    if not as_json:
        typer.echo(f"sent {sent} message{'' if sent == 1 else 's'} to {topic} in {seconds:.2f} s")


class _Sending:
    """Sends one message after the other, many under way."""

    def __init__(self, producer: Producer, rate: float, results: TextIO | None, *, waits_for_input: bool) -> None:
        self._producer = producer
        self._rate = rate
        self._results = results
        self._waits_for_input = waits_for_input
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._sent = 0

    async def run(self, waiting: Iterator[Message], *, shown: bool) -> tuple[int, float]:
        """Send everything; return how many, and the seconds it took."""
        if not shown:
            return await self._run(waiting)
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.completed:.0f} sent"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("sending", total=None)
            return await self._run(waiting, (bar, task))

    async def _run(self, waiting: Iterator[Message], bar: "tuple[Progress, TaskID] | None" = None) -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        read = 0
        try:
            async with asyncio.TaskGroup() as sends:
                while (message := await self._next(waiting)) is not None:
                    if self._rate:
                        await asyncio.sleep(max(0.0, begun + read / self._rate - loop.time()))
                    await self._turns.acquire()
                    sends.create_task(self._send(message, bar))
                    read += 1
        except* FireArrowError as group:
            first = group.exceptions[0]
            first.add_note(f"{self._sent} messages were sent before it.")
            raise first from None
        return self._sent, loop.time() - begun

    async def _next(self, waiting: Iterator[Message]) -> Message | None:
        if not self._waits_for_input:
            return next(waiting, None)
        # Whoever types takes time: that passes in a thread, so that what was typed is sent meanwhile.
        return await asyncio.to_thread(next, waiting, None)

    async def _send(self, message: Message, bar: "tuple[Progress, TaskID] | None") -> None:
        try:
            result = await self._producer.send(message)
        finally:
            self._turns.release()
        self._sent += 1
        if bar is not None:
            bar[0].advance(bar[1])
        if self._results is not None:
            self._results.write(_result_line(result) + "\n")


def _result_line(result: SendResult) -> str:
    fields = {
        "status": result.status.value,
        "messageId": result.message_id,
        "offsetMessageId": result.offset_message_id,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "queueOffset": result.queue_offset,
    }
    return msgspec.json.encode(fields).decode()


def _level(text: str) -> int:
    """The delay level of a wait, where a broker has Apache's own levels."""
    waits = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    wanted = wait_ms(text)
    if wanted not in waits:
        raise SettingsError(
            f"--delay {text} is no delay level; brokers have {DEFAULT_DELAY_LEVELS}, unless set otherwise"
        )
    return waits.index(wanted) + 1


def _properties(context: typer.Context, given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not (name and sign):
            fail(context, f"--property {text} has no value; write NAME=VALUE")
        found[name] = value
    return found
