"""``firearrow pipeline stats``: what topics, store files or an archive hold, in figures, aggregated by Spark."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firearrow.cli.cluster import AsJson, NameServers
from firearrow.cli.jobs.job_options import HistoryOptions, SparkOptions, pairs, reached
from firearrow.cli.jobs.job_run import closing, explained, session
from firearrow.cli.option_groups import OptionGroup, grouped
from firearrow.cli.tables import print_json, print_table, time_text
from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firearrow.spark.lake.table import LakeTable

Figures = Mapping[str, Any]

SIZES = ("messages", "bytes", "stored bytes", "p50", "p99", "largest")
TABLES = (
    ("Topics", "topic", ()),
    ("Tags", "tag", ("tag",)),
    ("Queues", "queue", ("broker", "queue")),
    ("Hours", "hour", ("hour",)),
)
"""The tables that are printed: title, kind of rows, and the columns that tell the rows of a topic apart."""


@dataclass(frozen=True)
class FigureOptions(OptionGroup):
    """The messages that are counted, and the division of the figures."""

    topics: Annotated[
        str, typer.Option(help="Topics, separated by commas. Without a store or a table: live topics.")
    ] = ""
    by: Annotated[
        str, typer.Option(help="Divide the figures by these, separated by commas; empty: by topic alone.")
    ] = "tag,queue,hour,key"
    top: Annotated[int, typer.Option(min=1, help="Most tags and most keys shown of a topic.")] = 10
    where: Annotated[str, typer.Option(help="SQL condition on the columns of messages.")] = ""


@grouped
def stats(
    context: typer.Context,
    wanted: FigureOptions,
    servers: NameServers = "",
    option: Annotated[list[str] | None, typer.Option(help="An option of the source, key=value; repeatable.")] = None,
    *,
    past: HistoryOptions,
    as_json: AsJson = False,
    spark: SparkOptions,
) -> None:
    """Count messages and bytes of live topics, store files or an archive: sizes, times, tags, queues, hours, keys."""
    with explained("stats", verbose=spark.verbose) as quiet:
        from firearrow.spark.pipelines import stats as statistics

        parts, began = _parts(wanted.by, statistics.PARTS), time.monotonic()
        target = past.held.lake_table if past.held.location or past.held.table else None
        _check(wanted.topics, past.store, target, option)
        source = {} if past.store or target else reached(context, servers)
        options = _source_options(source, past.store, wanted.topics, pairs(option)) if target is None else {}
        with session(spark, quiet) as opened:
            rows = _rows(opened, past.store, target, options, wanted.where)
            if target is not None and wanted.topics:
                rows = rows.where(rows.topic.isin(*_words(wanted.topics)))
            slim = statistics.slim(rows).cache()
            found = [row.asDict() for row in statistics.groups(slim, parts, wanted.top).collect()]
            spread = []
            if statistics.KEY in parts:
                spread = [row.asDict() for row in statistics.key_spread(slim, wanted.top).collect()]
    if as_json:
        print_json({"topics": _documents(found, spread)})
        return
    _print(found, spread)
    messages = sum(row["messages"] for row in found if row["kind"] == statistics.TOPIC)
    typer.echo(closing(f"stats: {messages:,} messages", began))


def _check(topics: str, store: str, target: "LakeTable | None", option: list[str] | None) -> None:
    """Raise ``SettingsError`` if options name several places or none, or belong to another place."""
    if store and target is not None:
        raise SettingsError("--store and a table are two places; give one of them")
    if not (store or target or topics):
        raise SettingsError("say of what: --topics with -n, --store, or a table by --location and --table")
    if target is not None and option:
        raise SettingsError("--option is about topics and store files, not about a table; choose rows by --where")


def _parts(by: str, known: Sequence[str]) -> list[str]:
    parts = _words(by)
    unknown = [part for part in parts if part not in known]
    if unknown:
        raise SettingsError(f"--by has {', '.join(unknown)}; figures are divided by {', '.join(known)}")
    return parts


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _source_options(reach: Mapping[str, str], store: str, topics: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the source, checked before Spark starts."""
    from firearrow.spark.options import source_options, store_options

    subscribed = {"subscribe": topics} if topics else {}
    if store:
        options = {"path": store, "badBodies": "keep", **subscribed, **given}
        store_options(options)
    else:
        options = {**reach, "badBodies": "keep", **subscribed, **given}
        source_options(options, is_stream=False)
    return options


def _rows(
    spark: "SparkSession", store: str, table: "LakeTable | None", options: Mapping[str, str], where: str
) -> "DataFrame":
    """Return whole messages; of topics and store files only the needed columns, unless a condition is given."""
    from firearrow.spark.lake import access
    from firearrow.spark.pipelines.stats import NEEDED
    from firearrow.spark.schema import ddl

    if table is not None:
        rows = access.read(spark, table)
    else:
        reader = spark.read.format("rocketmq-store" if store else "rocketmq").options(**options)
        rows = (reader if where else reader.schema(ddl(NEEDED))).load()
    return rows.where(where) if where else rows


def _documents(found: Sequence[Figures], spread: Sequence[Figures]) -> list[dict[str, Any]]:
    """Return the figures of topics, for programs."""
    documents = []
    for whole in (row for row in found if row["kind"] == "topic"):
        keys = [row for row in spread if row["topic"] == whole["topic"]]
        listed = _lists([row for row in found if row["topic"] == whole["topic"]])
        document = {"topic": whole["topic"], **_figures(whole), **listed}
        documents.append(document | ({"keys": _keys(keys)} if keys else {}))
    return documents


def _lists(found: Sequence[Figures]) -> dict[str, list[dict[str, Any]]]:
    """Return the figures of one topic's parts: tags, queues and hours, as far as there are some."""
    lists = {}
    for kind, name, columns in (
        ("tag", "tags", {"tag": "tag"}),
        ("queue", "queues", {"broker": "broker", "queue_id": "queue"}),
        ("hour", "hours", {"hour": "hour"}),
    ):
        listed = [row for row in found if row["kind"] == kind]
        if listed:
            lists[name] = [{name: row[key] for key, name in columns.items()} | _figures(row) for row in listed]
    return lists


def _figures(row: Figures) -> dict[str, Any]:
    return {
        "messages": row["messages"],
        "bytes": row["bytes"],
        "storedBytes": row["stored_bytes"],
        "size": {"p50": row["p50"], "p99": row["p99"], "max": row["largest"]},
        "first": row["first"],
        "last": row["last"],
    }


def _keys(keys: Sequence[Figures]) -> dict[str, Any]:
    return {
        "different": keys[0]["keys"],
        "messages": keys[0]["keyed"],
        "skew": _skew(keys[0]),
        "top": [{"key": row["key"], "messages": row["messages"], "share": _share(row)} for row in keys],
    }


def _skew(first: Figures) -> float:
    """Return how many times the messages of an average key the largest key has."""
    return round(float(first["messages"] * first["keys"] / first["keyed"]), 2)


def _share(row: Figures) -> float:
    return round(float(row["messages"] / row["keyed"]), 4)


def _print(found: Sequence[Figures], spread: Sequence[Figures]) -> None:
    for title, kind, names in TABLES:
        times = () if kind == "hour" else ("first", "last")
        rows = [
            (row["topic"], *_place(row, kind), *_cells(row), *(_times(row) if times else ()))
            for row in found
            if row["kind"] == kind
        ]
        if rows or kind == "topic":
            print_table(title, ["topic", *names, *SIZES, *times], rows)
    if spread:
        rows = [
            (
                row["topic"],
                row["key"],
                row["messages"],
                f"{_share(row):.2%}",
                row["keys"],
                _skew(_first_of(spread, row)),
            )
            for row in spread
        ]
        print_table("Keys", ["topic", "key", "messages", "share", "different keys", "skew"], rows)


def _place(row: Figures, kind: str) -> tuple[object, ...]:
    """Return what tells the part of a topic that a row is about."""
    if kind == "hour":
        return (time_text(row["hour"])[:13] + "Z",)
    return {"topic": (), "tag": (row["tag"] or "-",), "queue": (row["broker"], row["queue_id"])}[kind]


def _first_of(spread: Sequence[Figures], row: Figures) -> Figures:
    """Return the row of the key with most messages of a topic."""
    return next(other for other in spread if other["topic"] == row["topic"])


def _cells(row: Figures) -> tuple[int, ...]:
    return tuple(row[name.replace(" ", "_")] or 0 for name in SIZES)


def _times(row: Figures) -> tuple[str, str]:
    return time_text(row["first"] or 0), time_text(row["last"] or 0)
