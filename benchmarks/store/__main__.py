"""``make bench-store``: the store beside the least that could do the same.

Every row is a ratio taken in one run, its two sides in turn in short slices, so that whatever else the machine does
falls on both; medians count, and ± is half the distance of the quartiles. Exits with 1 when a goal is missed; a quick
run is too short to judge and only shows that everything works.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable

from benchmarks.store import appends, backlog, busydisk, commits, costs, manyqueues, reads, recovery
from benchmarks.store.bench import Bench
from benchmarks.store.machine import machine_line
from benchmarks.store.report import Report
from campaigns.faults.ledger import DEFAULT_PATH, Ledger

ROWS: dict[str, Callable[[Bench], Report]] = {
    "appends": appends.measure,
    "commits": commits.measure,
    "reads": reads.measure,
    "recovery": recovery.measure,
    "costs": costs.measure,
    "queues": manyqueues.measure,
    "busydisk": busydisk.measure,
    "backlog": backlog.measure,
}


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    arguments.add_argument("rows", nargs="*", choices=[*ROWS, []], help="which to run; all unless told")
    arguments.add_argument("--quick", action="store_true", help="a smoke test of less than a minute: no goal is judged")
    arguments.add_argument("--directory", default="build", help="where stores are made: the disk to measure")
    arguments.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append the figures to this file")
    options = arguments.parse_args()
    os.makedirs(options.directory, exist_ok=True)
    bench = Bench(os.path.abspath(options.directory), options.quick)
    print(machine_line(bench.directory), flush=True)
    missed = []
    for name in options.rows or ROWS:
        began = time.monotonic()
        report = ROWS[name](bench)
        print(f"\n{name}: {report.title} ({time.monotonic() - began:.0f} s)")
        for line in report.lines:
            print(f"  {line}")
        for goal in report.goals:
            print(f"  goal: {goal}", flush=True)
        missed += [goal.name for goal in report.goals if not goal.reached]
        Ledger(f"bench-store {name}", options.ledger).add({"quick": options.quick} | report.figures)
    if missed:
        print(f"\nmissed: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed and not options.quick else 0


if __name__ == "__main__":
    raise SystemExit(main())
