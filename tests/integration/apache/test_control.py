"""The control run: Apache's own name server and broker with every stock client, before ours stand in for either."""

import pytest

from judges import ApacheBroker, Judge, fresh
from judges.scenarios import exchange

pytestmark = pytest.mark.apache

MESSAGES = 1000


def test_stock_client_sends_and_receives(judge: Judge, apache_broker: ApacheBroker) -> None:
    journey = exchange(judge, apache_broker.create_topic(fresh("control")), MESSAGES)
    assert len(journey.received.messages) == MESSAGES
    assert journey.received.digest == journey.sent.digest
