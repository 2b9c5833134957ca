"""``python -m campaigns.failover.model``: search the rules of failover, then hunt every planted mutant of them."""

import argparse
import sys
import time

from campaigns.failover.model.hunts import BOUNDS
from campaigns.failover.model.rules import MUTANTS, Rules
from campaigns.failover.model.search import Found, search
from campaigns.failover.model.steps import Bounds


def main() -> int:
    """Search and print; return 1 when the rules break a promise or a mutant escapes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=400_000, help="most states of one search")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--changes", type=int, default=4, help="changes of the group's state")
    parser.add_argument("--records", type=int, default=2)
    parser.add_argument("--deaths", type=int, default=2)
    given = parser.parse_args()
    bounds = Bounds(epochs=given.epochs, changes=given.changes, records=given.records, deaths=given.deaths)
    failed = False
    for syncs in (True, False):
        name = f"the rules, {'with' if syncs else 'without'} a sync before every acknowledgement"
        failed |= bool(_told(name, bounds._replace(syncs=syncs), Rules(), given.states).broken)
    for name, rules in MUTANTS.items():
        failed |= not _told(f"mutant: {name}", BOUNDS[name], rules, given.states).broken
    return int(failed)


def _told(name: str, bounds: Bounds, rules: Rules, most_states: int) -> Found:
    before = time.monotonic()
    found = search(bounds, rules, most_states)
    end = "complete" if found.is_complete else "stopped"
    outcome = f"{found.broken} after {len(found.story) + 1} steps" if found.broken else f"{end}, no promise broken"
    seconds = time.monotonic() - before
    print(f"{name}: {found.states} states, depth {found.depth}, {seconds:.1f} s: {outcome}", flush=True)  # noqa: T201
    return found


if __name__ == "__main__":
    sys.exit(main())
