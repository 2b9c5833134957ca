"""Every stock client does everything it can at our broker; what is not offered yet is refused and not lost."""

import pytest

from firearrow.testing.apache import FireArrowBroker, FireArrowNameServer, JudgeProcess, fresh
from firearrow.testing.apache.scenarios import SCENARIOS

pytestmark = pytest.mark.apache

NOT_OFFERED = {"sql", "transaction"}


@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - NOT_OFFERED))
def test_a_scenario(
    name: str, stock_client: JudgeProcess, our_names: FireArrowNameServer, our_broker: FireArrowBroker
) -> None:
    scenario = SCENARIOS[name]
    if not stock_client.can(*scenario.needs):
        pytest.skip(f"{stock_client.client} cannot")
    try:
        scenario.run(stock_client.at(our_names.address), our_broker.create_topic(fresh(name)))
    finally:
        stock_client.reset()


def test_a_prepared_message_is_refused(
    stock_client: JudgeProcess, our_names: FireArrowNameServer, our_broker: FireArrowBroker
) -> None:
    if not stock_client.can("transaction"):
        pytest.skip(f"{stock_client.client} cannot")
    topic = our_broker.create_topic(fresh("prepared"))
    judge = stock_client.at(our_names.address)
    assert judge.send(topic, 3, mode="transaction").failed == (0, 1, 2)
    sent = judge.send(topic, 1)
    judge.receive(topic, 1, settle_ms=500).assert_exactly(sent)
    stock_client.reset()
