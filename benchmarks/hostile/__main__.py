"""`python -m benchmarks.hostile`: one hostile client of each kind beside a stock Java producer and consumer.

The broker has one core and 10,000 descriptors; the stock clients have the other core, and the hostile one what they
leave of it. In every round the clients are measured alone, beside the attack, and again 5 s after its end. The medians
of the rounds must hold: deliveries at p99 take at most twice as long, the broker takes at most 128 MiB more, and all is
as before after 5 s. With ``--ledger`` every kind of attack is a line, and kinds that the ledger has of this commit are
passed over, so that a run can be stopped and started again. The exit status is 1 if anything does not hold.
"""

import argparse
import sys

from benchmarks.hostile.attacks import ATTACKS
from benchmarks.hostile.rounds import RATE, Round, bench, broken, median
from campaigns.faults.ledger import DEFAULT_PATH, Ledger

TITLES = (
    "attack",
    "alone p99",
    "beside p99",
    "times",
    "memory",
    "descriptors",
    "opened/ended",
    "5 s after: times, memory",
)


def show(rounds: list[Round]) -> None:
    """One line of the table."""
    one = median(rounds)
    print(
        f"{rounds[0].kind:12} {one['alone_p99_ms']:8.2f} ms {one['beside_p99_ms']:8.2f} ms  x{one['times']:5.2f}  "
        f"{one['mib']:+6.0f} MiB  {one['descriptors']:6.0f}  {one['connections']:7.0f}/{one['ended']:<7.0f}  "
        f"x{one['times_after']:5.2f} {one['mib_after']:+5.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Read the words of the command line, and attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(ATTACKS), help=" ".join(ATTACKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each part of a round is measured")
    parser.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append a line for each kind of attack here")
    given = parser.parse_args()
    ledger = Ledger("hostile-clients", given.ledger)
    done = {entry["kind"] for entry in ledger.done()}
    left = [kind for kind in given.kinds if kind not in done]
    if not left:
        print("the ledger has all of them at this commit")
        return
    complaints: list[str] = []
    with bench() as running:
        print(f"medians of {given.rounds} rounds, {RATE} messages a second\n" + "  ".join(TITLES), flush=True)
        for kind in left:
            rounds = [running.round(kind, given.seconds) for _ in range(given.rounds)]
            show(rounds)
            found = broken(rounds)
            figures = {key: round(value, 2) for key, value in median(rounds).items()}
            ledger.add({"kind": kind, "rounds": given.rounds, "seconds": given.seconds} | figures | {"broken": found})
            complaints += found
        complaints += running.failures()
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
