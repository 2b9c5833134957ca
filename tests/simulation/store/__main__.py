"""Open as many crash states as you have patience for: ``python -m tests.simulation.store --states 1000000``.

With ``--whole`` they are states of the whole store, with its queues, its index and the offsets of groups and delays,
six times as slow; else of the log alone.

Progress is a seed: the last line printed says where to go on with ``--from-seed`` after an interruption. A failure
prints its seed, and ``--from-seed N --seeds 1`` shows it again.
"""

import argparse
import logging
import time
from collections import Counter

from tests.simulation.store.crashes import explore
from tests.simulation.store.wholes import explore_whole

REPORT_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.store", description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000, help="stop after so many crash states")
    parser.add_argument("--seeds", type=int, default=None, help="or after so many seeds")
    parser.add_argument("--from-seed", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--per-call", type=int, default=4, help="states tried before each call to the disk")
    parser.add_argument("--whole", action="store_true", help="states of the whole store instead of the log alone")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    counts: Counter[str] = Counter()
    seed, last_report = options.from_seed, time.monotonic()
    while counts["states"] < options.states and (options.seeds is None or seed < options.from_seed + options.seeds):
        try:
            counts += explore_whole(seed) if options.whole else explore(seed, per_call=options.per_call)
        except BaseException:
            print(f"seed {seed} failed after {counts['states']} good states")
            raise
        seed += 1
        if time.monotonic() - last_report > REPORT_SECONDS:
            last_report = time.monotonic()
            print(f"{counts['states']} states, go on with --from-seed {seed}", flush=True)
    print(f"{dict(counts)}\n{counts['states']} states, 0 lost, 0 unopenable; go on with --from-seed {seed}")


if __name__ == "__main__":
    main()
