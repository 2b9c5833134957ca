"""`python -m benchmarks.hostile`: one hostile client of each kind beside a stock Java producer and consumer.

The broker has one core, its default settings and 10,000 descriptors; the stock clients and the hostile one share the
other core. The hostile client sends as fast as it can. Rounds take all kinds in turn. In every round deliveries are
measured alone, beside each attack, after its end until all is as before (5 s at most), and beside an ordinary busy
client. The ordinary client sends at most as many bytes a second as the attack and uses at most as much of its core;
attacks alike share one measurement in a round. The medians of the rounds must hold: p99 beside the attack is at most
twice that beside the ordinary client, the broker takes at most 128 MiB more, and all is as before after 5 s.

``--access off on`` takes both a broker that asks nobody who he is, and one that knows its users: then the stock and the
ordinary client have keys, the hostile one has none. With ``--ledger`` every attack of every round is a line, and those
that the ledger has of this commit are passed over, so that a run can be stopped and started again. The exit status is
1 if anything does not hold.
"""

import argparse
import sys

import msgspec

from benchmarks.hostile.attacks import ATTACKS
from benchmarks.hostile.rounds import RATE, Round, bench, broken, median
from campaigns.faults.ledger import DEFAULT_PATH, Ledger

TITLES = (
    "attack",
    "kB/s",
    "p99 alone",
    "beside ordinary",
    "beside attack",
    "times",
    "broker's CPU at p99: beside ordinary, attack, times",
    "CPU: attack, broker beside ordinary and attack",
    "memory",
    "descriptors",
    "opened/ended",
    "5 s after: times, memory",
)


def show(rounds: list[Round]) -> None:
    """One line of the table."""
    one = median(rounds)
    print(
        f"{rounds[0].kind:12} {one['kilobytes_a_second']:8.0f} {one['alone_p99_ms']:8.2f} ms "
        f"{one['busy_p99_ms']:8.2f} ms "
        f"{one['beside_p99_ms']:8.2f} ms  x{one['times']:5.2f}  "
        f"{one['busy_cpu_ms']:6.1f} {one['cpu_ms']:6.1f} ms x{one['cpu_times']:5.2f}  "
        f"{one['cpu']:4.0%} {one['busy_broker_cpu']:4.0%} {one['broker_cpu']:4.0%}  "
        f"{one['mib']:+6.0f} MiB  {one['descriptors']:6.0f}  {one['connections']:7.0f}/{one['ended']:<7.0f}  "
        f"x{one['times_after']:5.2f} {one['mib_after']:+5.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Read the words of the command line, and attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=" ".join(ATTACKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="how long each part of a round is measured")
    parser.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append a line for each attack here")
    parser.add_argument("--access", nargs="+", choices=("off", "on"), default=["off"], help="brokers that are attacked")
    given = parser.parse_args()
    kinds: list[str] = given.kinds or list(ATTACKS)
    ledger = Ledger("hostile-clients-in-turns", given.ledger)
    complaints: list[str] = []
    for access in given.access:
        taken = _taken(ledger, access, given.seconds)
        left = [(number, kind) for number in range(given.rounds) for kind in kinds if (number, kind) not in taken]
        if left:
            with bench(access=access == "on") as running:
                for number, kind in left:
                    one = taken[number, kind] = running.round(kind, given.seconds, number)
                    figures = {"access": access, "number": number, "seconds": given.seconds}
                    ledger.add(figures | {"round": msgspec.to_builtins(one)})
                    print(f"access {access}, round {number + 1}: ", end="")
                    show([one])
                complaints += running.failures()
        print(f"access {access}, medians of {given.rounds} rounds, {RATE} messages a second\n" + "  ".join(TITLES))
        for kind in kinds:
            rounds = [taken[number, kind] for number in range(given.rounds)]
            show(rounds)
            complaints += [f"access {access}: {found}" for found in broken(rounds)]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    sys.exit(1 if complaints else 0)


def _taken(ledger: Ledger, access: str, seconds: float) -> dict[tuple[int, str], Round]:
    """The attacks that the ledger has of this commit, by the number of the round and their kind."""
    taken = {}
    for entry in ledger.done():
        if (entry["access"], entry["seconds"]) == (access, seconds):
            one = msgspec.convert(entry["round"], Round)
            taken[entry["number"], one.kind] = one
    return taken


if __name__ == "__main__":
    main()
