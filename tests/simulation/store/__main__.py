"""Open as many crash states as you have patience for: ``python -m tests.simulation.store --states 1000000 --ledger``.

With ``--whole`` they are states of the whole store, with its queues, its index and the offsets of groups and delays,
six times as slow; else of the log alone.

With ``--ledger`` every piece is recorded with its seeds, and the same command goes on behind the last seed that the
ledger has of this commit. Without it the last line printed says where to go on with ``--from-seed``. A failure prints
its seed, and ``--from-seed N --seeds 1`` shows it again.
"""

import argparse
import json
import logging
import time
from collections import Counter

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from tests.simulation.store.crashes import explore
from tests.simulation.store.wholes import explore_whole

REPORT_SECONDS = 10.0
PIECE_SECONDS = 300.0
FIRST_SEED = 1_000_000


class Exploration:
    """Seed after seed, in pieces."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._ledger = Ledger("store-whole-states" if options.whole else "store-states", options.ledger)
        done = [] if options.from_seed is not None else self._ledger.done()
        self.states = sum(entry["states"] for entry in done)
        self.seed = max((entry["to_seed"] for entry in done), default=options.from_seed or FIRST_SEED)
        self._first = self._piece_from = self.seed
        self._counts: Counter[str] = Counter()
        self._began = self._piece_began = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether enough was done, or the time is up."""
        options = self._options
        return (
            self.states >= options.states
            or (options.seeds is not None and self.seed >= self._first + options.seeds)
            or (options.minutes is not None and time.monotonic() - self._began > options.minutes * 60)
        )

    def step(self) -> None:
        """One more seed."""
        options = self._options
        try:
            found = explore_whole(self.seed) if options.whole else explore(self.seed, per_call=options.per_call)
        except BaseException:
            print(f"seed {self.seed} failed or was interrupted after {self.states} good states")
            self.record()
            raise
        self._counts += found
        self.states += found["states"]
        self.seed += 1
        if time.monotonic() - self._piece_began > PIECE_SECONDS:
            self.record()

    def record(self) -> None:
        """End a piece."""
        if self.seed > self._piece_from:
            seeds = {"from_seed": self._piece_from, "to_seed": self.seed}
            print(json.dumps(self._ledger.add(seeds | dict(self._counts))), flush=True)
        self._counts = Counter()
        self._piece_from, self._piece_began = self.seed, time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.store", description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000, help="stop after so many crash states")
    parser.add_argument("--seeds", type=int, default=None, help="or after so many seeds")
    parser.add_argument("--minutes", type=float, default=None, help="or after so many minutes")
    parser.add_argument("--from-seed", type=int, default=None, help=f"the first seed [{FIRST_SEED}, or the ledger's]")
    parser.add_argument("--per-call", type=int, default=4, help="states tried before each call to the disk")
    parser.add_argument("--whole", action="store_true", help="states of the whole store instead of the log alone")
    parser.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
    logging.disable(logging.CRITICAL)
    exploration = Exploration(parser.parse_args())
    last_report = time.monotonic()
    while not exploration.is_over:
        exploration.step()
        if time.monotonic() - last_report > REPORT_SECONDS:
            last_report = time.monotonic()
            print(f"{exploration.states} states, next --from-seed {exploration.seed}", flush=True)
    exploration.record()
    print(f"{exploration.states} states, 0 lost, 0 unopenable; next --from-seed {exploration.seed}")


if __name__ == "__main__":
    main()
