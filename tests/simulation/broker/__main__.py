"""Run random clusters from the command line: ``python -m tests.simulation.broker --clusters 2000 --ledger``.

With ``--ledger`` every piece is recorded with its seeds, and the same command goes on behind the last seed that the
ledger has of this commit. ``--from-seed N --clusters 1 -v`` shows one again. Status 1 when a promise was broken.
"""

import argparse
import json
import logging
import sys
import time
from collections import Counter

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from firearrow.testing.sim.history import History
from firearrow.testing.sim.invariants import summary
from tests.simulation.broker.chaos import is_valid, run_chaos

PIECE = 50


class Campaign:
    """Seed after seed, in pieces."""

    def __init__(self, ledger: str | None, from_seed: int | None, *, verbose: bool) -> None:
        self._ledger = Ledger("broker-clusters", ledger)
        self._verbose = verbose
        done = [] if from_seed is not None else self._ledger.done()
        self.clusters = sum(entry["clusters"] for entry in done)
        self.failed: list[int] = [seed for entry in done for seed in entry["failed_seeds"]]
        self.seed = max((entry["to_seed"] for entry in done), default=from_seed or 0)

    def piece(self, count: int) -> None:
        """Run some clusters and write them down."""
        first, began, failed, invalid = self.seed, time.perf_counter(), [], 0
        counts: Counter[str] = Counter()
        for seed in range(first, first + count):
            history = self._run(seed)
            if history is None:
                failed.append(seed)
                continue
            invalid += not is_valid(history)
            counts += history.counts
        self.seed, self.clusters, self.failed = first + count, self.clusters + count, self.failed + failed
        figures = {"from_seed": first, "to_seed": self.seed, "clusters": count, "failed_seeds": failed}
        figures |= {"invalid": invalid, "seconds": round(time.perf_counter() - began), "happened": dict(counts)}
        print(json.dumps(self._ledger.add(figures)), flush=True)

    def _run(self, seed: int) -> History | None:
        try:
            history = run_chaos(seed)
        except Exception as error:  # noqa: BLE001 - every seed is to be heard
            notes = "\n".join(getattr(error, "__notes__", [])[-1:])
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:1500]}\n{notes}", flush=True)
            return None
        if self._verbose:
            print(f"seed {seed}: {summary(history)}", flush=True)
        return history


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.broker", description=__doc__)
    parser.add_argument("--clusters", type=int, default=2_000, help="how many in all, those in the ledger counted")
    parser.add_argument("--from-seed", type=int, default=None, help="the first seed [0, or behind the ledger's last]")
    parser.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every cluster")
    options = parser.parse_args()
    logging.getLogger("firearrow").propagate = False
    campaign = Campaign(options.ledger, options.from_seed, verbose=options.verbose)
    while campaign.clusters < options.clusters:
        campaign.piece(min(PIECE, options.clusters - campaign.clusters))
    print(f"{campaign.clusters} clusters, {len(campaign.failed)} broke a promise {campaign.failed}")
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
