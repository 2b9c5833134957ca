"""Run seeds from the command line: ``python -m tests.simulation.broker FIRST COUNT``."""

import logging
import sys
import time
from collections import Counter

from firearrow.testing.sim.invariants import summary
from tests.simulation.broker.chaos import is_valid, run_chaos


def main() -> None:
    """Run and print."""
    logging.getLogger("firearrow").propagate = False
    first, count = int(sys.argv[1]), int(sys.argv[2])
    total: Counter[str] = Counter()
    failed, invalid, start = [], 0, time.perf_counter()
    for seed in range(first, first + count):
        try:
            history = run_chaos(seed)
        except Exception as error:  # noqa: BLE001 - every seed is to be heard
            failed.append(seed)
            notes = "\n".join(getattr(error, "__notes__", [])[-1:])
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:1500]}\n{notes}", flush=True)
            continue
        total += history.counts
        invalid += not is_valid(history)
        if "-v" in sys.argv:
            print(f"seed {seed}: {summary(history)}", flush=True)
    passed = time.perf_counter() - start
    print(f"{count} seeds, {len(failed)} failed {failed}, {invalid} invalid, {passed:.1f} s")
    print(", ".join(f"{name} {number}" for name, number in sorted(total.items())))


if __name__ == "__main__":
    main()
