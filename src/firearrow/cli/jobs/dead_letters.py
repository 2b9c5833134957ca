"""``firearrow dlq``, or ``firearrow pipeline dlq``: dead letters listed, shown and sent again. Runs without Spark.

Dead letters stay where they are: a topic is a log. The audit file of a redrive says which of them were sent again, so
that the same command, repeated with the same file, sends the rest.
"""

import asyncio
import getpass
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firearrow.cli.cluster import (
    AsJson,
    ClusterTerminated,
    NameServers,
    admin_of,
    name_servers,
    reach_of,
    until_terminated,
)
from firearrow.cli.jobs.job_run import explained
from firearrow.cli.operate.listing import ShowOptions
from firearrow.cli.option_groups import OptionGroup, grouped
from firearrow.cli.tables import body_fields, body_text, print_json, print_table, time_text
from firearrow.cli.times import time_ms
from firearrow.errors import FireArrowError, PartlyDone, SettingsError
from firearrow.model.names import TOOLS_CONSUMER_GROUP
from firearrow.runtime.clock import SystemClock

if TYPE_CHECKING:
    from firearrow.admin.dead_letters import DeadLetter, DeadLetterChoice, DeadLetters, Summary

dlq = typer.Typer(
    add_completion=False, help="Dead letters: what failed, since when; and sent again.", no_args_is_help=True
)

TERMINATED = 143
FAILED = 1

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the whole trace of a failure.")]


@dataclass(frozen=True)
class DeadLetterOptions(OptionGroup):
    """A choice of dead letters."""

    ids: Annotated[list[str] | None, typer.Option("--id", help="Only this message id; repeatable.")] = None
    topic: Annotated[str, typer.Option("--topic", help="Only messages that came from this topic.")] = ""
    tag: Annotated[str, typer.Option("--tag", help="Only messages with this tag.")] = ""
    key: Annotated[str, typer.Option("--key", help="Only messages with this key.")] = ""
    since: Annotated[str, typer.Option(help="Only messages that died then or later: 2026-11-15T10:00, -1h.")] = ""
    until: Annotated[str, typer.Option(help="Only messages that died before.")] = ""

    @property
    def choice(self) -> "DeadLetterChoice":
        """The choice, with its times read."""
        from firearrow.admin.dead_letters import DeadLetterChoice

        now = SystemClock().now_ms()
        moments = [time_ms(text, now) if text else 0 for text in (self.since, self.until)]
        return DeadLetterChoice(frozenset(self.ids or ()), self.topic, self.tag, self.key, *moments)


@dlq.command("list")
@grouped
def list_letters(
    context: typer.Context,
    group: Annotated[list[str] | None, typer.Option("--group", help="Only this group; repeatable.")] = None,
    *,
    shown: ShowOptions,
    verbose: Verbose = False,
) -> None:
    """Sum dead letters up by group, topic, tag and reason: how many, since when, after how many attempts."""
    from firearrow.admin.dead_letters import DeadLetterChoice, summaries

    async def ask(letters: "DeadLetters") -> "list[Summary]":
        names = group or await letters.groups()
        return summaries([letter for name in names for letter in await _chosen(letters, name, DeadLetterChoice())])

    async def look(letters: "DeadLetters") -> None:
        await shown.again(context, lambda: ask(letters), fields=_summaries, tables=_print_summaries)

    _done(context, shown.servers, "dlq list", look, verbose)


def _print_summaries(found: "list[Summary]") -> None:
    rows = [
        (
            each.group,
            each.topic or "-",
            each.tag or "-",
            each.messages,
            time_text(each.first_ms),
            time_text(each.last_ms),
            f"{each.fewest_attempts}-{each.most_attempts}",
            each.why,
        )
        for each in found
    ]
    columns = ["group", "topic", "tag", "messages", "since", "last", "attempts", "why"]
    print_table("Dead letters", columns, rows)


@dlq.command("show")
@grouped
def show_letters(
    context: typer.Context,
    group: Group,
    wanted: DeadLetterOptions,
    limit: Annotated[int, typer.Option(min=1, help="Most messages shown.")] = 100,
    servers: NameServers = "",
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the dead letters of a group."""

    async def ask(letters: "DeadLetters") -> "list[DeadLetter]":
        return (await _chosen(letters, group, wanted.choice))[:limit]

    found = _done(context, servers, "dlq show", ask, verbose)
    if as_json:
        print_json([_letter(each) | dict(body_fields(each.stored.body)) for each in found])
        return
    rows = [
        (
            each.message_id,
            each.topic or "-",
            each.stored.tag or "-",
            " ".join(each.stored.keys) or "-",
            time_text(each.stored.store_timestamp),
            each.attempts,
            each.why,
            body_text(each.stored.body, 40),
        )
        for each in found
    ]
    columns = ["message id", "topic", "tag", "keys", "died", "attempts", "why", "body"]
    print_table(f"Dead letters of {group}", columns, rows)


@dlq.command("redrive")
@grouped
def redrive_letters(
    context: typer.Context,
    group: Group,
    audit: Annotated[Path, typer.Option(help="File of JSON lines: what was sent again, when, by whom, to where.")],
    wanted: DeadLetterOptions,
    everything: Annotated[bool, typer.Option("--all", help="All dead letters of the group.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent; send nothing.")] = False,
    servers: NameServers = "",
    verbose: Verbose = False,
) -> None:
    """Send dead letters to their topic again, for all groups that consume it. Each is sent once for an audit file."""

    async def send(letters: "DeadLetters") -> tuple[int, int]:
        choice = wanted.choice
        if choice.is_everything != everything:
            raise SettingsError("choose dead letters by --id, --topic, --tag, --key, --since or --until; or give --all")
        chosen = await _chosen(letters, group, choice)
        done = set(_sent_before(audit))
        waiting = [letter for letter in chosen if letter.place not in done]
        lost = [letter for letter in waiting if not letter.topic]
        if lost:
            raise SettingsError(
                f"{len(lost)} dead letters do not say which topic they came from, the first is {lost[0].message_id}; "
                "leave them out by --id or --topic"
            )
        if not dry_run:
            await _redrive(context, servers, waiting, audit)
        return len(waiting), len(chosen) - len(waiting)

    count, before = _done(context, servers, "dlq redrive", send, verbose)
    said = f"; {before} were sent before, {audit} says" if before else ""
    typer.echo(f"{count} dead letters of {group} {'would be' if dry_run else 'were'} sent to their topics again{said}")


# ---- parts


def _done(context: typer.Context, servers: str, command: str, work: Any, verbose: bool) -> Any:  # noqa: ANN401 - what the command's coroutine returns
    from firearrow.admin.dead_letters import DeadLetters
    from firearrow.client import PullConsumer

    async def run() -> Any:  # noqa: ANN401
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(admin_of(context, servers))
            where = name_servers(context, servers)
            reader: PullConsumer = PullConsumer(where, group=TOOLS_CONSUMER_GROUP, **reach_of(context))
            return await work(DeadLetters(admin, await stack.enter_async_context(reader)))

    with explained(command, verbose=verbose, path=context.command_path, mistake=FAILED):
        try:
            return asyncio.run(until_terminated(run))
        except ClusterTerminated:
            raise typer.Exit(TERMINATED) from None


async def _chosen(letters: "DeadLetters", group: str, choice: "DeadLetterChoice") -> "list[DeadLetter]":
    found = [letter async for letter in letters.read(group) if choice.takes(letter)]
    return sorted(found, key=lambda letter: letter.stored.store_timestamp)


async def _redrive(context: typer.Context, servers: str, letters: "list[DeadLetter]", audit: Path) -> None:
    from firearrow.client import Producer

    async with Producer(name_servers(context, servers), group="FIREARROW_REDRIVE", **reach_of(context)) as producer:
        _cut_unfinished_line(audit)
        with audit.open("a", encoding="utf-8") as file:
            for sent, letter in enumerate(letters):
                _note(file, letter, "sending")
                try:
                    queue = letter.queue_among(await producer.queues(letter.topic))
                    result = await producer.send(letter.again(_named(audit)), queue=queue)
                except FireArrowError as error:
                    _note(file, letter, "failed", reason=str(error))
                    part = f"{sent} of {len(letters)} dead letters were sent again, {audit} says which"
                    raise PartlyDone(f"{error}; {part}. The same command sends the others") from error
                at = {"broker": result.queue.broker_name, "queue": result.queue.queue_id, "offset": result.queue_offset}
                _note(file, letter, "sent", **at)


def _named(audit: Path) -> str:
    """The name of a redrive: that of its audit file, short."""
    return f"redrive-{zlib.crc32(os.path.abspath(audit).encode()):08x}"


def _note(file: Any, letter: "DeadLetter", event: str, **more: object) -> None:  # noqa: ANN401 - an open text file
    """Write a line that is on the disk when this returns."""
    said = {
        "at": time_text(SystemClock().now_ms()),
        "event": event,
        "user": getpass.getuser(),
        "place": letter.place,
        "group": letter.group,
        "messageId": letter.message_id,
        "keys": letter.stored.keys,
        "topic": letter.topic,
        **more,
    }
    file.write(json.dumps(said) + "\n")
    file.flush()
    os.fsync(file.fileno())


def _cut_unfinished_line(audit: Path) -> None:
    """Cut a last line off whose writer died in the middle, so that the next line is whole."""
    if audit.exists():
        data = audit.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            os.truncate(audit, end)


def _sent_before(audit: Path) -> Iterator[str]:
    """Yield the places of the dead letters that an audit file says were sent; an unfinished last line is ignored."""
    if not audit.exists():
        return
    lines = audit.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            said = json.loads(line)
        except ValueError as wrong:
            raise SettingsError(f"line {number} of {audit} is not JSON; give the audit file of a redrive") from wrong
        if isinstance(said, dict) and said.get("event") == "sent":
            yield str(said.get("place"))


def _summaries(found: "list[Summary]") -> list[dict[str, object]]:
    return [
        {
            "group": each.group,
            "topic": each.topic,
            "tag": each.tag,
            "why": each.why,
            "messages": each.messages,
            "since": each.first_ms,
            "last": each.last_ms,
            "attempts": [each.fewest_attempts, each.most_attempts],
        }
        for each in found
    ]


def _letter(each: "DeadLetter") -> dict[str, object]:
    return {
        "messageId": each.message_id,
        "topic": each.topic,
        "tag": each.stored.tag,
        "keys": each.stored.keys,
        "died": each.stored.store_timestamp,
        "attempts": each.attempts,
        "why": each.why,
        "place": each.place,
    }
