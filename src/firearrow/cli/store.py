"""``firearrow store``: inspect a store directory, FireArrow's or Apache's, in use or not."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from firearrow.errors import FireArrowError
from firearrow.record.message_id import offset_message_id
from firearrow.record.properties import decode_properties

if TYPE_CHECKING:
    from rich.console import Console

    from firearrow.record.decode import RecordHead
    from firearrow.store.inspection.directory import StoreView
    from firearrow.store.inspection.inspect import Overview, StoreVerification

BODY_SHOWN: Final = 60
LINES_SHOWN: Final = 200

store = typer.Typer(
    add_completion=False, help="Inspect a store directory, FireArrow's or Apache's.", no_args_is_help=True
)

Directory = Annotated[Path, typer.Argument(help="The root of a store: the directory that holds commitlog/.")]


@store.command("inspect")
def inspect_store(
    directory: Directory,
    check: Annotated[
        bool, typer.Option("--verify", help="Check every record; takes as long as reading the log.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    version: Annotated[
        str, typer.Option("--for", help="Exit with 1 if Apache's broker of this version must not take it over.")
    ] = "",
) -> None:
    """Show files, ranges, queues, checkpoint and what is pending. Exits with 1 if --verify finds damage."""
    _check_version(version)
    seen, verified = _run(lambda: _inspect(directory, check=check, quiet=as_json))
    if as_json:
        sys.stdout.write(msgspec.json.encode({"overview": seen, "verified": verified}).decode() + "\n")
    else:
        _print_overview(seen)
        if verified is not None:
            _print_verified(verified)
    hindered = _hindered(seen, version) if version else []
    for reason in hindered:
        typer.echo(f"firearrow store: not for {version}: {reason}", err=True)
    if hindered or (verified is not None and not verified.clean):
        raise typer.Exit(1)


def _hindered(seen: "Overview", version: str) -> list[str]:
    """The reason why Apache's broker of a version must not take the directory over."""
    reasons = seen.pending.hinders(version)
    if seen.in_use and version.startswith("4."):
        reasons.append(
            "the directory is open, or was not closed in order, so that not everything pending can be seen. Stop the "
            "broker in order; after a kill, start it once more before that."
        )
    return reasons


def _check_version(version: str) -> None:
    if version and not re.fullmatch(r"[45](\.\d+){1,2}", version):
        typer.echo(f"firearrow store: {version!r} is not a version of Apache's broker; give 4.9.7 or 5.5.0", err=True)
        raise typer.Exit(2)


@store.command("dump")
def dump_store(
    directory: Directory,
    start: Annotated[int, typer.Option("--from", help="Physical offset to start at; a record must begin there.")] = 0,
    limit: Annotated[int, typer.Option(help="Stop after so many records; 0 is no limit.")] = 0,
    topic: Annotated[str, typer.Option(help="Only records of this topic.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Print the records of the log, oldest first."""
    _run(lambda: _dump(directory, start, limit, topic, as_json=as_json))


def _run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401 - whatever the work returns
    try:
        return asyncio.run(work())
    except FireArrowError as error:
        typer.echo(f"firearrow store: {error}", err=True)
        raise typer.Exit(1) from None


@asynccontextmanager
async def _view(directory: Path) -> AsyncIterator["StoreView"]:
    from firearrow.runtime.disk.real_disk import RealDisk
    from firearrow.store.inspection.directory import StoreView

    if not (directory / "commitlog").is_dir():
        typer.echo(f"firearrow store: {directory} holds no commitlog/; name the root of a store", err=True)
        raise typer.Exit(1)
    disk = RealDisk(str(directory), read_only=True)
    view = await StoreView.open(disk)
    try:
        yield view
    finally:
        view.close()
        await disk.close()


async def _inspect(directory: Path, *, check: bool, quiet: bool) -> tuple["Overview", "StoreVerification | None"]:
    from firearrow.store.inspection.inspect import overview, verify

    async with _view(directory) as view:
        seen = await overview(view)
        if not check:
            return seen, None
        if quiet:
            return seen, await verify(view, seen)
        return seen, await _verify_showing(view, seen)


async def _verify_showing(view: "StoreView", seen: "Overview") -> "StoreVerification":
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from firearrow.store.inspection.inspect import verify

    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("checking", total=seen.log_end - seen.log_start)
        return await verify(view, seen, lambda done: bar.advance(task, done))


# ---- tables


def _print_overview(seen: "Overview") -> None:
    from rich.console import Console

    console = Console()
    state = "open, or not closed in order" if seen.in_use else "closed in order"
    console.print(f"log {seen.log_start}..{seen.log_end}, files of {seen.segment_bytes} bytes; {state}")
    if seen.flushed is not None:
        ours = ", ".join(f"{start}..{'' if end is None else end}" for start, end in seen.ranges) or "none"
        console.print(f"flushed up to {seen.flushed}; written by FireArrow: {ours}")
    point = seen.checkpoint
    times = (("log", point.log_ms), ("queues", point.queues_ms), ("index", point.index_ms))
    console.print("checkpoint " + ", ".join(f"{name} {_time(ms)}" for name, ms in times))
    if seen.pending:
        console.print(f"begun and not finished: {seen.pending}")
    _table(console, "Log files", ["start", "bytes", "last change"], _log_lines(seen))
    _table(console, "Queues", ["topic", "queue", "first", "end", "entries", "files"], _queue_lines(seen))
    _table(console, "Index files", ["name", "keys", "from", "to", "first offset", "last offset"], _index_lines(seen))


def _log_lines(seen: "Overview") -> list[list[str]]:
    return [[str(file.start), str(file.size), _time(file.modified_ms)] for file in seen.log_files]


def _queue_lines(seen: "Overview") -> list[list[str]]:
    return [
        [
            queue.topic,
            str(queue.queue_id),
            str(queue.start),
            str(queue.end),
            str(queue.end - queue.start),
            str(queue.files),
        ]
        for queue in seen.queues
    ]


def _index_lines(seen: "Overview") -> list[list[str]]:
    return [
        [
            file.name,
            str(file.keys),
            _time(file.begin_ms),
            _time(file.end_ms),
            str(file.begin_physical),
            str(file.end_physical),
        ]
        for file in seen.index_files
    ]


def _print_verified(verified: "StoreVerification") -> None:
    from rich.console import Console

    console = Console()
    protected = f"{verified.whole} protected as a whole, {verified.records - verified.whole} by their body alone"
    console.print(f"{verified.records} records in {verified.bytes} bytes are whole: {protected}")
    unprotected = [[str(start), str(end)] for start, end in verified.unprotected]
    _table(console, "Header unprotected", ["from", "to"], unprotected)
    _table(
        console, "Bad", ["from", "to", "reason"], [[str(bad.start), str(bad.end), bad.reason] for bad in verified.bad]
    )
    behind = [[one.topic, str(one.queue_id), str(one.entries_end), str(one.records_end)] for one in verified.queues]
    _table(console, "Queues behind the log", ["topic", "queue", "entries end", "records end"], behind)
    console.print("nothing is wrong" if verified.clean else "something is wrong: see above")


def _table(console: "Console", title: str, names: list[str], lines: list[list[str]]) -> None:
    from rich.table import Table

    if not lines:
        return
    table = Table(title=title if len(lines) <= LINES_SHOWN else f"{title} (the first {LINES_SHOWN} of {len(lines)})")
    for name in names:
        table.add_column(name, overflow="fold")
    for line in lines[:LINES_SHOWN]:
        table.add_row(*line)
    console.print(table)


def _time(ms: int) -> str:
    if ms <= 0:
        return "-"
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") + f".{ms % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(ms)


# ---- records


async def _dump(directory: Path, start: int, limit: int, topic: str, *, as_json: bool) -> None:
    async with _view(directory) as view:
        end = await view.log_end()
        printed = 0
        async for piece in view.pieces(start, end):
            for head in piece.heads:
                if topic and head.topic != topic:
                    continue
                sys.stdout.write(_record_line(piece.data, head, as_json=as_json) + "\n")
                printed += 1
                if limit and printed >= limit:
                    return
            if piece.bad:
                typer.echo(f"bad from {piece.bad_from} to {piece.end}: {piece.bad}", err=True)


def _record_line(data: bytes, head: "RecordHead", *, as_json: bool) -> str:
    body, properties = head.body(data), decode_properties(head.properties(data))
    message_id = offset_message_id(head.store_host, head.physical_offset)
    if as_json:
        fields = {
            "physicalOffset": head.physical_offset,
            "size": head.size,
            "topic": head.topic,
            "queueId": head.queue_id,
            "queueOffset": head.queue_offset,
            "storeTimestamp": head.store_timestamp,
            "sysFlag": head.sys_flag,
            "messageId": message_id,
            "properties": properties,
            "body": body,
        }
        return msgspec.json.encode(fields).decode()
    shown = body[:BODY_SHOWN].decode("utf-8", "backslashreplace").encode("unicode_escape").decode()
    more = f"... {len(body)} bytes" if len(body) > BODY_SHOWN else ""
    texts = " ".join(f"{key}={value!r}" for key, value in properties.items())
    place = f"{head.physical_offset} +{head.size} {head.topic}/{head.queue_id}/{head.queue_offset}"
    return f"{place} {_time(head.store_timestamp)} {message_id} {texts} body={shown!r}{more}"
