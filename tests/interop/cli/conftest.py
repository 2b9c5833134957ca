"""Clusters of everybody, for commands: Apache's of both versions, and ours."""

from collections.abc import Iterator

import pytest

from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer
from judges.install.artifacts import SERVER_VERSIONS
from judges.shared import SharedServers
from tests.interop.cli.commands import Commands

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
def command(broker: ApacheBroker) -> Commands:
    """The commands, told where the cluster is by the environment."""
    return Commands(broker.name_servers[0])
