"""``python -m tests.mistakes``: make all mistakes and tell what people see; ``--page`` writes that down.

Words choose the mistakes that have one of them in their name. The exit status is 1 when a line is late, or does not
name the thing, the reason and what to do.
"""

import argparse
import sys
from pathlib import Path

from tests.mistakes.page import PATH, page
from tests.mistakes.places import places
from tests.mistakes.run import CASES, Outcome, run_all


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="mistakes with one of these words")
    parser.add_argument("--page", nargs="?", const=PATH, help="write the page")
    given = parser.parse_args()
    chosen = [case for case in CASES if not given.words or any(word in case.mistake for word in given.words)]
    outcomes = []
    with places() as found:
        for case, outcome in zip(chosen, run_all(chosen, found), strict=True):
            if outcome is None:
                print(f"{case.mistake}: cannot be made on this machine")
                continue
            outcomes.append(outcome)
            _tell(outcome)
    wrong = sum(bool(outcome.faults) for outcome in outcomes)
    print(f"{len(outcomes)} mistakes, {wrong} of them told badly")
    if given.page and not given.words and not wrong:
        Path(given.page).write_text(page(outcomes))
    return 1 if wrong else 0


def _tell(outcome: Outcome) -> None:
    print(f"{outcome.seconds:5.2f} s  {outcome.case.mistake}: {outcome.line}", flush=True)
    for fault in outcome.faults:
        print(f"         FAULT: {fault}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
