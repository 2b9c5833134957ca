"""The detection table: faults that got past every suite once, put back one at a time, and what sees each now.

python -m tests.simulation.planted [A1 A2 ...]      prints the table; status 1 if anything is not caught, 2 if a name is
                                                    of no finding
"""

import logging
import re
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest

from tests.simulation.failoverplants import FAILOVER_PART_PLANTS, FAILOVER_PLANTS, GroupPlant
from tests.simulation.messageplants import MESSAGE_PLANTS
from tests.simulation.partplants import PART_PLANTS, PartPlant
from tests.simulation.plants import PLANTS, Plant
from tests.simulation.tableplants import TABLE_PLANTS
from tests.simulation.timerplants import TIMER_PLANTS

SEEDS: Final = 50
IN_CLUSTERS: Final[tuple[Plant | GroupPlant, ...]] = (*PLANTS, *FAILOVER_PLANTS)
"""Faults that are hunted in random clusters."""
IN_PARTS: Final[tuple[PartPlant, ...]] = (
    *PART_PLANTS, *MESSAGE_PLANTS, *FAILOVER_PART_PLANTS, *TABLE_PLANTS, *TIMER_PLANTS,
)  # fmt: skip
"""Faults that the test of their part sees."""


class Caught(NamedTuple):
    """A fault that was seen."""

    seeds: int
    """The number of seeds until then."""
    words: str
    """The first complaint."""
    is_expected: bool
    """Whether it is what this fault should be seen as."""


def caught(plant: Plant | PartPlant | GroupPlant, seeds: int = SEEDS) -> Caught | None:
    """Put a fault back and run seed after seed until it is seen; None when it is not."""
    with pytest.MonkeyPatch.context() as patch:
        plant.put_back(patch)
        for seed in range(seeds):
            try:
                plant.hunt(seed)
            except (Exception, pytest.fail.Exception) as raised:  # noqa: BLE001 - whatever a suite raises is what it saw
                error = _first(raised)
                line = traceback.extract_tb(error.__traceback__)[-1].line or ""
                words = f"{error}".partition("\n")[0] or line
                return Caught(seed + 1, words, is_expected=re.search(plant.rule, f"{error}\n{line}") is not None)
    return None


def _first(error: BaseException) -> BaseException:
    """The first error of a group of tasks, however deep; else the error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def named(findings: Sequence[str]) -> list[Plant | PartPlant | GroupPlant]:
    """The faults of findings, all faults where none is named; raise ``ValueError`` for a name without a fault."""
    plants: list[Plant | PartPlant | GroupPlant] = [*IN_CLUSTERS, *IN_PARTS]
    known = {plant.finding.split()[0] for plant in plants}
    if unknown := [finding for finding in findings if finding not in known]:
        raise ValueError(f"no fault is planted for {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [plant for plant in plants if not findings or plant.finding.split()[0] in findings]


def main() -> int:
    """Print the table."""
    logging.getLogger("firearrow").propagate = False
    try:
        wanted = named(sys.argv[1:])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    missed = 0
    print("| finding | planted bug | caught | seeds needed | seen as | seconds |\n|---|---|---|---|---|---|")
    for plant in wanted:
        began = time.perf_counter()
        found = caught(plant, 1 if isinstance(plant, PartPlant) else SEEDS)
        missed += found is None or not found.is_expected
        row = ["yes", str(found.seeds), found.words[:90]] if found else ["**no**", "", ""]
        print(f"| {plant.finding} | {plant.what} | {' | '.join(row)} | {time.perf_counter() - began:.0f} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
