"""``python -m tests.mistakes``: make all mistakes and tell what people see."""

import sys

from tests.mistakes.commands import COMMANDS
from tests.mistakes.places import places
from tests.mistakes.programs import PROGRAMS
from tests.mistakes.run import run


def main() -> int:
    """The command."""
    wrong = 0
    with places() as found:
        for case in [*COMMANDS, *PROGRAMS]:
            if sys.argv[1:] and not any(word in case.mistake for word in sys.argv[1:]):
                continue
            outcome = run(case, found)
            if outcome is None:
                print(f"{case.mistake}: cannot be made here")
                continue
            wrong += bool(outcome.faults)
            print(f"{'FAULT' if outcome.faults else 'fine'} {case.mistake} ({outcome.seconds:.2f} s): {outcome.line}")
            for fault in outcome.faults:
                print(f"    {fault}")
    print(f"{wrong} are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
