"""Our broker at Apache's name servers, alone and beside one of Apache's brokers."""

import pytest

from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, JudgeProcess, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.scenarios import exchange

pytestmark = pytest.mark.apache


@pytest.mark.parametrize("version", SERVER_VERSIONS)
def test_stock_clients_find_our_broker_through_apache_s_name_server(version: str) -> None:
    with (
        ApacheNameServer(version) as names,
        FireArrowBroker(name_servers=[names.address]) as broker,
        JudgeProcess("go") as client,
    ):
        exchange(client.at(names.address), broker.create_topic(fresh("at-apache")), 200)


def test_one_topic_on_our_broker_and_on_apache_s() -> None:
    with (
        ApacheNameServer() as names,
        FireArrowBroker(name_servers=[names.address], name="ours") as ours,
        ApacheBroker(name_servers=[names.address], name="theirs") as theirs,
        JudgeProcess("java-5.5.0") as client,
    ):
        topic = fresh("shared")
        for broker in (ours, theirs):
            broker.create_topic(topic)
        journey = exchange(client.at(names.address), topic, 400)
        assert {queue.partition(":")[0] for queue in journey.sent.queues} == {"ours", "theirs"}
