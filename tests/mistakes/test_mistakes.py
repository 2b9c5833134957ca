"""Some of the mistakes of each run, chosen by turns; ``python -m tests.mistakes`` makes all of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from campaigns.rotation import this_turn
from tests.mistakes.case import Case
from tests.mistakes.page import PATH
from tests.mistakes.places import places
from tests.mistakes.run import CASES, Outcome, run_all

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

CHOSEN = this_turn(CASES, __name__)


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Mapping[str, Outcome | None]]:
    """The outcomes of the mistakes of this turn, which are made a few at once."""
    with places() as found:
        yield dict(zip(map(name, CHOSEN), run_all(CHOSEN, found), strict=True))


def name(case: Case) -> str:
    return f"{'command' if case.is_command else 'program'}: {case.mistake}"


@pytest.mark.rotating
@pytest.mark.parametrize("case", CHOSEN, ids=name)
def test_the_first_line_is_told_well(case: Case, outcomes: Mapping[str, Outcome | None]) -> None:
    outcome = outcomes[name(case)]
    if outcome is None:
        pytest.skip("this machine does not allow it")
    assert not outcome.faults, outcome.screen


def test_the_page_has_them_all() -> None:
    assert len(set(map(name, CASES))) == len(CASES) >= 40
    page = Path(PATH).read_text()
    assert [case.mistake for case in CASES if f"| {case.mistake} |" not in page] == []
