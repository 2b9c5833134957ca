"""``python -m tests.interop.client.kills --kills 20 --ledger``: the campaign, a line of figures for each piece.

100 producers in two processes, default settings at our broker, ``send_timeout_ms=15000`` at Apache's. A piece is five
kills of one broker; pieces that the ledger has of the same source are passed over. The exit status is 1 when a send
failed although the broker was back in time, or when something acknowledged was lost.
"""

import argparse
import json
import sys

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from tests.interop.client.kills.run import SIDES, run

KILLS_A_PIECE = 5


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each broker")
    parser.add_argument("--side", choices=SIDES, nargs="+", default=list(SIDES))
    parser.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    ledger = Ledger("client-kills", given.ledger)
    done = {(entry["side"], entry["seed"]) for entry in ledger.done() if not entry["broken"]}
    broken = 0
    for side in given.side:
        for seed in range(-(-given.kills // KILLS_A_PIECE)):
            if (side, seed) in done:
                continue
            came = run(side, min(KILLS_A_PIECE, given.kills - seed * KILLS_A_PIECE), seed)
            print(json.dumps(ledger.add({"side": side, "seed": seed} | came.figures())), flush=True)
            for complaint in came.broken:
                print(complaint, file=sys.stderr)
            broken += len(came.broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
