"""Open transactions go from Apache's broker to ours and back, stopped in order or killed: none lost, none phantom."""

import pytest

from campaigns.broker.handover import Direction, Ending, cells, handed_over
from campaigns.rotation import this_turn
from tests.interop.store.sizes import SECONDS

pytestmark = [pytest.mark.apache, pytest.mark.timeout(SECONDS)]

HALVES = 40


@pytest.mark.rotating
@pytest.mark.parametrize(("version", "direction", "ending"), this_turn(list(cells()), __name__))
def test_open_transactions_are_handed_over(version: str, direction: Direction, ending: Ending) -> None:
    outcome = handed_over(version, direction, ending, HALVES)
    assert outcome.broken == [], outcome
    if ending == "stop":  # a killed broker of ours leaves queues that only a start completes
        assert outcome.open_before == HALVES * 3 // 5, "those without an end are open between the brokers"
    assert outcome.questions >= HALVES * 3 // 5
