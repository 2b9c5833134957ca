"""``firearrow pipeline``: archive, replay, audit and count topics on Spark; maintain tables, mirror topics."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.cluster import NameServers
from firearrow.cli.jobs.audit_job import audit
from firearrow.cli.jobs.body_options import BodyOptions, UpsertOptions, body_format_of
from firearrow.cli.jobs.dead_letters import dlq
from firearrow.cli.jobs.job_options import (
    Evolution,
    HeldTableOptions,
    HistoryOptions,
    Location,
    NewTableOptions,
    SparkOptions,
    TableOptions,
    history,
    pairs,
    reached,
)
from firearrow.cli.jobs.job_run import ProgressOutputs, closing, explained, session, watch
from firearrow.cli.jobs.mirror_job import mirror
from firearrow.cli.jobs.stats_job import stats
from firearrow.cli.option_groups import OptionGroup, grouped
from firearrow.errors import SettingsError
from firearrow.runtime.clock import SystemClock

if TYPE_CHECKING:
    from firearrow.spark.upkeep.work import Upkeep

pipeline = typer.Typer(
    add_completion=False,
    help="Topics as tables: archive, replay, audit, stats, maintain, with the extra spark. To another cluster: mirror.",
    no_args_is_help=True,
)
pipeline.command("mirror")(mirror)
pipeline.command("stats")(stats)
pipeline.add_typer(dlq, name="dlq")

OnError = Annotated[str, typer.Option(help="Bodies that are not of the schema: fail, quarantine or skip.")]


@dataclass(frozen=True)
class ArchiveOptions(OptionGroup):
    """The run of an archive: its pace, its source and where it shows how far it is."""

    follow: Annotated[bool, typer.Option("--follow/--once", help="Keep archiving, or stop at the present end.")] = False
    every: Annotated[str, typer.Option(help="With --follow: interval of micro-batches.")] = "5 seconds"
    mark: Annotated[
        str,
        typer.Option(help="Mark at the brokers what the tables have, under this name, for lake.retention."),
    ] = ""
    option: Annotated[list[str] | None, typer.Option(help="An option of the source, key=value; repeatable.")] = None
    metrics: Annotated[Path | None, typer.Option(help="Write metrics to this file, in Prometheus's format.")] = None
    metrics_address: Annotated[
        str, typer.Option(help="Serve metrics for Prometheus at this host:port; needs the extra metrics.")
    ] = ""


@pipeline.command()
@grouped
def archive(
    context: typer.Context,
    topics: Annotated[str, typer.Option(help="Topics, separated by commas.")],
    location: Location,
    checkpoint: Annotated[
        str, typer.Option(help="Checkpoint directory: how far the archive is. Keep it between runs.")
    ],
    servers: NameServers = "",
    *,
    table: NewTableOptions,
    bodies: BodyOptions,
    on_error: OnError = "quarantine",
    upserts: UpsertOptions,
    run: ArchiveOptions,
    spark: SparkOptions,
) -> None:
    """Archive topics into lake tables; each message is written once, over any number of restarts."""
    with explained("archive", verbose=spark.verbose) as quiet:
        from firearrow.spark.pipelines.archive import Archive, drain, start
        from firearrow.spark.pipelines.lake_marks import group_of, marking

        source = {**reached(context, servers), "subscribe": topics, **pairs(run.option)}
        target, how = table.at(location), body_format_of(bodies, topics)
        job = Archive(source, target, checkpoint, bodies=how, on_error=on_error, upsert=upserts.upsert).checked()
        if run.mark:
            group_of(run.mark)
        with session(spark, quiet) as opened, marking(opened, job, run.mark, _warn) as note:
            for queries in [start(opened, job, {"processingTime": run.every})] if run.follow else drain(opened, job):
                watch(queries, ProgressOutputs(run.metrics, run.metrics_address, on_batch=note))


@pipeline.command()
@grouped
def requarantine(
    location: Location,
    *,
    table: TableOptions,
    evolve: Evolution = "fail",
    bodies: BodyOptions,
    upserts: UpsertOptions,
    spark: SparkOptions,
) -> None:
    """Read the quarantine of an archive again after its schema was mended: bodies that fit now move to the typed table,
    each once. Takes the archive's options of table and bodies."""
    with explained("requarantine", verbose=spark.verbose) as quiet:
        from firearrow.spark.pipelines.archive import Archive
        from firearrow.spark.pipelines.requarantine import requarantine as move

        target, upsert = table.at(location, evolve=evolve), upserts.upsert
        job = Archive({}, target, "", bodies=body_format_of(bodies, ""), bronze=False, upsert=upsert)
        job.with_tables_checked()
        with session(spark, quiet) as opened:
            moved, left = move(opened, job)
            typer.echo(f"{moved:,} rows moved to the typed table, {left:,} stay in the quarantine")


@pipeline.command()
@grouped
def backfill(
    store: Annotated[str, typer.Option(help="Directory of a broker's store, or a snapshot of one.")],
    location: Location,
    job: Annotated[
        str, typer.Option(help="Name of the job; a job of one name is written once, however often it runs.")
    ],
    *,
    table: NewTableOptions,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of rocketmq-store, key=value; repeatable.")
    ] = None,
    spark: SparkOptions,
) -> None:
    """Write all messages of store files into a table, in one job and one commit, without a broker."""
    with explained("backfill", verbose=spark.verbose) as quiet:
        from firearrow.spark.options import store_options
        from firearrow.spark.pipelines import archive as archiving

        target = table.at(location)
        files, began = {"path": store, **pairs(option)}, time.monotonic()
        store_options(files)
        with session(spark, quiet) as opened:
            rows = archiving.backfill(opened, files, target, job)
        typer.echo(closing(f"backfill {job}: {rows:,} rows of {store} are in {target.called}", began))


@dataclass(frozen=True)
class ReplayOptions(OptionGroup):
    """A replay: its name, its messages and its pace."""

    job: Annotated[str, typer.Option(help="Name of this replay; every message carries it.")]
    to_topic: Annotated[str, typer.Option(help="Topic to send to.")] = ""
    same_topic: Annotated[bool, typer.Option(help="Send each message to the topic it came from.")] = False
    where: Annotated[str, typer.Option(help="SQL condition on the columns of the history.")] = ""
    rate: Annotated[float, typer.Option(help="Messages a second; 0: no limit.")] = 0
    tasks: Annotated[int, typer.Option(help="Parallel tasks; 1 keeps the order across queues.")] = 1
    dry_run: Annotated[bool, typer.Option(help="Show what would be sent; send nothing.")] = False


@pipeline.command()
@grouped
def replay(
    context: typer.Context,
    wanted: ReplayOptions,
    servers: NameServers = "",
    option: Annotated[list[str] | None, typer.Option(help="An option of the sink, key=value; repeatable.")] = None,
    *,
    past: HistoryOptions,
    spark: SparkOptions,
) -> None:
    """Send archived messages to a topic again: chosen by a condition, in order, rate-limited, marked as replayed."""
    with explained("replay", verbose=spark.verbose) as quiet:
        from firearrow.spark.pipelines import replay as replaying
        from firearrow.spark.sink.sink_options import sink_options

        sink = {**reached(context, servers), **pairs(option)}
        sink_options(sink)
        how = replaying.Replay(
            wanted.job, sink, wanted.to_topic, wanted.where, wanted.same_topic, wanted.rate, wanted.tasks
        ).checked()
        told, began = past.lake_table, time.monotonic()
        with session(spark, quiet) as opened:
            rows = history(opened, past.store, told)
            planned = replaying.summary(rows, how).collect()
            for row in planned:
                typer.echo(
                    f"{row.topic} {row.broker} queue {row.queue_id}: {row.messages:,} messages, {row.bytes:,} bytes, "
                    f"offsets {row.first_offset}-{row.last_offset} -> {row.target}"
                )
            if wanted.dry_run:
                typer.echo("dry run: nothing was sent")
            else:
                replaying.replay(rows, how)
                sent = sum(row.messages for row in planned)
                typer.echo(closing(f"replay {wanted.job}: {sent:,} messages sent and acknowledged", began))


pipeline.command("audit")(audit)


@dataclass(frozen=True)
class UpkeepOptions(OptionGroup):
    """The upkeep of a table: which files are rewritten, which rows and versions go."""

    compact: Annotated[bool, typer.Option("--compact", help="Rewrite small files as larger ones.")] = False
    file_mb: Annotated[int, typer.Option(help="With --compact: wanted size of files in MiB.")] = 128
    min_files: Annotated[int, typer.Option(help="With --compact: small files of a partition worth a rewrite.")] = 5
    delete_where: Annotated[str, typer.Option(help="Delete rows by a condition on columns, such as 'id = 7'.")] = ""
    ttl: Annotated[str, typer.Option(help="Delete rows that are older, such as 90d.")] = ""
    ttl_column: Annotated[str, typer.Option(help="Column of times for --ttl; else when messages were stored.")] = ""
    expire: Annotated[str, typer.Option(help="Forget versions of the table that are older, such as 7d.")] = ""
    orphans: Annotated[str, typer.Option(help="Remove files without a commit that are older, such as 3d.")] = ""

    @property
    def work(self) -> "Upkeep":
        """The upkeep."""
        from firearrow.cli.times import wait_ms
        from firearrow.spark.upkeep.work import Upkeep

        ttl, expire, orphans = (wait_ms(age) if age else None for age in (self.ttl, self.expire, self.orphans))
        return Upkeep(
            self.compact, self.file_mb << 20, self.min_files, self.delete_where, ttl, self.ttl_column, expire, orphans
        )


@pipeline.command()
@grouped
def maintain(table: HeldTableOptions, wanted: UpkeepOptions, spark: SparkOptions) -> None:
    """Compact a table, delete rows, expire old versions and remove orphan files, beside the stream that fills it."""
    with explained("maintain", verbose=spark.verbose) as quiet:
        from firearrow.spark.upkeep.maintain import maintain as maintain_table
        from firearrow.spark.upkeep.maintain import maintain_natively

        work, target = wanted.work, table.lake_table
        work.checked(target)
        now_ms = SystemClock().now_ms()
        if not table.native:
            for done in maintain_table(target, work, now_ms):
                typer.echo(done.line())
            return
        with session(spark, quiet) as opened:
            for statement in maintain_natively(opened, target, work, now_ms):
                typer.echo(f"done: {statement}")


@pipeline.command()
def script() -> None:
    """Print the file that spark-submit runs: spark-submit "$(firearrow pipeline script)" pipeline archive ..."""
    typer.echo(Path(__file__).resolve().parents[1] / "__main__.py")


@pipeline.command()
def precompile(
    spark_home: Annotated[str, typer.Option(help="Spark's directory; else SPARK_HOME, or the installed pyspark.")] = "",
) -> None:
    """Compile Spark's own Python files once, so that its Python processes start 0.5 s sooner."""
    with explained("precompile"):
        from firearrow.cli.precompile import precompile as compile_files
        from firearrow.cli.precompile import spark_archives

        for archive in spark_archives(spark_home):
            try:
                count = compile_files(archive)
            except OSError as wrong:
                raise SettingsError(f"{archive} cannot be changed: {wrong}. Do this as its owner") from wrong
            typer.echo(f"{archive}: {f'{count} files compiled' if count else 'is compiled already'}")


def _warn(text: str) -> None:
    typer.echo(text, err=True)
