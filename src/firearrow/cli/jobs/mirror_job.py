"""``firearrow pipeline mirror``: topics of one cluster, copied to another. Runs without Spark."""

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.cluster import ClusterTerminated, NameServers, name_servers, reach_of, until_terminated
from firearrow.cli.environment import AccessOptions
from firearrow.cli.jobs.job_run import explained, replace_text
from firearrow.cli.option_groups import OptionGroup, grouped
from firearrow.errors import FireArrowError, SettingsError
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.exposition import as_text, serve
from firearrow.runtime.tls_settings import ClientTls

if TYPE_CHECKING:
    from firearrow.mirror.mirror import Mirror, Order

LOOK_S = 1.0
TERMINATED = 143
STARTS = ("first", "last")


@dataclass(frozen=True)
class ClusterOptions(OptionGroup):
    """The names of source and target, if they are not told by their name servers."""

    source_name: Annotated[
        str, typer.Option(help="Name of the source in all mirrors; else the name of its cluster.")
    ] = ""
    target_name: Annotated[
        str, typer.Option(help="Name of the target in all mirrors; else the name of its cluster.")
    ] = ""
    from_cluster: Annotated[str, typer.Option(help="Source cluster, if the name servers know several.")] = ""
    to_cluster: Annotated[str, typer.Option(help="Target cluster, if the name servers know several.")] = ""


@dataclass(frozen=True)
class CopyOptions(OptionGroup):
    """The parts of the topics that are copied."""

    start: Annotated[str, typer.Option(help="Where queues begin that were not copied yet: first or last.")] = "first"
    follow: Annotated[bool, typer.Option("--follow/--once", help="Keep copying, or stop at the present end.")] = True
    born_spread_ms: Annotated[
        int, typer.Option(min=0, help="Messages of one request are born within this time; 0 keeps every born time.")
    ] = 1000
    skip_damaged: Annotated[bool, typer.Option(help="Leave damaged messages out instead of stopping.")] = False


@dataclass(frozen=True)
class TargetOptions(OptionGroup):
    """TLS and the account at the target."""

    to_tls: Annotated[bool, typer.Option("--to-tls", help="Speak TLS to the target.")] = False
    to_trust: Annotated[str, typer.Option(help="PEM file of authorities that the target's servers are held to.")] = ""
    to_access_key: Annotated[
        str, typer.Option(envvar="FIREARROW_TO_ACCESS_KEY", help="Access key of the account at the target.")
    ] = ""
    to_secret_key: Annotated[
        str, typer.Option(envvar="FIREARROW_TO_SECRET_KEY", help="Its secret key; better given in the environment.")
    ] = field(default="", repr=False)

    @property
    def reach(self) -> AccessOptions:
        """TLS and keys."""
        tls = ClientTls(
            enabled=self.to_tls or bool(self.to_trust), verify_server=bool(self.to_trust), trust_path=self.to_trust
        )
        return AccessOptions(tls=tls, access_key=self.to_access_key, secret_key=self.to_secret_key)


@dataclass(frozen=True)
class ProgressOptions(OptionGroup):
    """The outputs on which a running mirror shows its progress."""

    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two lines of progress.")] = 5
    metrics: Annotated[Path | None, typer.Option(help="Write metrics to this file, in Prometheus's format.")] = None
    metrics_address: Annotated[
        str, typer.Option(help="Serve metrics for Prometheus at this host:port; needs the extra metrics.")
    ] = ""


@grouped
def mirror(
    context: typer.Context,
    topics: Annotated[str, typer.Option(help="Topics, separated by commas; * and ? stand for any characters.")],
    to: Annotated[str, typer.Option(help="Name servers of the target, separated by semicolons.")],
    state: Annotated[Path, typer.Option(help="Directory: how far the mirror is. Keep it between runs.")],
    servers: NameServers = "",
    groups: Annotated[
        str, typer.Option(help="Groups whose offsets are translated, separated by commas; empty: none.")
    ] = "*",
    *,
    clusters: ClusterOptions,
    copied: CopyOptions,
    target: TargetOptions,
    shown: ProgressOptions,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the whole trace of a failure.")] = False,
) -> None:
    """Copy topics to another cluster, queue by queue, and translate the offsets of groups. Needs no Spark."""
    with explained("mirror", verbose=verbose):
        from firearrow.mirror.mirror import Order, Side

        if copied.start not in STARTS:
            raise SettingsError(f"--start is one of {', '.join(STARTS)}, not {copied.start!r}")
        order = Order(
            Side(name_servers(context, servers), {**reach_of(context)}, clusters.source_name, clusters.from_cluster),
            Side(to, {**target.reach}, clusters.target_name, clusters.to_cluster),
            _words(topics, "--topics"),
            _words(groups, "") if groups else (),
            copied.start,
            copied.born_spread_ms,
            copied.skip_damaged,
        )
        try:
            asyncio.run(until_terminated(lambda: _run(order, state, shown, copied.follow)))
        except ClusterTerminated:
            raise typer.Exit(TERMINATED) from None


def _words(text: str, option: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found and option:
        raise SettingsError(f"{option} is empty; name topics, separated by commas")
    return found


async def _run(order: "Order", state: Path, shown: ProgressOptions, follow: bool) -> None:
    from firearrow.mirror.mirror import Mirror, first_of

    disk, clock = RealDisk(str(state)), SystemClock()
    job = Mirror(order, disk, clock, random.Random(), say=typer.echo)
    served = (
        serve(lambda: job.progress.families(clock.now_ms()), shown.metrics_address) if shown.metrics_address else None
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            showing = tasks.create_task(_show_on(job, shown, clock), name="progress")
            try:
                await job.run(once=not follow)
            finally:
                showing.cancel()
    except* FireArrowError as failures:
        raise first_of(failures) from failures
    finally:
        typer.echo(job.progress.line(clock.now_ms(), 0.0))
        _write(job, shown, clock)
        if served is not None:
            served.close()
        await disk.close()


async def _show_on(job: "Mirror", shown: ProgressOptions, clock: SystemClock) -> None:
    loop = asyncio.get_running_loop()
    said, copied = loop.time(), 0
    while True:
        await asyncio.sleep(min(LOOK_S, shown.every))
        _write(job, shown, clock)
        since = loop.time() - said
        if since >= shown.every:
            now = job.progress.total("copied")
            typer.echo(job.progress.line(clock.now_ms(), (now - copied) / since))
            said, copied = loop.time(), now


def _write(job: "Mirror", shown: ProgressOptions, clock: SystemClock) -> None:
    if shown.metrics is not None:
        replace_text(shown.metrics, as_text(job.progress.families(clock.now_ms())))
