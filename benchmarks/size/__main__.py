"""A broker at size beside a small one: ``python -m benchmarks.size``, or a part: ``python -m benchmarks.size members``.

Raw frames over the wire. Every figure stands beside the same figure of a small broker in the same run, and has a limit.
Ends with 1 when one is broken. ``--scale 0.02`` is a slice for who has a minute.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

from benchmarks.size.members import of_members
from benchmarks.size.restarts import of_restarts
from benchmarks.size.state import of_offsets, of_topics
from benchmarks.size.table import Row, show

Part = Callable[[float, float], Iterator[Row]]
"""Rows at a scale, each look so many times as long."""

PARTS: dict[str, Part] = {
    "topics": lambda scale, patience: of_topics(int(50_000 * scale), 35 * patience),
    "offsets": lambda scale, patience: of_offsets(int(400_000 * scale), 35 * patience),
    "members": lambda scale, _patience: of_members(int(2_000 * scale)),
    "restarts": lambda scale, _patience: of_restarts(int(50_000 * scale)),
}


def main() -> int:
    """The command."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.size", description=__doc__)
    arguments.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    arguments.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    arguments.add_argument("--patience", type=float, default=1.0, help="how long each look lasts, 1 is 35 s")
    options = arguments.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        arguments.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    chosen = options.parts or list(PARTS)
    rows = (row for name in chosen for row in PARTS[name](options.scale, options.patience))
    return 0 if show(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
