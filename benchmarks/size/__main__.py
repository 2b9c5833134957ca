"""A broker at size beside a small one: ``python -m benchmarks.size``, or a part: ``python -m benchmarks.size members``.

Raw frames over the wire. Every figure stands beside the same figure of a small broker in the same run, and has a limit.
Ends with 1 when one is broken. ``--scale 0.02`` is a slice for who has a minute.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator

from benchmarks.size.herd import of_pulls
from benchmarks.size.members import of_members
from benchmarks.size.names import of_names
from benchmarks.size.restarts import of_restarts
from benchmarks.size.state import of_offsets, of_topics
from benchmarks.size.steps import of_steps
from benchmarks.size.table import HEAD, Row, show
from campaigns.faults.ledger import DEFAULT_PATH, Ledger

Part = Callable[[float, float], Iterator[Row]]
"""Rows at a scale, each look so many times as long."""

PARTS: dict[str, Part] = {
    "topics": lambda scale, patience: of_topics(int(50_000 * scale), 35 * patience),
    "offsets": lambda scale, patience: of_offsets(int(400_000 * scale), 35 * patience),
    "names": lambda scale, patience: of_names(int(100_000 * scale), patience),
    "members": lambda scale, _patience: of_members(int(2_000 * scale)),
    "pulls": lambda scale, patience: of_pulls(int(2_000 * scale), patience),
    "steps": of_steps,
    "restarts": lambda scale, _patience: of_restarts(int(50_000 * scale)),
}


def main() -> int:
    """The command."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.size", description=__doc__)
    arguments.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    arguments.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    arguments.add_argument("--patience", type=float, default=1.0, help="how long each look lasts, 1 is 35 s")
    arguments.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
    options = arguments.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        arguments.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    chosen = options.parts or list(PARTS)
    ledger = Ledger("size", options.ledger)
    good = True
    print(HEAD, flush=True)
    for name in chosen:
        rows = list(show(PARTS[name](options.scale, options.patience)))
        figures = {row.what: [round(row.small, 2), round(row.large, 2), row.unit] for row in rows}
        broken = [row.what for row in rows if not row.holds]
        good = good and not broken
        if options.ledger:
            load = round(os.getloadavg()[1], 1)
            ledger.add({"part": name, "scale": options.scale, "load": load, "figures": figures, "broken": broken})
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
