"""``python -m firearrow.testing.faults CAMPAIGN``: run a campaign, print its figures, record them."""

import argparse
import json
import logging
import sys

from firearrow.testing.faults.killing import SCENARIOS, Killing
from firearrow.testing.faults.ledger import DEFAULT_PATH, Figures, Ledger


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m firearrow.testing.faults", description="fault campaigns on real disks"
    )
    commands = parser.add_subparsers(required=True)
    for add in (_kill,):
        command = add(commands)
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    logging.getLogger("firearrow").addHandler(logging.NullHandler())
    sys.exit(given.run(given))


def _kill(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    command = commands.add_parser("kill", help="kill -9 at every system call that writes")
    command.add_argument("--part", default="0/1", help="K/N: every N-th point from the K-th on")
    command.set_defaults(run=_run_kill)
    return command


def _run_kill(given: argparse.Namespace) -> int:
    part, parts = map(int, given.part.split("/"))
    ledger = Ledger("store-kill", given.ledger)
    done = {(entry["scenario"], entry["part"], entry["seed"]) for entry in ledger.done()}
    failed = 0
    for scenario in SCENARIOS:
        if (scenario.name, given.part, given.seed) not in done:
            killing = Killing(scenario, given.seed)
            failed += _report(ledger, killing.run(part, parts) | {"seed": given.seed}, killing.broken)
    return 1 if failed else 0


def _report(ledger: Ledger, figures: Figures, broken: list[str]) -> int:
    """Print and record one piece of work; return how many complaints there are."""
    print(json.dumps(ledger.add(figures)), flush=True)  # noqa: T201
    for complaint in broken:
        print(complaint, file=sys.stderr)  # noqa: T201
    return len(broken)


if __name__ == "__main__":
    main()
