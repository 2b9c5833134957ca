"""Run random clusters or groups from the command line.

``python -m tests.simulation.broker --clusters 2000 --ledger`` runs clusters of lone masters, and
``python -m tests.simulation.broker --failovers 10000 --ledger`` groups of three with a coordinator.

With ``--ledger`` every piece is recorded with its seeds, and the same command goes on behind the last seed that the
ledger has of this commit. ``--from-seed N --clusters 1 -v`` shows one again. Status 1 when a promise was broken.
"""

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from tests.simulation.broker.chaos import is_valid, run_chaos
from tests.simulation.broker.failovers import run_failovers
from tests.simulation.invariants.violations import summary

PIECE = 50
LEAST_ACKNOWLEDGED = 50


class Ran(NamedTuple):
    """One run that kept every promise."""

    counts: Counter[str]
    is_valid: bool
    words: str


class Kind(NamedTuple):
    """The kind of run for every seed."""

    ledger: str
    unit: str
    run: Callable[[int], Ran]


def run_cluster(seed: int) -> Ran:
    history = run_chaos(seed)
    return Ran(history.counts, is_valid(history), summary(history))


def run_group(seed: int) -> Ran:
    counts = run_failovers(seed)
    return Ran(counts, counts["acknowledged"] >= LEAST_ACKNOWLEDGED, str(dict(counts)))


CLUSTERS = Kind("broker-clusters", "clusters", run_cluster)
FAILOVERS = Kind("simulated-failovers", "groups", run_group)


class Campaign:
    """Seed after seed, in pieces."""

    def __init__(self, kind: Kind, ledger: str | None, from_seed: int | None, *, verbose: bool) -> None:
        self._kind = kind
        self._ledger = Ledger(kind.ledger, ledger)
        self._verbose = verbose
        done = [] if from_seed is not None else self._ledger.done()
        self.count = sum(entry[kind.unit] for entry in done)
        self.failed: list[int] = [seed for entry in done for seed in entry["failed_seeds"]]
        self.seed = max((entry["to_seed"] for entry in done), default=from_seed or 0)

    def piece(self, count: int) -> None:
        """Run some seeds and write them down."""
        first, began, failed, invalid = self.seed, time.perf_counter(), [], 0
        counts: Counter[str] = Counter()
        for seed in range(first, first + count):
            ran = self._run(seed)
            if ran is None:
                failed.append(seed)
                continue
            invalid += not ran.is_valid
            counts += ran.counts
        self.seed, self.count, self.failed = first + count, self.count + count, self.failed + failed
        figures = {"from_seed": first, "to_seed": self.seed, self._kind.unit: count, "failed_seeds": failed}
        figures |= {"invalid": invalid, "seconds": round(time.perf_counter() - began), "happened": dict(counts)}
        print(json.dumps(self._ledger.add(figures)), flush=True)

    def _run(self, seed: int) -> Ran | None:
        try:
            ran = self._kind.run(seed)
        except Exception as error:  # noqa: BLE001 - every seed is to be heard
            notes, first = "\n".join(getattr(error, "__notes__", [])[-1:]), _first(error)
            print(f"seed {seed}: {type(first).__name__}: {str(first)[:1500]}\n{notes}", flush=True)
            return None
        if self._verbose:
            print(f"seed {seed}: {ran.words}", flush=True)
        return ran


def _first(error: BaseException) -> BaseException:
    """The first error of a group of tasks, however deep; else the error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.broker", description=__doc__)
    parser.add_argument("--clusters", type=int, default=2_000, help="how many in all, those in the ledger counted")
    parser.add_argument("--failovers", type=int, default=0, help="groups with a coordinator instead, how many in all")
    parser.add_argument("--from-seed", type=int, default=None, help="the first seed [0, or behind the ledger's last]")
    parser.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every seed")
    options = parser.parse_args()
    logging.getLogger("firearrow").propagate = False
    kind, wanted = (FAILOVERS, options.failovers) if options.failovers else (CLUSTERS, options.clusters)
    campaign = Campaign(kind, options.ledger, options.from_seed, verbose=options.verbose)
    while campaign.count < wanted:
        campaign.piece(min(PIECE, wanted - campaign.count))
    print(f"{campaign.count} {kind.unit}, {len(campaign.failed)} broke a promise {campaign.failed}")
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
