"""The tables, charts and pages of a report, all of it from the file of figures."""

import os
import platform
import subprocess
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.spark.figures import Figures
from benchmarks.spark.kafka import CONNECTORS, KAFKA
from benchmarks.spark.rows import BODIES, LAKE, PLAIN, ROWS, rows_of
from benchmarks.store.machine import _cpu, _file_system, _version, sync_microseconds

PARTS: Final = {
    "a": f"Reading, PySpark {PLAIN}",
    "b": f"Archiving, PySpark {LAKE} with Iceberg's own runtime 1.12.0 (there is none for {PLAIN})",
    "c": f"Writing, PySpark {PLAIN}",
    "d": f"Many queues in one micro-batch, PySpark {PLAIN}",
    "e": f"From the store to the hand-over of a running stream, a thousand rows a second, PySpark {PLAIN}",
}


class Goal(NamedTuple):
    """The rate that a row must have, in times of another row's, and whether it must cost no more Spark CPU a row."""

    row: str
    other: str
    times: float
    counts_cpu: bool = False


def _goals() -> list[Goal]:
    found = []
    for body in BODIES:
        found += [
            Goal(f"store-{body}", f"kafka-{body}", 2.0, counts_cpu=True),
            Goal(f"live-{body}", f"kafka-{body}", 1.5, counts_cpu=True),
            Goal(f"live-stream-{body}", f"kafka-stream-{body}", 1.5, counts_cpu=True),
            Goal(f"store-{body}", f"kafka-tuned-{body}", 2.0, counts_cpu=True),
            Goal(f"live-{body}", f"kafka-tuned-{body}", 1.5, counts_cpu=True),
            Goal(f"live-stream-{body}", f"kafka-tuned-stream-{body}", 1.5, counts_cpu=True),
            Goal(f"live-iceberg-{body}", f"kafka-iceberg-{body}", 1.0),
            Goal(f"live-iceberg-{body}", f"kafka-tuned-iceberg-{body}", 1.0),
            Goal(f"live-iceberg-python-{body}", f"kafka-iceberg-{body}", 1.0),
            Goal(f"live-iceberg-{body}", f"parquet-parquet-{body}", 0.9),
            Goal(f"live-iceberg-python-{body}", f"parquet-parquet-{body}", 0.9),
            Goal(f"store-iceberg-{body}", f"parquet-parquet-{body}", 0.9),
            Goal(f"store-iceberg-python-{body}", f"parquet-parquet-{body}", 0.9),
        ]
    return [*found, Goal("queues-64", "queues-1", 1 / 1.5)]


GOALS: Final = _goals()


def heading(directory: Path, size: int, versions: dict[str, Any]) -> list[str]:
    """Everything that the figures depend on."""
    p50, p99 = sync_microseconds(str(directory))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    large = rows_of(size, BODIES[1])
    return [
        (
            f"{_cpu()}, {os.cpu_count()} CPUs, {memory:.0f} GiB, Linux {platform.release()}, "
            f"{_file_system(str(directory))}, fdatasync p50 {p50 / 1000:.2f} ms p99 {p99 / 1000:.2f} ms"
        ),
        (
            f"Spark local[2] with 2 GiB, Java {versions['java']}, Python {platform.python_version()}, "
            f"pyarrow {versions['pyarrow']}, numpy {versions['numpy']}, uvloop {_version('uvloop')}, "
            f"FireArrow {commit.stdout.strip() or _version('firearrow')}"
        ),
        (
            f"Kafka {KAFKA}, one node with 1 GiB, 8 partitions; Spark's connector {CONNECTORS[PLAIN]} on {PLAIN} and "
            f"{CONNECTORS[LAKE]} on {LAKE}; Apache RocketMQ 5.5.0"
        ),
        f"{size:,} rows of 100 random bytes, {large:,} of 1 KiB, 8 queues; a quarter of them on Apache's broker",
    ]


def table(figures: Figures, part: str) -> list[str]:
    """One part as Markdown, which is good to read as it is."""
    names = [name for name, row in ROWS.items() if row.part == part and figures.of(name)]
    if not names:
        return ["Not measured yet."]
    if part == "e":
        lines = ["| | p50 ms | p99 ms | ms a micro-batch |", "|---|---|---|---|"]
        return lines + [_latency_line(figures, name) for name in names]
    lines = ["| | body | k rows/s | min-max | batch alone | Spark CPU | broker CPU |", "|---|---|---|---|---|---|---|"]
    return lines + [_rate_line(figures, name) for name in names]


def _rate_line(figures: Figures, name: str) -> str:
    rates, row = figures.rates(name), ROWS[name]
    broker = figures.cpu(name, "broker_cpu_s")
    alone = [turn.rows / turn.batch_s / 1000 for turn in figures.of(name) if turn.batch_s]
    return (
        f"| {row.says} | {row.body} | {median(rates):,.0f} | {min(rates):,.0f}-{max(rates):,.0f} "
        f"| {f'{median(alone):,.0f}' if alone else '-'} "
        f"| {figures.cpu(name):.2f} | {f'{broker:.2f}' if broker else '-'} |"
    )


def _latency_line(figures: Figures, name: str) -> str:
    turns = figures.of(name)
    p50, p99 = [turn.p50_ms for turn in turns], [turn.p99_ms for turn in turns]
    each = median(turn.s / max(turn.batches, 1) * 1000 for turn in turns)
    return (
        f"| {ROWS[name].says} | {median(p50):.0f} ({min(p50):.0f}-{max(p50):.0f}) "
        f"| {median(p99):.0f} ({min(p99):.0f}-{max(p99):.0f}) | {each:.0f} |"
    )


def goals(figures: Figures) -> list[str]:
    """The goals that can be judged, as Markdown."""
    lines = ["| | beside | goal | measured | Spark CPU a row | |", "|---|---|---|---|---|---|"]
    for goal in GOALS:
        if not (figures.of(goal.row) and figures.of(goal.other)):
            continue
        times = figures.rate(goal.row) / figures.rate(goal.other)
        cpu = figures.cpu(goal.row) / figures.cpu(goal.other)
        is_reached = times >= goal.times and (cpu <= 1 or not goal.counts_cpu)
        asked = f"{goal.times:.2f}x" + (", no more CPU" if goal.counts_cpu else "")
        verdict = "reached" if is_reached else "missed"
        lines.append(f"| {goal.row} | {goal.other} | {asked} | {times:.2f}x | {cpu:.2f}x | {verdict} |")
    return lines if len(lines) > 2 else ["Not measured yet."]


def text(figures: Figures) -> str:
    """Everything, for the console."""
    lines = [f"- {line}" for line in figures.heading]
    for part, title in PARTS.items():
        lines += ["", f"({part}) {title}", *table(figures, part)]
    lines += ["", "Goals", *goals(figures)]
    return "\n".join([*lines, *(f"FAILED {name}: {why[:200]}" for name, why in figures.failures.items())])


def plot(figures: Figures, path: Path) -> None:
    """Bars of rows a second, median and range."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [name for name, row in ROWS.items() if row.part != "e" and figures.of(name)]
    if not shown:
        return
    picture, axes = plt.subplots(figsize=(10, 0.3 * len(shown) + 1.5))
    rates = [figures.rates(name) for name in shown]
    middles = [median(each) for each in rates]
    low = [middle - min(each) for middle, each in zip(middles, rates, strict=True)]
    high = [max(each) - middle for middle, each in zip(middles, rates, strict=True)]
    colors = {"kafka": "#b5651d", "parquet": "#888888", "made": "#6a9f58"}
    axes.barh(shown, middles, xerr=[low, high], color=[colors.get(ROWS[each].source, "#3b6ea5") for each in shown])
    axes.invert_yaxis()
    axes.set_xlabel("thousand rows a second, median and range")
    axes.set_title(figures.heading[0] if figures.heading else "", fontsize=7)
    picture.tight_layout()
    picture.savefig(path, dpi=110)
    plt.close(picture)
