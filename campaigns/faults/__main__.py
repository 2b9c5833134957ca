"""``python -m campaigns.faults CAMPAIGN``: run a campaign, print its figures, record them.

Every campaign works in pieces, prints one line a piece and, with ``--ledger``, appends it; what the ledger has of the
same source is not done again. The exit status is 1 when anything was lost or wrong.
"""

import argparse
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from campaigns.faults.cuts import LIVES, Cutting
from campaigns.faults.kills import SCENARIOS, Killing
from campaigns.faults.ledger import DEFAULT_PATH, Figures, Ledger
from campaigns.faults.power_loss import PowerLoss
from campaigns.faults.refusals import REFUSALS, Refusing
from campaigns.faults.rot import Rotting
from campaigns.faults.small_disk import FullDisk, LyingDisk

Piece = tuple[dict[str, Any], Callable[[], tuple[Figures, list[str]]]]
"""The key of a piece of work, and the work."""
CYCLES_A_PIECE = 50
MUTANT_CYCLES = 200
PARTS = {"rot": 200}
"""Into how many pieces a long campaign is divided."""


def kill(given: argparse.Namespace) -> Iterator[Piece]:
    """Kill -9 at every system call that writes."""
    for scenario in SCENARIOS:
        for part, parts in _parts(given):
            killing = Killing(scenario, given.seed)
            name = {"scenario": scenario.name, "part": f"{part}/{parts}", "seed": given.seed}
            yield name, _points(killing, part, parts)


def refuse(given: argparse.Namespace) -> Iterator[Piece]:
    """EIO, ENOSPC and short writes at every call that changes something."""
    for flush in given.flush:
        for refusal in REFUSALS:
            for part, parts in _parts(given):
                refusing = Refusing(refusal, flush, given.seed)
                name = {"refusal": refusal.name, "flush": flush, "part": f"{part}/{parts}", "seed": given.seed}
                yield name, _points(refusing, part, parts)


class _ByPoints(Protocol):
    """A campaign that is done point by point."""

    broken: list[str]

    def run(self, part: int, parts: int) -> Figures:
        """Every ``parts``-th point from the ``part``-th on."""


def _points(campaign: _ByPoints, part: int, parts: int) -> Callable[[], tuple[Figures, list[str]]]:
    return lambda: (campaign.run(part, parts), campaign.broken)


def _parts(given: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """The one part that was asked for, or all of them in turn."""
    if given.part is not None:
        part, parts = map(int, given.part.split("/"))
        yield part, parts
    else:
        yield from ((part, given.parts) for part in range(given.parts))


def power(given: argparse.Namespace) -> Iterator[Piece]:
    """Power loss on loop-mounted file systems; ``--mutant`` plants a defect that must be caught."""
    pieces = -(-given.cycles // CYCLES_A_PIECE)
    for piece in range(pieces):
        for filesystem in given.filesystem:
            for flush in given.flush:
                seed = given.seed * 10_000 + piece
                cycles = min(CYCLES_A_PIECE, given.cycles - piece * CYCLES_A_PIECE)
                loss = PowerLoss(filesystem, flush, seed, given.mutant)
                name = {"filesystem": filesystem, "flush": flush, "seed": seed, "mutant": given.mutant}
                yield name, lambda loss=loss, cycles=cycles: _lose(loss, cycles, given.mutant)  # type: ignore[misc]


def cut(given: argparse.Namespace) -> Iterator[Piece]:
    """Power loss in place of every system call that writes, on ext4 and xfs."""
    for life in LIVES:
        if life.filesystem in given.filesystem and life.flush in given.flush:
            for part, parts in _parts(given):
                cutting = Cutting(life, given.seed)
                name = {"life": life.name, "part": f"{part}/{parts}", "seed": given.seed}
                yield name, _points(cutting, part, parts)


def _lose(loss: PowerLoss, cycles: int, mutant: str) -> tuple[Figures, list[str]]:
    if not mutant:
        return loss.run(cycles), loss.broken
    figures = loss.run(MUTANT_CYCLES, stop_when_broken=True)
    return figures, [] if loss.broken else [f"the planted defect {mutant} survived {MUTANT_CYCLES} cycles"]


def full(given: argparse.Namespace) -> Iterator[Piece]:
    """A disk that is full, and one that loses what it took."""
    for flush in given.flush:
        disk = FullDisk(flush, given.seed)
        name = {"case": "full disk", "flush": flush, "seed": given.seed}
        yield name, lambda disk=disk: (disk.run(), disk.broken)  # type: ignore[misc]
    lying = LyingDisk(given.seed)
    yield {"case": "lying disk", "seed": given.seed}, lambda: (lying.run(), lying.broken)


def rot(given: argparse.Namespace) -> Iterator[Piece]:
    """Every byte of a small store turned over in turn."""
    for part, parts in _parts(given):
        for closed in (True, False):
            rotting = Rotting(given.seed, closed=closed)
            name = {"store": "closed" if closed else "killed", "part": f"{part}/{parts}", "seed": given.seed}
            yield name, _points(rotting, part, parts)


CAMPAIGNS: dict[str, Callable[[argparse.Namespace], Iterator[Piece]]] = {
    "kill": kill,
    "refuse": refuse,
    "power": power,
    "cut": cut,
    "full": full,
    "rot": rot,
}
BOTH = ["SYNC_FLUSH", "ASYNC_FLUSH"]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.faults", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="campaign")
    for name, campaign in CAMPAIGNS.items():
        command = commands.add_parser(name, help=campaign.__doc__)
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
        command.add_argument("--flush", choices=BOTH, nargs="+", default=BOTH)
        if name in ("kill", "refuse", "rot", "cut"):
            command.add_argument("--part", default=None, help="K/N: every N-th point, or byte, from the K-th on")
            command.add_argument(
                "--parts",
                type=int,
                default=PARTS.get(name, 1),
                help="all points in so many pieces, one after the other",
            )
        if name in ("power", "cut"):
            command.add_argument("--filesystem", choices=("ext4", "xfs"), nargs="+", default=["ext4", "xfs"])
        if name == "power":
            command.add_argument("--cycles", type=int, default=1000, help="of each file system and flush mode")
            command.add_argument("--mutant", choices=("", "ack-before-sync", "no-directory-sync"), default="")
    given = parser.parse_args()
    logging.getLogger("firearrow").addHandler(logging.NullHandler())
    # Told to end, it takes down what it has mounted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(_run(given))


def _run(given: argparse.Namespace) -> int:
    ledger = Ledger(f"store-{given.campaign}", given.ledger)
    done = ledger.done()
    complaints = 0
    for name, work in CAMPAIGNS[given.campaign](given):
        if any(name.items() <= entry.items() for entry in done):
            continue
        figures, broken = work()
        print(json.dumps(ledger.add(figures | name)), flush=True)  # noqa: T201
        for complaint in broken:
            print(complaint, file=sys.stderr)  # noqa: T201
        complaints += len(broken)
    return 1 if complaints else 0


if __name__ == "__main__":
    main()
