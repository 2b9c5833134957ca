"""Long proofs about timers by command.

python -m campaigns.timer handover --count 10000 --ledger
"""

import argparse
import asyncio
import json
import sys

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from campaigns.timer.handover import Handover
from judges import ApacheNameServer


def main() -> int:
    """Run the campaign that the command line names."""
    arguments = argparse.ArgumentParser(prog="python -m campaigns.timer", description=__doc__)
    arguments.add_argument("campaign", choices=["handover"])
    arguments.add_argument("--count", type=int, default=10_000, help="timed messages of each handover")
    arguments.add_argument("--ledger", action="store_true", help=f"append the figures to {DEFAULT_PATH}")
    options = arguments.parse_args()
    ledger = Ledger("timer-handover", DEFAULT_PATH if options.ledger else None)
    failed = False
    with ApacheNameServer() as names:
        for to_apache in (False, True):
            for killed in (False, True):
                handover = Handover(names.address)
                try:
                    figures = asyncio.run(handover.play(options.count, to_apache=to_apache, killed=killed))
                finally:
                    handover.close()
                sys.stdout.write(json.dumps(ledger.add(figures)) + "\n")
                sys.stdout.flush()
                failed |= bool(figures["lost"] or figures["early"] or (figures["twice"] and not killed))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
