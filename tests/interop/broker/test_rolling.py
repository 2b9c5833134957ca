"""Three brokers are restarted one after the other, as they are or as another version; one change a commit, in turn.

Clients look at routes every second here, and brokers drain for 5 s instead of 40. The same with the clients' own 30 s,
and with Go's client, is ``python -m campaigns.broker rolling``.
"""

import pytest

from campaigns.broker.rolling import CHANGES, QUICK, Change, rolls
from campaigns.rotation import this_turn

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.rotating
@pytest.mark.parametrize("change", this_turn(CHANGES, __name__))
def test_three_brokers_change_without_a_failed_send(change: Change) -> None:
    figures = rolls(change, QUICK)
    print(figures)
    assert figures["failed_sends"] == figures["lost"] == figures["order_breaks"] == 0
    assert figures["restarts"] >= 3
