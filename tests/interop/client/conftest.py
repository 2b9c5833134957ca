"""Brokers of everybody: Apache's of both versions, and ours."""

from collections.abc import Iterator

import pytest

from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer, Judge
from judges.install.artifacts import SERVER_VERSIONS
from judges.shared import SharedServers

OURS = "firearrow"


@pytest.fixture(scope="session", params=[*SERVER_VERSIONS, OURS])
def broker(shared_servers: SharedServers, request: pytest.FixtureRequest) -> Iterator[ApacheBroker]:
    """A broker of each kind in turn, registered at a name server of its kind."""
    if request.param != OURS:
        yield shared_servers.broker(str(request.param))
        return
    with FireArrowNameServer() as names, FireArrowBroker(name_servers=[names.address]) as ours:
        yield ours


@pytest.fixture
def java(shared_servers: SharedServers, broker: ApacheBroker) -> Iterator[Judge]:
    """Apache's own client, at the same broker."""
    process = shared_servers.client("java-5.5.0")
    yield process.at(broker.name_servers[0])
    process.reset()
