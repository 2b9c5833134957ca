"""`python -m benchmarks.spark`: our sources beside Spark's Kafka connector and its own Parquet, with the same rows.

    python -m benchmarks.spark                             everything, three rounds
    python -m benchmarks.spark --rows store-100,kafka-100  some rows
    python -m benchmarks.spark --small                     a smoke run with few rows and one round
    python -m benchmarks.spark --show                      what is known, nothing is measured
    python -m benchmarks.spark --page                      write the page of the documentation from what is known

Rows, brokers' data and figures are kept in OUTPUT. A turn (one row in one round) that is in OUTPUT/figures.json is not
measured again, so a run can be broken off and repeated; --again forgets the turns of the rows. A row that fails is
told and passed over.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.spark.figures import Figures, Turn
from benchmarks.spark.page import write_page
from benchmarks.spark.places import Places, fed, say
from benchmarks.spark.report import heading, plot, text
from benchmarks.spark.rows import PLAIN, ROWS, SESSIONS, Row
from benchmarks.spark.sessions import OrderFailed, Session

OUTPUT = Path("build") / "bench-spark"
SIZE = 2_500_000
SMALL = 20_000
WARM_TURNS = 2


class Run:
    """A measured row, and the facts about it."""

    def __init__(self, places: Places, figures: Figures, rounds: int) -> None:
        self._places = places
        self._figures = figures
        self._rounds = rounds
        self._path = places.output / "figures.json"

    def session(self, name: str, rows: list[Row]) -> None:
        """All turns that are missing of the rows of one session, round by round."""
        rows = [row for row in rows if len(self._figures.of(row.name)) < self._rounds]
        if not rows:
            return
        with Session(name, self._places.output) as session:
            say(f"Spark {name}")
            versions = session.ask({"do": "hello"})
            if name == PLAIN or not self._figures.heading:
                self._figures.heading = heading(self._places.output, self._places.size, versions)
            self._check(session, rows)
            for row in rows:
                say(f"warming up {row.name}")
                self._guarded(row, partial(self._warm_up, session, row))
            for number in range(self._rounds):
                for row in rows:
                    if len(self._figures.of(row.name)) <= number and row.name not in self._figures.failures:
                        self._guarded(row, partial(self._turn, session, row, number))

    def _guarded(self, row: Row, work: Callable[[], None]) -> None:
        try:
            work()
        except OrderFailed as failure:
            say(f"{row.name} FAILED: {failure}")
            self._figures.failures[row.name] = str(failure)
        self._figures.write(self._path)

    def _warm_up(self, session: Session, row: Row) -> None:
        if row.sink == "latency":
            return
        if row.sink in ("topic", "bare", "kafka"):
            session.ask(self._places.order(row))
            return
        for _ in range(WARM_TURNS):
            session.ask(self._places.order(row, warming=True))

    def _turn(self, session: Session, row: Row, number: int) -> None:
        order = self._places.order(row)
        feeding = fed(order["address"]) if row.sink == "latency" and row.source == "live" else nullcontext()
        with feeding:
            found = session.ask(order)
        turn = msgspec.convert({"rows": order["count"], **found}, Turn)
        self._figures.turns.setdefault(row.name, []).append(turn)
        if turn.p50_ms:
            say(f"{row.name}, round {number + 1}: p50 {turn.p50_ms:.0f} ms, p99 {turn.p99_ms:.0f} ms")
            return
        rate, cpu, broker = (turn.rows / turn.s / 1000, turn.spark_cpu_s, turn.broker_cpu_s)
        say(f"{row.name}, round {number + 1}: {rate:,.0f} k rows/s, {turn.s:.2f} s, CPU {cpu:.1f} and {broker:.1f} s")

    def _check(self, session: Session, rows: list[Row]) -> None:
        """Count the rows of every source, all of them read; those that do not change only once."""
        for row in rows:
            name = f"{row.source} {row.topic_name}"
            is_plain = row.sink == "noop" and not row.whole and not row.stream and not row.tuned
            if is_plain and not (row.source in ("kafka", "parquet") and name in self._figures.checked):
                self._guarded(row, partial(self._count, session, name, row))

    def _count(self, session: Session, name: str, row: Row) -> None:
        order = self._places.order(row) | {"do": "count"}
        found = session.ask(order)
        if found["rows"] != order["count"] or found["bytes"] != order["count"] * row.body:
            raise OrderFailed(f"{name} holds {found}, not {order['count']} rows; remove {self._places.output}")
        self._figures.checked[name] = found["rows"]
        say(f"{name}: {found['rows']} rows, as it should be")


def measure(options: argparse.Namespace, figures: Figures, rows: list[Row]) -> None:
    """Make the rows, then measure what is missing."""
    if figures.size not in (0, options.size):
        raise SystemExit(f"{options.output} holds figures of {figures.size} rows: choose another --output")
    figures.size = options.size
    figures.failures = {name: why for name, why in figures.failures.items() if name in ROWS}
    for row in rows:
        figures.failures.pop(row.name, None)
        if options.again:
            figures.turns.pop(row.name, None)
    with Places(options.output, options.size) as places:
        places.prepare([row for row in rows if len(figures.of(row.name)) < options.rounds])
        run = Run(places, figures, options.rounds)
        for name in SESSIONS:
            run.session(name, [row for row in rows if row.session == name])


def show(output: Path, figures: Figures) -> None:
    """The table, and the picture beside the figures."""
    print(text(figures))
    plot(figures, output / "spark.png")
    print(f"\nplot {output / 'spark.png'}, figures {output / 'figures.json'}")


def parsed() -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="rows by name, divided by commas: " + ", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=SIZE, help="rows of 100 bytes; of 1 KiB it is a quarter")
    parser.add_argument("--output", type=Path, default=None, help=f"directory of what is written [{OUTPUT}]")
    parser.add_argument("--small", action="store_true", help=f"{SMALL} rows and one round, to see that all works")
    parser.add_argument("--prepare", action="store_true", help="make the rows and measure nothing")
    parser.add_argument("--again", action="store_true", help="measure the rows anew")
    parser.add_argument("--show", action="store_true", help="print what was measured, measure nothing")
    parser.add_argument("--page", action="store_true", help="write the page of the documentation, measure nothing")
    options = parser.parse_args()
    if options.small:
        options.size, options.rounds = SMALL, 1
    options.output = (options.output or OUTPUT.with_name(OUTPUT.name + ("-small" if options.small else ""))).resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def main() -> int:
    """Measure what is asked for."""
    options = parsed()
    figures = Figures.read(options.output / "figures.json")
    unknown = [name for name in options.rows.split(",") if name not in ROWS]
    if unknown:
        raise SystemExit(f"there is no row {', '.join(unknown)}; rows are {', '.join(ROWS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are ended too
    began = time.monotonic()
    if options.page:
        write_page(figures)
        return 0
    if not options.show:
        rows = [] if options.prepare else [ROWS[name] for name in options.rows.split(",")]
        measure(options, figures, rows)
        say(f"took {time.monotonic() - began:.0f} s")
    show(options.output, figures)
    return 1 if figures.failures else 0


if __name__ == "__main__":
    sys.exit(main())
