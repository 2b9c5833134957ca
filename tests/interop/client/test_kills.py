"""A lone broker is killed under 100 producers; ``python -m tests.interop.client.kills`` takes more deaths."""

import pytest

from campaigns.rotation import this_turn, turn
from tests.interop.client.kills.run import IN_TIME_S, Side, run

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(300)]

KILLS: dict[Side, int] = {"standby": 3, "apache": 1}


@pytest.mark.rotating
@pytest.mark.parametrize("side", this_turn(list(KILLS), __name__))
def test_a_killed_broker_that_is_back_in_time_costs_no_send(side: Side) -> None:
    came = run(side, KILLS[side], turn() or 0)
    print(came.figures())
    assert came.broken == []
    assert came.acknowledged > 0
    if not came.in_time:
        pytest.skip(f"the broker was not back within {IN_TIME_S[side]} s on this machine: {came.figures()}")
