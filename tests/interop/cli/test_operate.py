"""Commands that operate a cluster, on Apache 5.5.0."""

import pytest

from judges import ApacheBroker, fresh
from judges.shared import SharedServers
from tests.interop.cli import operating
from tests.interop.cli.operating import Inside

pytestmark = pytest.mark.apache


@pytest.fixture(scope="module")
def apache(shared_servers: SharedServers) -> ApacheBroker:
    return shared_servers.broker("5.5.0")


def test_an_operators_day(apache: ApacheBroker) -> None:
    command, topic = Inside(apache.name_servers[0]), fresh("operating")
    operating.look_at_brokers(command, apache.name, command.json("cluster", "list")[0]["cluster"])
    operating.change_settings(command, apache.name)
    command("topic", "create", topic, "--queues", "4")
    operating.find_messages(command, topic)
    operating.take_and_give_permission(command, apache.name, topic)
    operating.change_groups(command, topic, fresh("operators"))
    operating.change_size(command, topic)
