"""``python -m campaigns.failover``: failovers of a real group of three, one after another; goes on where it stopped.

Three brokers, three machines of etcd and a producer on loopback. The master is killed (SIGKILL) or frozen (SIGSTOP) in
turn; afterwards every acknowledged message must be there, in the order of each queue. Prints how long nothing was
acknowledged.
"""

import argparse
import asyncio
import json
import sys
from statistics import quantiles

import msgspec

from campaigns.failover.failovers import Outcome, failover
from campaigns.failover.real_group import RealGroup
from campaigns.faults.ledger import DEFAULT_PATH, Ledger

FAULTS = ("kill", "freeze")


def main() -> int:
    """Run failovers; return 1 when something acknowledged was lost or out of order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5, help="failovers, those that the ledger has included")
    parser.add_argument("--ledger", action="store_true", help=f"append outcomes to {DEFAULT_PATH}")
    given = parser.parse_args()
    ledger = Ledger("failover", DEFAULT_PATH if given.ledger else None)
    done = len(ledger.done())
    outcomes = list[Outcome]()
    while done + len(outcomes) < given.count:
        fault = FAULTS[(done + len(outcomes)) % len(FAULTS)]
        with RealGroup() as group:
            outcomes.append(asyncio.run(failover(group, fault)))
        print(json.dumps(ledger.add(msgspec.to_builtins(outcomes[-1]))), flush=True)  # noqa: T201
    for fault in FAULTS:
        gaps = sorted(one.gap_s for one in outcomes if one.fault == fault)
        if len(gaps) > 1:
            p50, p99 = (quantiles(gaps, n=100)[at] for at in (49, 98))
            print(f"{fault}: {len(gaps)} failovers, no acknowledgement for p50 {p50:.2f} s, p99 {p99:.2f} s")  # noqa: T201
    return int(any(one.lost or one.out_of_order for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
