"""`python -m benchmarks.spark`: the sources beside Spark's Kafka connector and its own Parquet, with the same rows.

    python -m benchmarks.spark --prepare                    make the stores, Kafka's topics and the Parquet files
    python -m benchmarks.spark                              every row that has no figures yet, then table and plot
    python -m benchmarks.spark --rows store-100,kafka-100   some rows

Each row is a process of its own with PySpark 4.2.1 on two cores: one run to warm up, then RUNS that count. Figures are
kept in OUTPUT/figures.json, so a run can be broken off and repeated; --again measures anew. A live topic is served by
a broker in a process of its own, whose CPU is told apart from Spark's.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.spark.kafka import Kafka, connector_jars
from firearrow.admin import Admin
from firearrow.blocking import Message, Producer, PullConsumer
from firearrow.testing.apache import ApacheBroker, ApacheNameServer
from tests.spark.serving import Served, served
from tests.spark.versions import environment

ROOT = Path(__file__).parents[2]
SPARK = "4.2.1"
MESSAGES = {100: 1_000_000, 1024: 400_000}
QUEUES = 8
NARROW_ROWS = 200_000
GOALS = {"store": 2.0, "live": 1.5}

Figures = dict[str, Any]


def topic_of(body: int) -> str:
    return f"bench-{body}"


ROWS: dict[str, dict[str, Any]] = {}
for _body in MESSAGES:
    for _source in ("kafka", "store", "live", "parquet"):
        ROWS[f"{_source}-{_body}"] = {"source": _source, "body": _body}
        if _source != "kafka":
            ROWS[f"{_source}-all-{_body}"] = {"source": _source, "body": _body, "all": True}
    ROWS[f"kafka-stream-{_body}"] = {"source": "kafka", "body": _body, "stream": True}
    ROWS[f"live-stream-{_body}"] = {"source": "live", "body": _body, "stream": True}
    ROWS[f"apache-{_body}"] = {"source": "apache", "body": _body}
ROWS["queues-1"] = {"source": "live", "topic": "bench-queues-1", "stream": True, "messages": NARROW_ROWS}
ROWS["queues-64"] = {"source": "live", "topic": "bench-queues-64", "stream": True, "messages": NARROW_ROWS}
ROWS["latency"] = {"source": "live", "topic": "bench-latency", "latency": True}


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def measured(order: dict[str, Any]) -> Figures:
    """Let a process with PySpark 4.2.1 do what an order says."""
    python = environment(SPARK).install() / "bin" / "python"
    words = [str(python), "-m", "benchmarks.spark.measured", json.dumps(order)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"{order} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    found: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return found


class Places:
    """Where everything lies, and what is running."""

    def __init__(self, output: Path, stack: ExitStack) -> None:
        self.output = output
        self._stack = stack
        self._ours: Served | None = None
        self._kafka: Kafka | None = None
        self._apache: ApacheBroker | None = None

    @property
    def store(self) -> Path:
        """The directory that holds the log: a development broker keeps it below its own."""
        return next((self.output / "store").rglob("commitlog")).parent

    def ours(self) -> Served:
        """Our broker."""
        if self._ours is None:
            self._ours = self._stack.enter_context(served(self.output / "store"))
        return self._ours

    def kafka(self) -> Kafka:
        """Kafka."""
        if self._kafka is None:
            self._kafka = self._stack.enter_context(Kafka(self.output / "kafka", QUEUES))
        return self._kafka

    def apache(self) -> ApacheBroker:
        """Apache's broker, filled anew."""
        if self._apache is None:
            names = self._stack.enter_context(ApacheNameServer("5.5.0"))
            self._apache = self._stack.enter_context(ApacheBroker("5.5.0", name_servers=[names.address], measured=True))
        return self._apache

    def order(self, row: dict[str, Any]) -> dict[str, Any]:
        """What a process must know to measure a row."""
        topic = row.get("topic") or topic_of(row["body"])
        order: dict[str, Any] = {**row, "topic": topic}
        if row["source"] == "kafka":
            return {**order, "address": self.kafka().address, "pid": self.kafka().pid, "jars": connector_jars()}
        if row["source"] == "store":
            return {**order, "path": str(self.store)}
        if row["source"] == "parquet":
            return {**order, "path": str(self.output / f"parquet-{row['body']}")}
        if row["source"] == "apache":
            address = self.apache().name_servers[0]
            fill(address, topic, row["body"], MESSAGES[row["body"]] // 5)
            return {**order, "address": address, "pid": self.apache().pid, "messages": MESSAGES[row["body"]] // 5}
        return {**order, "address": self.ours().name_server, "pid": self.ours().pid}


def fill(address: str, topic: str, body: int, count: int, queues: int = QUEUES) -> None:
    """Send unique random bodies with keys, to all queues in turn."""

    async def create() -> None:
        async with Admin(address) as admin:
            if not await admin.topics.exists(topic):
                await admin.topics.create(topic, queues=queues)

    asyncio.run(create())
    chance, size = random.Random(7), max(1, min(1000, (1 << 20) // (body + 150)))
    with PullConsumer(address, group="bench-looking") as looker:
        targets = sorted(looker.queues(topic))
    with Producer(address, group="bench", send_timeout_ms=30_000) as producer:
        for start in range(0, count, size):
            numbers = range(start, min(start + size, count))
            queue = targets[start // size % queues]
            some = [Message.of(topic, chance.randbytes(body), tag="t", keys=[f"order-{each:09d}"]) for each in numbers]
            producer.send_batch(some, queue=queue)


def prepare(places: Places) -> None:
    """The same rows everywhere."""
    if not (places.output / "filled").exists():
        address = places.ours().name_server
        for body, count in MESSAGES.items():
            say(f"{count} messages of {body} bytes into our broker")
            fill(address, topic_of(body), body, count)
        for queues in (1, 64):
            fill(address, f"bench-queues-{queues}", 100, NARROW_ROWS, queues)
        fill(address, "bench-latency", 100, 1, 4)
        (places.output / "filled").touch()
    for body in MESSAGES:
        target = places.output / f"parquet-{body}"
        if not target.exists():
            say(f"the same as Parquet, {body} bytes")
            order = {"prepare": "parquet", "topic": topic_of(body), "path": str(places.store), "to": str(target)}
            measured(order)
        mark = places.output / f"kafka-{body}"
        if not mark.exists():
            say(f"the same in Kafka, {body} bytes")
            jars, address = connector_jars(), places.kafka().address
            measured(
                {
                    "prepare": "kafka",
                    "topic": topic_of(body),
                    "path": str(places.store),
                    "address": address,
                    "jars": jars,
                }
            )
            mark.touch()


def trickle(address: str, seconds: float) -> None:
    """A thousand messages a second, in small batches."""
    until = time.monotonic() + seconds
    with Producer(address, group="bench") as producer:
        while time.monotonic() < until:
            producer.send_batch([Message.of("bench-latency", b"x" * 100) for _ in range(50)])
            time.sleep(0.05)


def measure(places: Places, name: str, runs: int) -> Figures:
    """One row."""
    row = ROWS[name]
    order = {**places.order(row), "runs": runs}
    if row.get("latency"):
        feeding = threading.Thread(target=trickle, args=(order["address"], 50), daemon=True)
        feeding.start()
        return measured({**order, "seconds": 25, "uds": True})
    found = measured(order)
    count = order.get("messages") or MESSAGES[row["body"]]
    seconds = [run["s"] for run in found["runs"]]
    return {
        "rows": count,
        "k_rows_s": [count / each / 1000 for each in seconds],
        "spark_cpu_s_per_million": statistics.median(run["spark_cpu_s"] for run in found["runs"]) / count * 1e6,
        "broker_cpu_s_per_million": statistics.median(run["broker_cpu_s"] for run in found["runs"]) / count * 1e6,
    }


def table(figures: Figures) -> str:
    """Everything that is known, with the goals."""
    lines = [
        f"{'row':20} {'k rows/s':>9} {'min-max':>15} {'Spark CPU':>10} {'broker CPU':>11}   (CPU in s per million rows)"
    ]
    for name, each in figures.items():
        if "p50_ms" in each:
            lines.append(f"{name:20} p50 {each['p50_ms']:.0f} ms, p99 {each['p99_ms']:.0f} ms of {each['rows']} rows")
            continue
        rates = each["k_rows_s"]
        spread = f"{min(rates):,.0f}-{max(rates):,.0f}"
        cpu = f"{each['spark_cpu_s_per_million']:10.2f} {each['broker_cpu_s_per_million']:11.2f}"
        lines.append(f"{name:20} {statistics.median(rates):9,.0f} {spread:>15} {cpu}")
    return "\n".join([*lines, *goals(figures)])


def goals(figures: Figures) -> list[str]:
    """The goals that can be judged."""

    def rate(name: str) -> float:
        return float(statistics.median(figures[name]["k_rows_s"]))

    lines = []
    for source, bound in GOALS.items():
        for body in MESSAGES:
            ours, theirs = f"{source}-{body}", f"kafka-{body}"
            if ours in figures and theirs in figures:
                times = rate(ours) / rate(theirs)
                cpu = figures[ours]["spark_cpu_s_per_million"] / figures[theirs]["spark_cpu_s_per_million"]
                verdict = "reached" if times >= bound and cpu <= 1 else "MISSED"
                lines.append(f"{ours} {times:.2f}x Kafka's connector (goal {bound}), Spark CPU {cpu:.2f}x: {verdict}")
    if "queues-1" in figures and "queues-64" in figures:
        times = rate("queues-1") / rate("queues-64")
        lines.append(f"64 queues take {times:.2f}x the time of 1 (goal 1.5): {'reached' if times <= 1.5 else 'MISSED'}")
    return lines


def plot(figures: Figures, path: Path) -> None:
    """Bars of rows a second."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {name: each["k_rows_s"] for name, each in figures.items() if "k_rows_s" in each}
    picture, axes = pyplot.subplots(figsize=(9, 0.35 * len(shown) + 1.5))
    medians = [statistics.median(rates) for rates in shown.values()]
    low = [median - min(rates) for median, rates in zip(medians, shown.values(), strict=True)]
    high = [max(rates) - median for median, rates in zip(medians, shown.values(), strict=True)]
    axes.barh(list(shown), medians, xerr=[low, high], color="#3b6ea5")
    axes.invert_yaxis()
    axes.set_xlabel("thousand rows a second, median and range")
    picture.tight_layout()
    picture.savefig(path, dpi=120)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help=", ".join(ROWS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench-spark")
    parser.add_argument("--prepare", action="store_true", help="make the rows and measure nothing")
    parser.add_argument("--again", action="store_true", help="measure rows that have figures already")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    kept = options.output / "figures.json"
    figures: Figures = json.loads(kept.read_text()) if kept.exists() else {}
    with ExitStack() as stack:
        places = Places(options.output, stack)
        prepare(places)
        wanted = [name for name in options.rows.split(",") if name] or list(ROWS)
        for name in [] if options.prepare else wanted:
            if name not in figures or options.again:
                say(name)
                figures[name] = measure(places, name, options.runs)
                kept.write_text(json.dumps(figures, indent=1))
    print(table(figures))
    if figures:
        plot(figures, options.output / "sources.png")


if __name__ == "__main__":
    main()
