"""``firearrow pipeline audit``: receipts of producers against what a store or a table has, counted by Spark."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from firearrow.cli.jobs.job_options import HistoryOptions, SparkOptions, history, pairs
from firearrow.cli.jobs.job_run import closing, explained, session
from firearrow.cli.option_groups import OptionGroup, grouped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS: Final = ("sent", "stored", "lost", "duplicated", "late", "reordered", "unread")
"""The counts of an audit, by topic and hour."""


@dataclass(frozen=True)
class AuditOptions(OptionGroup):
    """The limits of an audit, and the files of its report."""

    offsets: Annotated[Path | None, typer.Option(help="A broker's consumerOffset.json.")] = None
    broker: Annotated[str, typer.Option(help="Broker that wrote --offsets.")] = "broker-a"
    late_ms: Annotated[int, typer.Option(help="Milliseconds from birth to store above which a message is late.")] = (
        60_000
    )
    fail_on: Annotated[str, typer.Option(help="Kinds of findings that make the audit fail.")] = (
        "lost,duplicated,reordered"
    )
    page: Annotated[Path | None, typer.Option(help="Write the report and a plot to this HTML file.")] = None
    plot: Annotated[Path | None, typer.Option(help="Write the plot to this PNG file; needs the extra plot.")] = None
    details: Annotated[str, typer.Option(help="Write every finding to this Parquet directory.")] = ""


@grouped
def audit(
    receipts: Annotated[str, typer.Option(help="Receipts of producers: JSON lines (*.json, *.jsonl) or Parquet.")],
    wanted: AuditOptions,
    past: HistoryOptions,
    spark: SparkOptions,
) -> None:
    """Compare receipts, store and offsets; report lost, duplicated, late, reordered and unread messages.
    Exits with 1 if a kind of --fail-on is found."""
    with explained("audit", verbose=spark.verbose) as quiet:
        from firearrow.spark.lake.storage import for_spark, reach
        from firearrow.spark.pipelines import audit as auditing

        told, began = past.lake_table, time.monotonic()
        with session(spark, quiet) as opened:
            reach(opened, pairs(past.held.storage))
            stored = history(opened, past.store, told)
            given = _receipts(opened, receipts)
            known = _offsets(opened, wanted.offsets, wanted.broker) if wanted.offsets else None
            found = auditing.findings(given, stored, known, auditing.LatenessLimit(wanted.late_ms)).cache()
            rows = [row.asDict() for row in auditing.report(found, given, stored).collect()]
            if wanted.details:
                found.write.mode("overwrite").parquet(for_spark(wanted.details))
    _print_report(rows)
    typer.echo(closing(f"audit: {_totals(rows)}", began))
    if wanted.page is not None:
        from firearrow.spark.pipelines.audit_page import page as page_of

        wanted.page.write_text(page_of(rows))
    if wanted.plot is not None:
        _draw(rows, wanted.plot)
    kinds = [kind.strip() for kind in wanted.fail_on.split(",") if kind.strip()]
    if any(row[kind] for row in rows for kind in kinds):
        raise typer.Exit(1)


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
