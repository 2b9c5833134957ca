"""``firearrow pipeline``: archive topics into a lake, replay history, audit it. All of it runs on Spark."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from firearrow.cli.reaching import NameServers, name_servers, reach_of
from firearrow.errors import FireArrowError, SettingsError
from firearrow.runtime.tlssettings import ClientTls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from firearrow.spark.lake.table import LakeTable

LOOK_EVERY_S: Final = 1

pipeline = typer.Typer(
    add_completion=False, help="Topics as tables: archive, replay, audit. Needs the extra spark.", no_args_is_help=True
)

Master = Annotated[
    str,
    typer.Option(
        help="Spark's master, or sc://host:port of a Spark Connect server; else spark-submit's, else local[*].",
        show_default=False,
    ),
]
Settings = Annotated[list[str] | None, typer.Option("--conf", help="A setting of Spark, key=value; repeatable.")]
Format = Annotated[str, typer.Option("--format", help="parquet, iceberg or delta.")]
Location = Annotated[str, typer.Option(help="Directory or URI: of the table, or of the warehouse for iceberg.")]
Table = Annotated[str, typer.Option(help="Iceberg: namespace.table. Native tables: the name in Spark's catalog.")]
Catalog = Annotated[list[str] | None, typer.Option(help="Iceberg: a property of the catalog, key=value; repeatable.")]
Storage = Annotated[
    list[str] | None,
    typer.Option(help="How Iceberg and Delta tables are reached, key=value as s3.endpoint=http://host; repeatable."),
]
Native = Annotated[bool, typer.Option(help="Use the format's own runtime inside Spark; its jar must be there.")]
StorePath = Annotated[str, typer.Option(help="Directory of a broker's store: read its files instead of a table.")]


@pipeline.command()
def archive(
    context: typer.Context,
    topics: Annotated[str, typer.Option(help="Topics, separated by commas.")],
    location: Location,
    checkpoint: Annotated[str, typer.Option(help="Directory that remembers how far the archive is. Keep it.")],
    servers: NameServers = "",
    form: Format = "iceberg",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    native: Native = False,
    body_schema: Annotated[str, typer.Option(help="Schema of JSON bodies (DDL): fills a typed table too.")] = "",
    follow: Annotated[bool, typer.Option("--follow/--once", help="Go on, or stop when all is archived.")] = False,
    every: Annotated[str, typer.Option(help="With --follow: how often a batch is made.")] = "5 seconds",
    option: Annotated[list[str] | None, typer.Option(help="An option of the source, key=value; repeatable.")] = None,
    metrics: Annotated[Path | None, typer.Option(help="Keep metrics in this file, in Prometheus's format.")] = None,
    master: Master = "",
    conf: Settings = None,
) -> None:
    """Archive topics into tables of a lake, each message once, over any number of starts."""
    with _explained("archive"):
        from firearrow.spark.pipelines.archive import Archive, drains, start

        source = {**_reached(context, servers), "subscribe": topics, **_pairs(option)}
        job = Archive(source, _table(form, location, table, catalog, storage, native), checkpoint, body_schema)
        trigger: dict[str, str | bool] = {"processingTime": every} if follow else {"availableNow": True}
        with _session(master, conf) as spark:
            for _ in range(1 if follow else drains(spark)):
                _watch(start(spark, job, trigger), metrics)


@pipeline.command()
def backfill(
    store: Annotated[str, typer.Option(help="Directory of a broker's store, or a snapshot of one.")],
    location: Location,
    job: Annotated[str, typer.Option(help="A name: the same job is written once, however often it runs.")],
    form: Format = "iceberg",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    native: Native = False,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of rocketmq-store, key=value; repeatable.")
    ] = None,
    master: Master = "",
    conf: Settings = None,
) -> None:
    """Write everything that store files hold into a table, in one job and one commit, without a broker."""
    with _explained("backfill"):
        from firearrow.spark.pipelines import archive as archiving

        target = _table(form, location, table, catalog, storage, native)
        with _session(master, conf) as spark:
            archiving.backfill(spark, {"path": store, **_pairs(option)}, target, job)


@pipeline.command()
def replay(
    context: typer.Context,
    job: Annotated[str, typer.Option(help="A name for this replay, which its messages carry.")],
    to_topic: Annotated[str, typer.Option(help="Topic to send to.")] = "",
    same_topic: Annotated[bool, typer.Option(help="Send each message to the topic it came from.")] = False,
    where: Annotated[str, typer.Option(help="Condition in SQL over the columns of the history.")] = "",
    rate: Annotated[float, typer.Option(help="Messages a second; 0: no limit.")] = 0,
    tasks: Annotated[int, typer.Option(help="Tasks that send at once; one keeps the order across queues.")] = 1,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be sent.")] = False,
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
) -> None:
    """Send history to a topic again: chosen by a condition, in order, at a limited rate, marked."""
    with _explained("replay"):
        from firearrow.spark.pipelines import replay as replaying

        sink = {**_reached(context, servers), **_pairs(option)}
        how = replaying.Replay(job, sink, to_topic, where, same_topic, rate, tasks).checked()
        with _session(master, conf) as spark:
            rows = _history(spark, store, _table_if(store, form, location, table, catalog, storage, native))
            for row in replaying.summary(rows, how).collect():
                typer.echo(
                    f"{row.topic} {row.broker} queue {row.queue_id}: {row.messages:,} messages, {row.bytes:,} bytes, "
                    f"offsets {row.first_offset}-{row.last_offset} -> {row.target}"
                )
            if dry_run:
                typer.echo("dry run: nothing was sent")
            else:
                replaying.replay(rows, how)
                typer.echo("sent and acknowledged")


@pipeline.command()
def audit(
    receipts: Annotated[str, typer.Option(help="Receipts of producers: JSON lines (*.json, *.jsonl) or Parquet.")],
    offsets: Annotated[Path | None, typer.Option(help="A broker's consumerOffset.json.")] = None,
    broker: Annotated[str, typer.Option(help="Name of the broker that the offsets are of.")] = "broker-a",
    late_ms: Annotated[int, typer.Option(help="From birth to store at most.")] = 60_000,
    fail_on: Annotated[str, typer.Option(help="Kinds that make the audit fail.")] = "lost,duplicated,reordered",
    page: Annotated[Path | None, typer.Option(help="Write the report with a plot as HTML here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the report as PNG here; needs the extra plot.")] = None,
    details: Annotated[str, typer.Option(help="Write every finding as Parquet here.")] = "",
    store: StorePath = "",
    form: Format = "iceberg",
    location: Location = "",
    table: Table = "",
    catalog: Catalog = None,
    storage: Storage = None,
    native: Native = False,
    master: Master = "",
    conf: Settings = None,
) -> None:
    """Compare receipts, store and offsets: lost, duplicated, late, reordered, unread. Ends with 1 when one is found."""
    with _explained("audit"):
        from firearrow.spark.pipelines import audit as auditing

        with _session(master, conf) as spark:
            stored = _history(spark, store, _table_if(store, form, location, table, catalog, storage, native))
            given = _receipts(spark, receipts)
            known = _offsets(spark, offsets, broker) if offsets else None
            found = auditing.findings(given, stored, known, auditing.Limits(late_ms)).cache()
            rows = [row.asDict() for row in auditing.report(found, given, stored).collect()]
            if details:
                found.write.mode("overwrite").parquet(details)
    _print_report(rows)
    if page is not None:
        from firearrow.spark.pipelines.auditpage import page as page_of

        page.write_text(page_of(rows))
    if plot is not None:
        _draw(rows, plot)
    wanted = [kind.strip() for kind in fail_on.split(",") if kind.strip()]
    if any(row[kind] for row in rows for kind in wanted):
        raise typer.Exit(1)


@pipeline.command()
def script() -> None:
    """Print the file to hand to spark-submit: spark-submit "$(firearrow pipeline script)" pipeline archive ..."""
    typer.echo(Path(__file__).resolve().parents[1] / "__main__.py")


@pipeline.command()
def precompile(
    spark_home: Annotated[str, typer.Option(help="Spark's directory; else SPARK_HOME, or the installed pyspark.")] = "",
) -> None:
    """Compile Spark's own Python files, once for an installation: its Python processes start 0.5 s sooner."""
    with _explained("precompile"):
        from firearrow.cli.precompiling import precompile as compile_files
        from firearrow.cli.precompiling import spark_archives

        for archive in spark_archives(spark_home):
            try:
                count = compile_files(archive)
            except OSError as wrong:
                raise SettingsError(f"{archive} cannot be changed: {wrong}. Do this as its owner") from wrong
            typer.echo(f"{archive}: {f'{count} files compiled' if count else 'is compiled already'}")


def _draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    from firearrow.spark.pipelines.auditplot import draw

    try:
        draw(rows, str(path))
    except ModuleNotFoundError:
        typer.echo("--plot needs matplotlib: pip install 'firearrow[plot]'; --page needs nothing", err=True)
        raise typer.Exit(2) from None


def _print_report(rows: Sequence[dict[str, Any]]) -> None:
    columns = ("sent", "stored", "lost", "duplicated", "late", "reordered", "unread")
    typer.echo(f"{'topic':24} {'hour':20}" + "".join(f"{name:>12}" for name in columns))
    for row in rows:
        typer.echo(f"{row['topic']:24} {row['hour']!s:20}" + "".join(f"{row[name]:12,}" for name in columns))


def _receipts(spark: "SparkSession", path: str) -> "DataFrame":
    from firearrow.spark.pipelines.audit import RECEIPT_DDL

    if path.endswith((".json", ".jsonl")):
        return spark.read.schema(RECEIPT_DDL).json(path)
    return spark.read.schema(RECEIPT_DDL).parquet(path)


def _offsets(spark: "SparkSession", path: Path, broker: str) -> "DataFrame":
    from firearrow.spark.pipelines.audit import OFFSET_DDL

    rows = []
    for name, queues in json.loads(path.read_text())["offsetTable"].items():
        topic, _, group = name.partition("@")
        rows += [(topic, broker, int(queue), group, int(offset)) for queue, offset in queues.items()]
    return spark.createDataFrame(rows, OFFSET_DDL)


def _history(spark: "SparkSession", store: str, table: "LakeTable | None") -> "DataFrame":
    if table is None:
        return spark.read.format("rocketmq-store").load(store)
    from firearrow.spark.lake import access

    return access.read(spark, table)


def _table_if(store: str, *told: Any) -> "LakeTable | None":  # noqa: ANN401 - what `_table` takes
    """The table that holds the history, unless store files do."""
    return None if store else _table(*told)


def _table(
    form: str, location: str, name: str, catalog: list[str] | None, storage: list[str] | None, native: bool
) -> "LakeTable":
    from firearrow.spark.lake.table import FORMATS, LakeTable

    if form not in FORMATS:
        raise SettingsError(f"--format is one of {', '.join(FORMATS)}, not {form!r}")
    where = location if "://" in location or not location else os.path.abspath(location)
    return LakeTable(form, where, name, _pairs(catalog), native, _pairs(storage)).checked()  # type: ignore[arg-type]


def _reached(context: typer.Context, servers: str) -> dict[str, str]:
    """The options of source and sink that say how the cluster is reached, as they were given to ``firearrow``."""
    reach = reach_of(context)
    tls = reach.get("tls", ClientTls())
    found = {
        "nameServer": name_servers(context, servers),
        "tls": "true" if tls.enabled else "",
        "tlsVerify": "true" if tls.verify_server else "",
        "tlsCaFile": tls.trust_path,
        "accessKey": reach.get("access_key", ""),
        "secretKey": reach.get("secret_key", ""),
    }
    return {name: value for name, value in found.items() if value}


def _pairs(given: list[str] | None) -> dict[str, str]:
    found = {}
    for pair in given or ():
        key, mark, value = pair.partition("=")
        if not mark:
            raise SettingsError(f"{pair!r} is not key=value")
        found[key] = value
    return found


def _usual_master() -> str:
    """Nothing where spark-submit started this process and has chosen; this machine elsewhere."""
    return "" if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"


@contextmanager
def _session(master: str, conf: list[str] | None) -> "Iterator[SparkSession]":
    from firearrow.spark.session import open_session

    # Executors on this machine must run the Python that this package is installed in.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = open_session(master or _usual_master(), _pairs(conf))
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _explained(command: str) -> Iterator[None]:
    try:
        yield
    except FireArrowError as error:
        typer.echo(f"firearrow pipeline {command}: {error}", err=True)
        raise typer.Exit(2) from None
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in {"pyspark", "pyarrow", "pyiceberg", "deltalake"}:
            raise
        typer.echo(f"this needs {missing.name}: pip install 'firearrow[spark,iceberg,delta]'", err=True)
        raise typer.Exit(2) from None


def _watch(queries: "list[StreamingQuery]", metrics: Path | None, say: Callable[[str], None] = typer.echo) -> None:
    """Print every batch until the queries end; raise what ended one of them."""
    from firearrow.spark.pipelines.progress import Watched

    watched = Watched()
    try:
        while True:
            going = [query for query in queries if not query.awaitTermination(LOOK_EVERY_S)]
            for query in queries:
                for batch in watched.fresh(str(query.id), [_plain(report) for report in query.recentProgress]):
                    say(batch.line())
            if metrics is not None:
                _replace(metrics, watched)
            if not going:
                return
    except KeyboardInterrupt:
        for query in queries:
            query.stop()


def _plain(report: Any) -> dict[str, Any]:  # noqa: ANN401 - a progress object of Spark, or a dictionary
    return report if type(report) is dict else json.loads(report.json)


def _replace(path: Path, watched: "Any") -> None:  # noqa: ANN401
    from firearrow.spark.pipelines.progress import metrics

    fresh = path.with_name(path.name + ".new")
    fresh.write_text(metrics(list(watched.latest.values())))
    fresh.replace(path)
