"""`python -m benchmarks.soak`: our broker under load for a long time, beside Apache's, with deaths.

    python -m benchmarks.soak                            30 minutes
    python -m benchmarks.soak --minutes 2                what continuous integration runs
    python -m benchmarks.soak --minutes 480 --ledger     a night, recorded in docs/ledger.jsonl

A stock Java producer sends 1,500 messages a second to 32 queues; three groups, two of stock Java consumers and one of
ours, are each given all of them. In turns with Apache 5.5.0 and without trouble delays are compared; then our broker is
killed and restarted, and consumers with it; then the broker lives on while consumers are killed and restarted. The exit
status is 1, with a sentence for each, when an exception stands in a log, a message was lost, delivery p99 is more than
Apache's, the rate was not held, or memory or descriptors grew.
"""

import argparse
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.soak.figures import LONG, Figures, complaints
from benchmarks.soak.load import RATE
from benchmarks.soak.plan import planned
from benchmarks.soak.report import plot, table
from benchmarks.soak.run import Soak
from benchmarks.soak.sides import APACHE, OURS
from campaigns.faults.ledger import DEFAULT_PATH, Ledger


def say(text: str) -> None:
    """Tell whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def entry(figures: Figures, broken: list[str]) -> dict[str, object]:
    """Return the entry for the ledger."""
    steady = figures.steady
    return {
        "minutes": figures.minutes,
        "rate": figures.rate,
        "queues": figures.queues,
        "p99_ms": {
            side: [round(turn.whole.p99_ms, 2) for turn in figures.turns if turn.side == side]
            for side in (OURS, APACHE)
        },
        "p99_ratio": figures.ratio(OURS, APACHE),
        "events": len(figures.events),
        "acknowledged": figures.acknowledged,
        "failed_sends": figures.failed_sends,
        "lost": figures.lost,
        "exceptions": figures.exceptions,
        "steady_rate": round(figures.steady_rate),
        "steady_p99_ms": round(steady.p99_ms, 2) if steady else None,
        "anon_mib_by_thirds": [round(value, 1) for value in figures.thirds("anon_mib")],
        "descriptors_by_thirds": [round(value) for value in figures.thirds("descriptors")],
        "broken": broken,
    }


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second")
    parser.add_argument("--no-rival", action="store_true", help="without Apache's broker: no latency in turns")
    parser.add_argument("--most-ratio", type=float, default=LONG.p99_ratio, help="of delivery p99 to Apache's")
    parser.add_argument("--output", type=Path, default=Path("build/soak"), help="directory of what is written")
    parser.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    plan = planned(options.minutes, with_rival=not options.no_rival)
    figures = Soak(plan, options.minutes, options.rate, options.output, say).run()
    (options.output / "figures.json").write_bytes(msgspec.json.encode(figures))
    broken = complaints(figures, OURS, APACHE, LONG._replace(p99_ratio=options.most_ratio))
    Ledger("soak", options.ledger).add(entry(figures, broken))
    print("\n".join(table(figures)))
    picture = options.output / "soak.png"
    drawn = f"plot {picture}, " if plot(figures, picture) else ""
    print(f"\n{drawn}figures and logs in {options.output}")
    print("\n".join(f"BROKEN: {complaint}" for complaint in broken) or "all held")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
