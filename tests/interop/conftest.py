"""Our name server between Apache's brokers and the stock clients, shared by the whole run."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from judges import ApacheBroker, FireArrowNameServer
from judges.install.artifacts import SERVER_VERSIONS


@pytest.fixture(scope="session")
def firearrow_nameserver() -> Iterator[FireArrowNameServer]:
    """Our name server, as a process."""
    with FireArrowNameServer() as server:
        yield server


@pytest.fixture(scope="session")
def brokers_at_firearrow(firearrow_nameserver: FireArrowNameServer) -> Iterator[dict[str, ApacheBroker]]:
    """Apache's brokers of both versions, registered at our name server, started side by side."""
    with ExitStack() as stack:
        brokers = {version: _broker(version, firearrow_nameserver) for version in SERVER_VERSIONS}
        for broker in brokers.values():
            stack.callback(broker.close)
            broker.start(wait=False)
        for broker in brokers.values():
            broker.wait_ready()
        yield brokers


@pytest.fixture(params=SERVER_VERSIONS)
def broker_at_firearrow(brokers_at_firearrow: dict[str, ApacheBroker], request: pytest.FixtureRequest) -> ApacheBroker:
    """Each of them in turn."""
    return brokers_at_firearrow[str(request.param)]


def _broker(version: str, name_server: FireArrowNameServer) -> ApacheBroker:
    name = f"broker-{version.replace('.', '-')}"
    return ApacheBroker(version, name_servers=[name_server.address], name=name)
