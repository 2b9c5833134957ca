"""The parts of a release.

python -m campaigns.supply reproducible     builds wheel and sdist twice and compares them, and dist/ with them
python -m campaigns.supply audit            known faults of everything in constraints.txt; status 3: no data
python -m campaigns.supply sbom             writes the bill of materials of what is in dist/
"""

import sys

from campaigns.supply.audit import audit
from campaigns.supply.bill import bill
from campaigns.supply.builds import reproducible

COMMANDS = {"reproducible": reproducible, "audit": audit, "sbom": bill}


def main() -> int:
    """Run a command."""
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    return COMMANDS[sys.argv[1]]()


if __name__ == "__main__":
    sys.exit(main())
