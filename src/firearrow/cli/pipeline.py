"""``firearrow pipeline``: archive, replay, audit and count topics on Spark; maintain tables, mirror topics."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from firearrow.cli.cluster import NameServers
from firearrow.cli.jobs.body_options import BodyGiven, body_format_of
from firearrow.cli.jobs.dead_letters import dlq
from firearrow.cli.jobs.job_options import (
    Catalog,
    Evolution,
    Format,
    Location,
    Master,
    Native,
    Partitions,
    Settings,
    Storage,
    StorePath,
    Table,
    Verbose,
    history,
    pairs,
    reached,
    table_if,
    table_of,
)
from firearrow.cli.jobs.job_run import Shown, closing, explained, session, watch
from firearrow.cli.jobs.mirror_job import mirror
from firearrow.cli.jobs.stats_job import stats
from firearrow.errors import SettingsError
from firearrow.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firearrow.spark.pipelines.upserts import Upsert

pipeline = typer.Typer(
    add_completion=False,
    help="Topics as tables: archive, replay, audit, stats, maintain, with the extra spark. To another cluster: mirror.",
    no_args_is_help=True,
)
pipeline.command("mirror")(mirror)
pipeline.command("stats")(stats)
pipeline.add_typer(dlq, name="dlq")

BodyKind = Annotated[str, typer.Option(help="Format of bodies: json, debezium (its events in JSON), avro or protobuf.")]
BodySchema = Annotated[str, typer.Option(help="Schema of JSON bodies (DDL); also fills a table of typed columns.")]
BodySchemaFile = Annotated[
    Path | None, typer.Option(help="Avro: the reader's schema (.avsc). Protobuf: a descriptor set of protoc.")
]
BodyMessage = Annotated[str, typer.Option(help="Protobuf: full name of the message.")]
SchemaRegistry = Annotated[
    str, typer.Option(help="Schema registry, http://host:8081: bodies begin with the id of their schema.")
]
Subject = Annotated[str, typer.Option(help="Subject of the registry; else the topic's name and -value.")]
RescuedColumn = Annotated[str, typer.Option(help="Column for what a body has and the schema does not, as JSON.")]
OnError = Annotated[str, typer.Option(help="Bodies that are not of the schema: fail, quarantine or skip.")]

Mode = Annotated[str, typer.Option(help="The typed table has every message (append), or each key once (upsert).")]
KeyColumns = Annotated[str, typer.Option(help="Upsert: columns of the key, separated by commas.")]
DeleteWhen = Annotated[str, typer.Option(help="Upsert: SQL condition on typed columns that deletes a row.")]
Version = Annotated[
    str, typer.Option(help="Upsert: SQL expression that orders versions of a row, before their place in the topic.")
]

COUNTS: Final = ("sent", "stored", "lost", "duplicated", "late", "reordered", "unread")
"""The counts of an audit, by topic and hour."""


@pipeline.command()
def archive(
    context: typer.Context,
    topics: Annotated[str, typer.Option(help="Topics, separated by commas.")],
    location: Location,
    checkpoint: Annotated[
        str, typer.Option(help="Checkpoint directory: how far the archive is. Keep it between runs.")
    ],
    servers: NameServers = "",
    form: Format = "iceberg",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    native: Native = False,
    evolve: Evolution = "fail",
    partition_by: Partitions = "",
    body_format: BodyKind = "json",
    body_schema: BodySchema = "",
    body_schema_file: BodySchemaFile = None,
    body_message: BodyMessage = "",
    registry: SchemaRegistry = "",
    subject: Subject = "",
    rescued_column: RescuedColumn = "_rescued_data",
    on_error: OnError = "quarantine",
    mode: Mode = "append",
    key: KeyColumns = "",
    delete_when: DeleteWhen = "",
    version: Version = "",
    follow: Annotated[
        bool, typer.Option("--follow/--once", help="Keep archiving, or stop at the present end.")
    ] = False,
    every: Annotated[str, typer.Option(help="With --follow: interval of micro-batches.")] = "5 seconds",
    mark: Annotated[
        str,
        typer.Option(help="Mark at the brokers what the tables have, under this name, for lake.retention."),
    ] = "",
    option: Annotated[list[str] | None, typer.Option(help="An option of the source, key=value; repeatable.")] = None,
    metrics: Annotated[Path | None, typer.Option(help="Write metrics to this file, in Prometheus's format.")] = None,
    metrics_address: Annotated[
        str, typer.Option(help="Serve metrics for Prometheus at this host:port; needs the extra metrics.")
    ] = "",
    master: Master = "",
    conf: Settings = None,
    verbose: Verbose = False,
) -> None:
    """Archive topics into lake tables; each message is written once, over any number of restarts."""
    with explained("archive", verbose=verbose) as quiet:
        from firearrow.spark.pipelines.archive import Archive, drain, start
        from firearrow.spark.pipelines.lake_marks import group_of, marking

        source = {**reached(context, servers), "subscribe": topics, **pairs(option)}
        target = table_of(form, location, table, catalog, storage, native, evolve, partition_by)
        given = BodyGiven(body_format, body_schema, body_schema_file, body_message, registry, subject, rescued_column)
        bodies = body_format_of(given, topics)
        upsert = _upsert(mode, key, delete_when, version)
        job = Archive(source, target, checkpoint, bodies=bodies, on_error=on_error, upsert=upsert).checked()
        if mark:
            group_of(mark)
        with session(master, pairs(conf), quiet) as spark, marking(spark, job, mark, _warn) as note:
            for queries in [start(spark, job, {"processingTime": every})] if follow else drain(spark, job):
                watch(queries, Shown(metrics, metrics_address, on_batch=note))


@pipeline.command()
def requarantine(
    location: Location,
    form: Format = "iceberg",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    evolve: Evolution = "fail",
    body_format: BodyKind = "json",
    body_schema: BodySchema = "",
    body_schema_file: BodySchemaFile = None,
    body_message: BodyMessage = "",
    registry: SchemaRegistry = "",
    subject: Subject = "",
    rescued_column: RescuedColumn = "_rescued_data",
    mode: Mode = "append",
    key: KeyColumns = "",
    delete_when: DeleteWhen = "",
    version: Version = "",
    master: Master = "",
    conf: Settings = None,
    verbose: Verbose = False,
) -> None:
    """Read the quarantine of an archive again after its schema was mended: bodies that fit now move to the typed table,
    each once. Takes the archive's options of table and bodies."""
    with explained("requarantine", verbose=verbose) as quiet:
        from firearrow.spark.pipelines.archive import Archive
        from firearrow.spark.pipelines.requarantine import requarantine as move

        given = BodyGiven(body_format, body_schema, body_schema_file, body_message, registry, subject, rescued_column)
        target = table_of(form, location, table, catalog, storage, False, evolve, "")
        upsert = _upsert(mode, key, delete_when, version)
        job = Archive({}, target, "", bodies=body_format_of(given, ""), bronze=False, upsert=upsert)
        job.with_tables_checked()
        with session(master, pairs(conf), quiet) as spark:
            moved, left = move(spark, job)
            typer.echo(f"{moved:,} rows moved to the typed table, {left:,} stay in the quarantine")


@pipeline.command()
def backfill(
    store: Annotated[str, typer.Option(help="Directory of a broker's store, or a snapshot of one.")],
    location: Location,
    job: Annotated[
        str, typer.Option(help="Name of the job; a job of one name is written once, however often it runs.")
    ],
    form: Format = "iceberg",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    native: Native = False,
    evolve: Evolution = "fail",
    partition_by: Partitions = "",
    option: Annotated[
        list[str] | None, typer.Option(help="An option of rocketmq-store, key=value; repeatable.")
    ] = None,
    master: Master = "",
    conf: Settings = None,
    verbose: Verbose = False,
) -> None:
    """Write all messages of store files into a table, in one job and one commit, without a broker."""
    with explained("backfill", verbose=verbose) as quiet:
        from firearrow.spark.options import store_options
        from firearrow.spark.pipelines import archive as archiving

        target = table_of(form, location, table, catalog, storage, native, evolve, partition_by)
        files, began = {"path": store, **pairs(option)}, time.monotonic()
        store_options(files)
        with session(master, pairs(conf), quiet) as spark:
            rows = archiving.backfill(spark, files, target, job)
        typer.echo(closing(f"backfill {job}: {rows:,} rows of {store} are in {target.called}", began))


@pipeline.command()
def replay(
    context: typer.Context,
    job: Annotated[str, typer.Option(help="Name of this replay; every message carries it.")],
    to_topic: Annotated[str, typer.Option(help="Topic to send to.")] = "",
    same_topic: Annotated[bool, typer.Option(help="Send each message to the topic it came from.")] = False,
    where: Annotated[str, typer.Option(help="SQL condition on the columns of the history.")] = "",
    rate: Annotated[float, typer.Option(help="Messages a second; 0: no limit.")] = 0,
    tasks: Annotated[int, typer.Option(help="Parallel tasks; 1 keeps the order across queues.")] = 1,
    dry_run: Annotated[bool, typer.Option(help="Show what would be sent; send nothing.")] = False,
    servers: NameServers = "",
    option: Annotated[list[str] | None, typer.Option(help="An option of the sink, key=value; repeatable.")] = None,
    store: StorePath = "",
    form: Format = "iceberg",
    location: Location = "",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    native: Native = False,
    master: Master = "",
    conf: Settings = None,
    verbose: Verbose = False,
) -> None:
    """Send archived messages to a topic again: chosen by a condition, in order, rate-limited, marked as replayed."""
    with explained("replay", verbose=verbose) as quiet:
        from firearrow.spark.pipelines import replay as replaying
        from firearrow.spark.sink.sink_options import sink_options

        sink = {**reached(context, servers), **pairs(option)}
        sink_options(sink)
        how = replaying.Replay(job, sink, to_topic, where, same_topic, rate, tasks).checked()
        told, began = table_if(store, form, location, table, catalog, storage, native), time.monotonic()
        with session(master, pairs(conf), quiet) as spark:
            rows = history(spark, store, told)
            planned = replaying.summary(rows, how).collect()
            for row in planned:
                typer.echo(
                    f"{row.topic} {row.broker} queue {row.queue_id}: {row.messages:,} messages, {row.bytes:,} bytes, "
                    f"offsets {row.first_offset}-{row.last_offset} -> {row.target}"
                )
            if dry_run:
                typer.echo("dry run: nothing was sent")
            else:
                replaying.replay(rows, how)
                sent = sum(row.messages for row in planned)
                typer.echo(closing(f"replay {job}: {sent:,} messages sent and acknowledged", began))


@pipeline.command()
def audit(
    receipts: Annotated[str, typer.Option(help="Receipts of producers: JSON lines (*.json, *.jsonl) or Parquet.")],
    offsets: Annotated[Path | None, typer.Option(help="A broker's consumerOffset.json.")] = None,
    broker: Annotated[str, typer.Option(help="Broker that wrote --offsets.")] = "broker-a",
    late_ms: Annotated[
        int, typer.Option(help="Milliseconds from birth to store above which a message is late.")
    ] = 60_000,
    fail_on: Annotated[
        str, typer.Option(help="Kinds of findings that make the audit fail.")
    ] = "lost,duplicated,reordered",
    page: Annotated[Path | None, typer.Option(help="Write the report and a plot to this HTML file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the plot to this PNG file; needs the extra plot.")] = None,
    details: Annotated[str, typer.Option(help="Write every finding to this Parquet directory.")] = "",
    store: StorePath = "",
    form: Format = "iceberg",
    location: Location = "",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    native: Native = False,
    master: Master = "",
    conf: Settings = None,
    verbose: Verbose = False,
) -> None:
    """Compare receipts, store and offsets; report lost, duplicated, late, reordered and unread messages.
    Exits with 1 if a kind of --fail-on is found."""
    with explained("audit", verbose=verbose) as quiet:
        from firearrow.spark.lake.storage import for_spark, reach
        from firearrow.spark.pipelines import audit as auditing

        told, began = table_if(store, form, location, table, catalog, storage, native), time.monotonic()
        with session(master, pairs(conf), quiet) as spark:
            reach(spark, pairs(storage))
            stored = history(spark, store, told)
            given = _receipts(spark, receipts)
            known = _offsets(spark, offsets, broker) if offsets else None
            found = auditing.findings(given, stored, known, auditing.Limits(late_ms)).cache()
            rows = [row.asDict() for row in auditing.report(found, given, stored).collect()]
            if details:
                found.write.mode("overwrite").parquet(for_spark(details))
    _print_report(rows)
    typer.echo(closing(f"audit: {_totals(rows)}", began))
    if page is not None:
        from firearrow.spark.pipelines.audit_page import page as page_of

        page.write_text(page_of(rows))
    if plot is not None:
        _draw(rows, plot)
    wanted = [kind.strip() for kind in fail_on.split(",") if kind.strip()]
    if any(row[kind] for row in rows for kind in wanted):
        raise typer.Exit(1)


@pipeline.command()
def maintain(
    form: Format = "iceberg",
    location: Location = "",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    native: Native = False,
    compact: Annotated[bool, typer.Option("--compact", help="Rewrite small files as larger ones.")] = False,
    file_mb: Annotated[int, typer.Option(help="With --compact: wanted size of files in MiB.")] = 128,
    min_files: Annotated[int, typer.Option(help="With --compact: small files of a partition worth a rewrite.")] = 5,
    delete_where: Annotated[str, typer.Option(help="Delete rows by a condition on columns, such as 'id = 7'.")] = "",
    ttl: Annotated[str, typer.Option(help="Delete rows that are older, such as 90d.")] = "",
    ttl_column: Annotated[str, typer.Option(help="Column of times for --ttl; else when messages were stored.")] = "",
    expire: Annotated[str, typer.Option(help="Forget versions of the table that are older, such as 7d.")] = "",
    orphans: Annotated[str, typer.Option(help="Remove files without a commit that are older, such as 3d.")] = "",
    master: Master = "",
    conf: Settings = None,
    verbose: Verbose = False,
) -> None:
    """Compact a table, delete rows, expire old versions and remove orphan files, beside the stream that fills it."""
    with explained("maintain", verbose=verbose) as quiet:
        from firearrow.cli.times import wait_ms
        from firearrow.spark.upkeep.maintain import maintain as maintain_table
        from firearrow.spark.upkeep.maintain import maintain_natively
        from firearrow.spark.upkeep.work import Upkeep

        ages = [wait_ms(age) if age else None for age in (ttl, expire, orphans)]
        target = table_of(form, location, table, catalog, storage, native)
        work = Upkeep(compact, file_mb << 20, min_files, delete_where, ages[0], ttl_column, ages[1], ages[2])
        work.checked(target)
        now_ms = SystemClock().now_ms()
        if not native:
            for done in maintain_table(target, work, now_ms):
                typer.echo(done.line())
            return
        with session(master, pairs(conf), quiet) as spark:
            for statement in maintain_natively(spark, target, work, now_ms):
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


def _draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    from firearrow.spark.pipelines.audit_plot import draw

    try:
        draw(rows, str(path))
    except ModuleNotFoundError:
        typer.echo("--plot needs matplotlib: pip install 'firearrow[plot]'; --page needs nothing", err=True)
        raise typer.Exit(2) from None


def _print_report(rows: Sequence[dict[str, Any]]) -> None:
    typer.echo(f"{'topic':24} {'hour':20}" + "".join(f"{name:>12}" for name in COUNTS))
    for row in rows:
        typer.echo(f"{row['topic']:24} {row['hour']!s:20}" + "".join(f"{row[name]:12,}" for name in COUNTS))


def _totals(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{sum(row[name] for row in rows):,} {name}" for name in COUNTS)


def _receipts(spark: "SparkSession", path: str) -> "DataFrame":
    from firearrow.spark.lake.storage import for_spark
    from firearrow.spark.pipelines.audit import RECEIPT_DDL

    if path.endswith((".json", ".jsonl")):
        return spark.read.schema(RECEIPT_DDL).json(for_spark(path))
    return spark.read.schema(RECEIPT_DDL).parquet(for_spark(path))


def _offsets(spark: "SparkSession", path: Path, broker: str) -> "DataFrame":
    from firearrow.spark.pipelines.audit import OFFSET_DDL

    rows = []
    for name, queues in json.loads(path.read_text())["offsetTable"].items():
        topic, _, group = name.partition("@")
        rows += [(topic, broker, int(queue), group, int(offset)) for queue, offset in queues.items()]
    return spark.createDataFrame(rows, OFFSET_DDL)


def _upsert(mode: str, key: str, delete_when: str, version: str) -> "Upsert | None":
    """Return how rows become changes; None if they are appended."""
    from firearrow.spark.pipelines.upserts import MODES, UPSERT, Upsert

    if mode not in MODES:
        raise SettingsError(f"--mode is one of {', '.join(MODES)}, not {mode!r}")
    names = tuple(name.strip() for name in key.split(",") if name.strip())
    if mode == UPSERT and not names:
        raise SettingsError("--mode upsert needs --key: the columns that tell rows apart, as --key id")
    if mode != UPSERT and (names or delete_when or version):
        raise SettingsError("--key, --delete-when and --version belong to --mode upsert; give it too")
    return Upsert(names, delete_when, version) if mode == UPSERT else None
