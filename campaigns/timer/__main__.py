"""Long proofs about timers by command.

python -m campaigns.timer handover --count 10000 --ledger
python -m campaigns.timer burst --count 500000 --ledger
python -m campaigns.timer pending --count 10000000 --ledger
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Final

from campaigns.faults.ledger import DEFAULT_PATH, Figures, Ledger
from campaigns.timer.burst import brokers, burst
from campaigns.timer.handover import Handover
from campaigns.timer.pending import pending
from judges import ApacheNameServer

LONGEST_START_S: Final = 30
"""Seconds within which a broker with any number of pending timers serves."""


def handovers(name_server: str, count: int, only: str | None) -> Iterator[Figures]:
    """Hand timers over both ways, stopped and killed."""
    for to in ("ours", "apache"):
        for end in ("stopped", "killed"):
            if only not in (None, f"to-{to}-{end}"):
                continue
            handover = Handover(name_server)
            try:
                yield asyncio.run(handover.play(count, to_apache=to == "apache", killed=end == "killed"))
            finally:
                handover.close()


def bursts(name_server: str, count: int, only: str | None) -> Iterator[Figures]:
    """Deliver a burst with Apache's broker, then with ours."""
    for whose, broker in brokers(name_server).items():
        if only not in (None, whose):
            continue
        try:
            yield asyncio.run(burst(broker, count, whose))
        finally:
            broker.close()


def waits(name_server: str, count: int, _only: str | None) -> Iterator[Figures]:
    """Start brokers with millions of pending messages."""
    return pending(name_server, count)


def is_failure(figures: Figures) -> bool:
    """Whether figures break a promise of ours."""
    if figures.get("whose") == "apache":
        return False
    if figures.get("ready_s", 0) > LONGEST_START_S:
        return True
    lost = figures.get("lost", figures["timers"] - figures.get("delivered", figures["timers"]))
    return bool(lost or figures.get("early") or (figures.get("twice") and not figures.get("killed")))


def main() -> int:
    """Run the campaign that the command line names."""
    arguments = argparse.ArgumentParser(prog="python -m campaigns.timer", description=__doc__)
    arguments.add_argument("campaign", choices=["handover", "burst", "pending"])
    arguments.add_argument("--count", type=int, default=10_000, help="timed messages of each run")
    arguments.add_argument("--ledger", action="store_true", help=f"append the figures to {DEFAULT_PATH}")
    arguments.add_argument("--only", help="one run: apache or ours; of handover: to-ours-stopped, to-apache-killed ...")
    options = arguments.parse_args()
    ledger = Ledger(f"timer-{options.campaign}", DEFAULT_PATH if options.ledger else None)
    play = {"handover": handovers, "burst": bursts, "pending": waits}[options.campaign]
    failed = False
    with ApacheNameServer() as names:
        for figures in play(names.address, options.count, options.only):
            sys.stdout.write(json.dumps(ledger.add(figures)) + "\n")
            sys.stdout.flush()
            failed |= is_failure(figures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
