"""Logs of a master and its slave compared byte for byte, after messages of mixed sizes and kills of both.

python -m campaigns.replication --messages 1000000 --ledger

Every pair of brokers gets so many messages, in rounds with new directories; each round kills the slave and the master
under load. With ``--ledger`` a command that was broken off goes on with the next round.
"""

import argparse
import json
import sys

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from campaigns.replication.copies import OURS, copied_across_kills

PAIRS = ((OURS, "5.5.0"), ("5.5.0", OURS), (OURS, "4.9.7"), ("4.9.7", OURS), (OURS, OURS))
SEGMENT_BYTES = 16 << 20
WAIT_SECONDS = 300.0


def main() -> int:
    """Run the campaign."""
    arguments = argparse.ArgumentParser(prog="python -m campaigns.replication", description=__doc__)
    arguments.add_argument("--messages", type=int, default=100_000, help="messages of each pair")
    arguments.add_argument("--round", type=int, default=50_000, help="messages of a round")
    arguments.add_argument("--only", help="one pair, as ours>5.5.0")
    arguments.add_argument("--ledger", action="store_true", help=f"append the figures to {DEFAULT_PATH}")
    given = arguments.parse_args()
    ledger = Ledger("replication", DEFAULT_PATH if given.ledger else None)
    for master, slave in PAIRS:
        pair = f"{master}>{slave}"
        if given.only not in (None, pair):
            continue
        done = sum(int(line["messages"]) for line in ledger.done() if line["pair"] == pair)
        while done < given.messages:
            count = min(given.round, given.messages - done)
            figures = copied_across_kills(master, slave, count, done + 1, SEGMENT_BYTES, WAIT_SECONDS)
            print(json.dumps(ledger.add(figures)), flush=True)  # noqa: T201
            done += count
    return 0


if __name__ == "__main__":
    sys.exit(main())
