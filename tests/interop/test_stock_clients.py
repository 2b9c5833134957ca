"""Apache's brokers registered at our name server, and every stock client sending and receiving through them."""

import pytest

from judges import ApacheBroker, FireArrowNameServer, JudgeProcess, fresh
from judges.scenarios import exchange

pytestmark = pytest.mark.apache

MESSAGES = 1000


def test_stock_client_finds_apache_broker(
    stock_client: JudgeProcess, broker_at_firearrow: ApacheBroker, firearrow_nameserver: FireArrowNameServer
) -> None:
    topic = broker_at_firearrow.create_topic(fresh("through-ours"))
    journey = exchange(stock_client.at(firearrow_nameserver.address), topic, MESSAGES)
    assert len(journey.received.messages) == MESSAGES
    stock_client.reset()
