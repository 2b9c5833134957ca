"""``firearrow produce``: send lines, JSON lines or files. Works on Apache's clusters too.

Many sends are in flight at once; messages of one sharding key keep their order (`lanes`). With ``--rate`` sends are
spread evenly. The first message that cannot be sent ends the command with its error; messages sent before stay sent.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO, cast

import msgspec
import typer

from firearrow.cli.cluster import AsJson, NameServers, fail, name_servers, reach_of, run
from firearrow.cli.messages.inputs import Delay, InputFormat, MessageDefaults, SkipCount, messages
from firearrow.cli.messages.lanes import SendLanes
from firearrow.cli.messages.packing import PackOptions
from firearrow.cli.operate.pairs import pairs_of
from firearrow.cli.option_groups import OptionGroup, grouped
from firearrow.cli.output import OutputEnded, standard_output
from firearrow.cli.times import time_to_come_ms, wait_ms
from firearrow.errors import FireArrowError, PartlyDone, SettingsError
from firearrow.runtime.clock import SystemClock

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from firearrow.client import Message, Producer, SendResult

GROUP: Final = "firearrow-produce"
PATIENCE_MS: Final = 15_000
"""Deadline of a send: long, so that a broker that is busy for a while does not end the command in mid-input."""


@dataclass(frozen=True)
class DelayOptions(OptionGroup):
    """The time at which messages are delivered, if later than at once."""

    delay_level: Annotated[
        int, typer.Option(min=0, help="Deliver later, after this delay level of the broker: 3 is 10s.")
    ] = 0
    delay: Annotated[
        str, typer.Option(help="Deliver later, after this time: 500ms, 90s, 5m, 2h, 1d. Brokers from 5.0 on.")
    ] = ""
    at: Annotated[
        str,
        typer.Option(
            help="Deliver at this time: 2026-12-01T08:00, local or with Z or +08:00; at most timerMaxDelaySec of the "
            "broker ahead, 3 days unless set. Brokers from 5.0 on."
        ),
    ] = ""

    @property
    def chosen(self) -> Delay:
        """The delay; raises ``SettingsError`` for several, and for a time that is past."""
        values = {"--delay-level": self.delay_level, "--delay": self.delay, "--at": self.at}
        given = [name for name, value in values.items() if value]
        if len(given) > 1:
            raise SettingsError(f"{' and '.join(given)} are given, and a message has one delay; give one of them")
        at_ms = time_to_come_ms(self.at) if self.at else None
        if at_ms is not None and at_ms <= SystemClock().now_ms():
            raise SettingsError(f"--at {self.at} is past; give a time to come, such as 2026-12-01T08:00")
        return Delay(self.delay_level, wait_ms(self.delay) if self.delay else 0, at_ms)


@dataclass(frozen=True)
class PartOptions(OptionGroup):
    """The parts that every message has besides its body."""

    tag: Annotated[str, typer.Option("--tag", help="Tag of every message.")] = ""
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="Key of every message; may be repeated.")] = None
    prop: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", help="Property NAME=VALUE of every message; may be repeated."),
    ] = None
    sharding_key: Annotated[
        str, typer.Option(help="Messages with the same sharding key go to one queue, in order.")
    ] = ""


@grouped
def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILES]...", help="Files to send; - or none is standard input.")
    ] = None,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="Send this text; may be repeated.")
    ] = None,
    form: Annotated[
        InputFormat,
        typer.Option("--format", "-f", help="One message for every line, for every line of JSON, or for every file."),
    ] = InputFormat.LINES,
    *,
    common: PartOptions,
    later: DelayOptions,
    packed: PackOptions,
    rate: Annotated[float, typer.Option(min=0, help="Messages a second at most; 0 is as fast as possible.")] = 0,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show progress. [on a terminal]")
    ] = None,
    group: Annotated[str, typer.Option("--group", "-g", help="Producer group.")] = GROUP,
    servers: NameServers = "",
    as_json: AsJson = False,
) -> None:
    """Send messages from texts, files or standard input. Prints the count, or with --json one result a line."""
    where, reach = name_servers(context, servers), reach_of(context)
    properties = pairs_of(context, common.prop, "--property")
    try:
        delay = later.chosen
        packing = packed.packing(is_delayed=delay != Delay())
    except SettingsError as error:
        fail(context, str(error))
    parts = MessageDefaults(topic, common.tag, tuple(common.key or ()), common.sharding_key, delay, properties)
    passed = SkipCount()
    waiting = messages(parts, files or [], message or [], form, passed)
    shown = sys.stderr.isatty() if progress is None else progress

    async def send() -> tuple[int, float]:
        from firearrow.client import Producer

        async with Producer(
            where,
            group=group,
            send_timeout_ms=PATIENCE_MS,
            linger_ms=packing.linger_ms,
            compress_over_bytes=packing.compress_over,
            compress_codec=packing.codec,
            **reach,
        ) as producer:
            results = standard_output() if as_json else None
            return await _InputSender(producer, rate, results, packed.batch).run(waiting, shown=shown)

    sent, seconds = run(context, send)
    if not as_json:
        typer.echo(f"sent {sent} message{'' if sent == 1 else 's'} to {topic} in {seconds:.2f} s")
    if passed.empty_lines:
        typer.echo(f"empty lines skipped: {passed.empty_lines}", err=True)


class _InputSender:
    """Sends messages from the input until it ends."""

    def __init__(self, producer: "Producer", rate: float, results: TextIO | None, batch: int) -> None:
        self._producer = producer
        self._batch = batch
        self._rate = rate
        self._results = results
        self._bar: tuple[Progress, TaskID] | None = None
        self._sent = 0

    async def run(self, waiting: AsyncIterator["Message"], *, shown: bool) -> tuple[int, float]:
        """Send all messages; return how many were sent, and the seconds it took."""
        if not shown:
            return await self._run(waiting)
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.completed:.0f} sent"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            self._bar = bar, bar.add_task("sending", total=None)
            return await self._run(waiting)

    async def _run(self, waiting: AsyncIterator["Message"]) -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            await self._send_all(waiting, begun)
        except ExceptionGroup as group:
            raise self._with_count(group) from None
        return self._sent, loop.time() - begun

    def _with_count(self, group: ExceptionGroup) -> Exception:
        """Return the error that ended the command, with the number of messages sent before it."""
        if failed := group.subgroup(FireArrowError):
            first = cast("FireArrowError", failed.exceptions[0])
            self._sent += getattr(first, "stored", 0)
            if not self._sent:
                first.add_note("0 messages were sent before it.")
                return first
            said = f"{first}. {_counted(self._sent)} sent before it; leave them out when you try again"
            return PartlyDone(said, may_have_happened=first.may_have_happened)
        if ended := group.subgroup(OutputEnded):
            undone = f"{_counted(self._sent)} acknowledged, and what came after them may not have been sent"
            return OutputEnded(cast("OutputEnded", ended.exceptions[0]).error, undone)
        return group

    async def _send_all(self, waiting: AsyncIterator["Message"], begun: float) -> None:
        loop = asyncio.get_running_loop()
        read = 0
        try:
            async with asyncio.TaskGroup() as sends:
                lanes = SendLanes(self._producer, sends, self._acknowledged, self._batch)
                async for message in waiting:
                    if self._rate:
                        await asyncio.sleep(max(0.0, begun + read / self._rate - loop.time()))
                    await lanes.put(message)
                    read += 1
                await lanes.end()
        except asyncio.CancelledError:
            typer.echo(f"interrupted: {_counted(self._sent)} acknowledged", err=True)
            raise

    def _acknowledged(self, results: Sequence["SendResult"]) -> None:
        self._sent += len(results)
        if self._bar is not None:
            self._bar[0].advance(self._bar[1], len(results))
        if self._results is not None:
            self._results.write("".join(_result_line(result) + "\n" for result in results))


def _counted(count: int) -> str:
    """Return a count of messages with its verb: ``1 message was``."""
    return "1 message was" if count == 1 else f"{count} messages were"


def _result_line(result: "SendResult") -> str:
    fields = {
        "status": result.status.value,
        "messageId": result.message_id,
        "offsetMessageId": result.offset_message_id,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "queueOffset": result.queue_offset,
        **({"recallHandle": result.recall_handle} if result.recall_handle else {}),
    }
    return msgspec.json.encode(fields).decode()
